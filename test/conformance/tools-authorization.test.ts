/** What a run is told where the list before a call is turned away, and with which grant the tools are listed (F13, ADR 0033, 0038). */
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { createMemoryStore } from '../../activities/artifacts/memory.ts';
import { createToolsetLoader } from '../../activities/catalog/reader.ts';
import { Conditions } from '../../activities/policy/condition.ts';
import type { TokenBroker, TokenRequest } from '../../activities/tokens/port.ts';
import { createCallTool } from '../../activities/gate/call-tool.ts';
import { pinnedTools, stored } from '../../activities/gate/discover-tools.ts';
import { createLiveTools, type LiveTools, type Principal } from '../../activities/discovery/access.ts';
import { createMcpToolServer } from '../../activities/mcp/mcp-server.ts';
import { ServerLimits } from '../../activities/limits/server-limits.ts';
import type { DispatchInput, DispatchResult } from '../../contracts/wire/tools.ts';
import { CountersignError, type ErrorCode } from '../../contracts/errors.ts';
import { Config } from '../../contracts/schemas/config.ts';
import { loopbackEgress } from '../support/egress.ts';
import { aDefinition } from '../support/activities/tool-call.ts';
import { type RawServer, startRawServer } from '../support/servers/raw-server.ts';
import { allowedDispatch, inActivity } from '../support/activities/tool-activities.ts';
import type { AuthorizationProof } from '../../contracts/wire/proofs.ts';

const OLD = { server: 'files', ref: 'ann-files' };
const FRESH = { server: 'files', ref: 'ann-files-2' };

let server: RawServer;
let principals: Principal[];
let mints: TokenRequest[];
/** Given in turn; none where a test names none. */
let tokens: string[];
beforeEach(async () => {
  server = await startRawServer({ era: 'modern' });
  [principals, mints, tokens] = [[], [], []];
});
afterEach(async () => server.close());

const broker: TokenBroker = {
  mint: async (request) => {
    mints.push(request);
    const accessToken = tokens.shift();
    const with_ = accessToken === undefined ? {} : { accessToken, secrets: [`${accessToken}-exchanged`] };
    return { evidence: { strategy: 'none' }, secrets: [], ...with_ };
  },
};

async function dispatched(current: LiveTools['current'], over: Partial<DispatchInput> = {}): Promise<DispatchResult> {
  const artifacts = createMemoryStore();
  const binding = { name: 'files', url: server.url };
  const toolset = [{ server: 'files', tools: await stored(artifacts, pinnedTools(binding, [aDefinition()])) }];
  const loadToolset = createToolsetLoader(artifacts);
  const [tool] = await loadToolset(toolset);
  if (tool === undefined) throw new Error('no tool');
  const callTool = createCallTool({
    config: Config.parse({ servers: { files: { url: server.url } }, policy: { strategy: 'never' } }),
    conditions: new Conditions(),
    loadToolset,
    readCatalog: async () => undefined,
    broker,
    server: createMcpToolServer({ artifacts, egress: loopbackEgress() }),
    limits: new ServerLimits({ configured: new Map(), tell: () => {} }),
    liveTools: {
      current: async (principal, ...rest) => {
        principals.push(principal);
        return await current(principal, ...rest);
      },
    },
  });
  const input = { ...allowedDispatch(tool, {}, toolset, { server: binding }), grant: OLD, ...over };
  return await inActivity(callTool, input);
}

const calls = (): number => server.seen.filter(({ rpcMethod }) => rpcMethod === 'tools/call').length;

test.each<ErrorCode>(['TOOL_UNAUTHORIZED', 'GRANT_EXPIRED', 'GRANT_LOST'])(
  '%s before the call: nothing is sent, and the run may ask for a fresh grant',
  async (code) => {
    const result = await dispatched(() => Promise.reject(new CountersignError(code, 'turned away')));
    expect(result).toEqual({
      kind: 'ended',
      outcome: { kind: 'failed', code, message: 'turned away', executed: false },
      authorization: { reason: code, message: 'turned away', wants: 'grant' },
    });
    expect(calls()).toBe(0);
    expect(mints).toEqual([]);
  },
);

test('a tool that is gone is nothing to ask an authorization for', async () => {
  const result = await dispatched(() => Promise.reject(new CountersignError('TOOL_UNKNOWN', 'gone')));
  expect(result).toMatchObject({ kind: 'ended', outcome: { code: 'TOOL_UNKNOWN', executed: false } });
  expect(result).not.toHaveProperty('authorization');
});

test('a fresh grant lists the tools, too', async () => {
  const proof = (grantor: string): AuthorizationProof => ({
    answer: {
      kind: 'grant',
      decisionId: 'd1',
      callId: 't0.c0',
      digest: '0'.repeat(64),
      runId: 'run-1',
      approver: { id: grantor, groups: [] },
      grant: FRESH,
    },
    about: { kind: 'authorization', server: 'files', reason: 'GRANT_EXPIRED', message: 'm', wants: 'grant', round: 1 },
    generation: 1,
    approvers: { allOf: [{ layer: 'default', ids: ['ann'], groups: [] }] },
    definitionHash: '0'.repeat(64),
    openedAt: '2026-01-01T00:00:00.000Z',
    deadline: '2026-01-02T00:00:00.000Z',
    decidedAt: '2026-01-01T01:00:00.000Z',
  });
  await dispatched(async (_, tool) => ({ tool, secrets: [] }), { authorizations: [proof('ann')] });
  await dispatched(async (_, tool) => ({ tool, secrets: [] }), { authorizations: [proof('eve')] });
  expect(principals.map(({ grant }) => grant)).toEqual([FRESH, OLD]);
  expect(mints.map(({ grant }) => grant)).toEqual([FRESH, OLD]);
});

test('INV-S1: a server that tells of earlier requests gives no token away that this call has held: of both lists, and the refused one', async () => {
  tokens = ['canary-list-1', 'canary-list-2', 'canary-call-1', 'canary-call-2'];
  const given = [...tokens];
  let refusals = 2;
  server.become({
    era: 'modern',
    pages: [[aDefinition()]],
    intercept: ({ headers }, response, rpcMethod) => {
      // The first token of each purpose.
      if (rpcMethod === undefined || headers.authorization?.endsWith('-1') !== true || refusals === 0) return false;
      if (!['tools/list', 'tools/call'].includes(rpcMethod)) return false;
      refusals -= 1;
      response.writeHead(401).end();
      return true;
    },
    onCall: ({ result, execute }) => {
      execute();
      const headers = server.seen.map((request) => request.headers.authorization);
      const text = JSON.stringify([headers, given.map((token) => `${token}-exchanged`)]);
      result({ content: [{ type: 'text', text }] });
    },
  });
  const config = Config.parse({ servers: { files: { url: server.url, recheckSeconds: 0 } } });
  const tools = createMcpToolServer({ artifacts: createMemoryStore(), egress: loopbackEgress() });
  const live = createLiveTools({ config, broker, server: tools });
  const result = await dispatched(live.current);
  expect(result).toMatchObject({ kind: 'ended', outcome: { kind: 'succeeded' } });
  const seen = server.seen.map(({ headers }) => headers.authorization ?? '');
  expect(given.filter((token) => seen.includes(`Bearer ${token}`))).toEqual(given);
  expect(JSON.stringify(result)).toContain('[redacted]');
  expect(JSON.stringify(result)).not.toContain('canary');
});
