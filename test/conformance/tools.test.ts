/** The MCP adapter against the suite of its port. */
import { createMemoryStore } from '../../activities/artifacts/memory.ts';
import { LEGACY_CALLS } from '../../activities/mcp/legacy-2025/legacy-calls.ts';
import { createMcpToolServer } from '../../activities/mcp/mcp-server.ts';
import { loopbackEgress } from '../support/egress.ts';
import { toolServerSuite } from './tools.suite.ts';

toolServerSuite({
  name: 'MCP client 2.x',
  create: (parts = {}) =>
    createMcpToolServer({ legacy: LEGACY_CALLS, artifacts: createMemoryStore(), egress: loopbackEgress(), ...parts }),
});
