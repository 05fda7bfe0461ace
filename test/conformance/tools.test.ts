/** What every `ToolServer` does, whatever speaks the protocol underneath: the MCP adapter against the suite of its port. */
import { createMemoryStore } from '../../activities/artifacts/memory.ts';
import { LEGACY_CALLS } from '../../activities/mcp/legacy-2025/legacy-calls.ts';
import { createMcpToolServer } from '../../activities/mcp/mcp-server.ts';
import type { ToolServerHarness } from '../support/activities/tool-call.ts';
import { loopbackEgress } from '../support/egress.ts';
import { failureSuite } from './tools-failure.suite.ts';
import { listSuite } from './tools-list.suite.ts';
import { resourceSuite } from './tools-resource.suite.ts';
import { oversizedSuite, resultSuite } from './tools-result.suite.ts';
import { secretSuite } from './tools-secret.suite.ts';
import { sessionSuite, stopSuite } from './tools-session.suite.ts';

const MCP_CLIENT: ToolServerHarness = {
  name: 'MCP client 2.x',
  create: (parts = {}) =>
    createMcpToolServer({ legacy: LEGACY_CALLS, artifacts: createMemoryStore(), egress: loopbackEgress(), ...parts }),
};

for (const suite of [
  listSuite,
  sessionSuite,
  stopSuite,
  failureSuite,
  resultSuite,
  oversizedSuite,
  resourceSuite,
  secretSuite,
])
  suite(MCP_CLIENT);
