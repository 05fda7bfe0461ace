/**
 * The failure matrix (rows 2.1 and 2.4 of `rows.json`) through the activity that a run calls: for each row the class of its end, the code that
 * the run records, whether it is sent again, and how often it ran by the server's own count (INV-X1, INV-X2).
 */
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { createMemoryStore } from '../../activities/artifacts/memory.ts';
import { createToolsetLoader } from '../../activities/catalog/reader.ts';
import { Conditions } from '../../activities/policy/condition.ts';
import { createCallTool } from '../../activities/gate/call-tool.ts';
import { pinnedTools, stored } from '../../activities/gate/discover-tools.ts';
import { createMcpToolServer } from '../../activities/mcp/mcp-server.ts';
import { defined } from '../../contracts/defined.ts';
import type { DispatchResult } from '../../contracts/wire/tools.ts';
import { Config } from '../../contracts/schemas/config.ts';
import { aDefinition } from '../support/activities/tool-call.ts';
import { type RawServer, startRawServer } from '../support/servers/raw-server.ts';
import { allowedDispatch, inActivity, RUN } from '../support/activities/tool-activities.ts';
import { FAILURE_ROWS, type FailureRow, serveRow } from './tools-failure.suite.ts';
import { ServerLimits } from '../../activities/limits/server-limits.ts';
import { loopbackEgress } from '../support/egress.ts';

/** By the run: `always` where it is proven that nothing ran, `if repeatable` where the operator lists the tool as that. */
type Again = 'always' | 'if repeatable' | 'never';

interface Expected {
  readonly class: 'not sent' | 'rejected' | 'executed' | 'unknown';
  readonly code: string | undefined;
  readonly again: Again;
}

/** What the row says of its end at the port, as it must come to the run. */
function expectedOf({ ends }: FailureRow): Expected {
  const { kind, code, isError } = ends;
  switch (kind) {
    case 'executed':
      return { class: 'executed', code: isError === true ? 'TOOL_FAILED' : undefined, again: 'never' };
    case 'refused': {
      // Said before execution, and only for now.
      const isBusy = code === 'TOOL_RATE_LIMITED' || ends['retryAfterMs'] !== undefined;
      return { class: isBusy ? 'not sent' : 'rejected', code: String(code), again: isBusy ? 'always' : 'never' };
    }
    case 'unknown':
      return { class: 'unknown', code: 'OUTCOME_UNKNOWN', again: 'if repeatable' };
    default:
      throw new Error(`no row ends as ${String(kind)}`);
  }
}

function seenIn(result: DispatchResult): Expected {
  if (result.kind === 'not-sent') return { class: 'not sent', code: result.code, again: 'always' };
  if (result.kind !== 'ended') throw new Error(`the call was ${result.kind}: ${'code' in result ? result.code : ''}`);
  const { outcome } = result;
  if (outcome.kind === 'unknown') return { class: 'unknown', code: outcome.code, again: 'if repeatable' };
  if (outcome.kind === 'succeeded') return { class: 'executed', code: undefined, again: 'never' };
  if (outcome.kind !== 'failed') throw new Error(`the call is ${outcome.kind}`);
  return { class: outcome.executed ? 'executed' : 'rejected', code: outcome.code, again: 'never' };
}

describe.each(['modern', 'legacy'] as const)('a run’s call at a %s server', (era) => {
  let server: RawServer;
  beforeEach(async () => void (server = await startRawServer({ era })));
  afterEach(async () => server.close());

  test.each(FAILURE_ROWS.filter(({ eras }) => eras?.includes(era) !== false))('$id $title', async (row) => {
    serveRow(server, era, row);
    const { executions, call, connection } = row;
    const definition = call?.definition ?? aDefinition();
    const artifacts = createMemoryStore();
    const binding = { name: 'files', url: server.url };
    const toolset = [{ server: binding.name, tools: await stored(artifacts, pinnedTools(binding, [definition])) }];
    const loadToolset = createToolsetLoader(artifacts);
    const [tool] = await loadToolset(toolset);
    if (tool === undefined) throw new Error('no tool');
    const { accessToken } = connection ?? {};
    const callTool = createCallTool({
      config: Config.parse({ servers: { files: { url: server.url } }, policy: { strategy: 'never' } }),
      conditions: new Conditions(),
      loadToolset,
      readCatalog: async () => undefined,
      broker: {
        mint: async () => ({
          evidence: { strategy: 'none' },
          secrets: [],
          ...defined({ accessToken }),
        }),
      },
      server: createMcpToolServer({ artifacts, egress: loopbackEgress() }),
      limits: new ServerLimits({ configured: new Map(), tell: () => {} }),
      liveTools: { current: async (_, listed) => ({ tool: listed, secrets: [] }) },
    });
    const callTimeoutSeconds = (call?.timeoutMs ?? 20_000) / 1_000;
    const input = allowedDispatch(tool, {}, toolset, { callTimeoutSeconds, server: binding });
    const result = await inActivity(callTool, input);
    expect({ ...seenIn(result), executions: server.executions() }).toEqual({ ...expectedOf(row), executions });
    const calls = server.seen.filter(({ rpcMethod }) => rpcMethod === 'tools/call');
    expect(calls.map(({ headers }) => headers['idempotency-key'])).toEqual([`${RUN.workflowId}/t1.c0`]);
  });
});
