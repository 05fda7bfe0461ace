/** The MCP adapter against the suite of its port. */
import { createMemoryStore } from '../../activities/artifacts/memory.ts';
import { createMcpToolServer } from '../../activities/mcp/mcp-server.ts';
import { loopbackEgress } from '../support/egress.ts';
import { toolServerSuite } from './tools.suite.ts';

toolServerSuite({
  name: 'MCP client 2.x',
  create: (parts = {}) => createMcpToolServer({ artifacts: createMemoryStore(), egress: loopbackEgress(), ...parts }),
});
