/**
 * Calls through the activity that a run schedules: the failure matrix (rows 2.1 and 2.4 of `rows.json`), and what a run
 * is told where the list before a call is turned away (INV-X1, INV-X2; F13, ADR 0033, 0038).
 */
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { createMemoryStore } from '../../activities/artifacts/memory.ts';
import { createLiveTools, type LiveTools, type Principal } from '../../activities/discovery/access.ts';
import { createMcpToolServer } from '../../activities/mcp/mcp-server.ts';
import type { TokenBroker, TokenRequest } from '../../activities/tokens/port.ts';
import { defined } from '../../contracts/defined.ts';
import { CountersignError, type ErrorCode } from '../../contracts/errors.ts';
import { Config } from '../../contracts/schemas/config.ts';
import type { AuthorizationProof } from '../../contracts/wire/proofs.ts';
import type { DispatchInput, DispatchResult } from '../../contracts/wire/tools.ts';
import { hashOf } from '../../domain/text/canonical.ts';
import { environmentOfRun, inActivity, RUN } from '../support/activities/tool-activities.ts';
import { toolBench } from '../support/activities/tool-bench.ts';
import { aDefinition } from '../support/activities/tool-call.ts';
import { loopbackEgress } from '../support/egress.ts';
import { type RawServer, startRawServer } from '../support/servers/raw-server.ts';
import { FAILURE_ROWS, type FailureRow, serveRow } from './tools-failure.suite.ts';

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

let server: RawServer;
beforeEach(async () => void (server = await startRawServer({ era: 'modern' })));
afterEach(async () => server.close());
const calls = () => server.seen.filter(({ rpcMethod }) => rpcMethod === 'tools/call');

describe.each(['modern', 'legacy'] as const)('a run’s call at a %s server', (era) => {
  test.each(FAILURE_ROWS.filter(({ eras }) => eras?.includes(era) !== false))('$id $title', async (row) => {
    serveRow(server, era, row);
    const { executions, call, connection } = row;
    const token = defined({ accessToken: connection?.accessToken });
    const { callTool, input } = await toolBench(server.url, {
      definitions: [call?.definition ?? aDefinition()],
      broker: { mint: async () => ({ evidence: { strategy: 'none' }, secrets: [], ...token }) },
    });
    const limits = { resultBytes: 65_536, callTimeoutSeconds: (call?.timeoutMs ?? 20_000) / 1_000 };
    const result = await inActivity(callTool, input({}, { limits }));
    expect({ ...seenIn(result), executions: server.executions() }).toEqual({ ...expectedOf(row), executions });
    const keys = calls().map(({ headers }) => headers['idempotency-key']);
    expect(keys).toEqual([expect.stringMatching(new RegExp(`^${RUN.workflowId}/t1[.]c0/[0-9a-f]{16}$`))]);
  });
});

describe('the idempotency key of a run, whatever its id holds', () => {
  const keyOf = async (workflowId: string): Promise<unknown> => {
    const { callTool, input } = await toolBench(server.url);
    const call = input({}, { run: { ...RUN, workflowId } });
    expect(seenIn(await environmentOfRun(undefined, workflowId).run(callTool, call)).class).toBe('executed');
    const { headers, params } = calls().at(-1) ?? {};
    const key = headers?.['idempotency-key'];
    expect(params?.['_meta']).toMatchObject({ 'countersign/idempotency-key': key });
    return key;
  };

  test.each(['modern', 'legacy'] as const)('INV-X1: a call of any run reaches a %s server', async (era) => {
    server.become({ era });
    expect(await keyOf('订单-42')).toMatch(/^%E8%AE%A2%E5%8D%95-42\/t1[.]c0\/[0-9a-f]{16}$/);
    expect(await keyOf('a\u0001b')).toMatch(/^a%01b\/t1[.]c0\/[0-9a-f]{16}$/);
    // A header loses white space at its beginning, and with it what tells this run from another.
    expect(await keyOf(' 42')).toMatch(/^%2042\/t1[.]c0\/[0-9a-f]{16}$/);
  });

  test.each(['run-1', 'order 42', '100%', 'café-42'])('what a header carries stays as it is: %s', async (id) => {
    expect(await keyOf(id)).toBe(`${id}/t1.c0/${digest()}`);
  });

  test('two runs have two keys, also if one is called what the id of the other is encoded to', async () => {
    const [one, other] = [await keyOf('订'), await keyOf('%E8%AE%A2')];
    expect(other).toBe(`%E8%AE%A2/t1.c0/${digest()}`);
    expect(one).not.toBe(other);
  });

  const digest = (): string => hashOf({ serverUrl: server.url, tool: aDefinition().name, arguments: {} }).slice(0, 16);
});

describe('the list before a call', () => {
  const OLD = { server: 'files', ref: 'ann-files' };
  const FRESH = { server: 'files', ref: 'ann-files-2' };
  let principals: Principal[];
  let mints: TokenRequest[];
  /** Given in turn; none where a test names none. */
  let tokens: string[];
  beforeEach(() => {
    [principals, mints, tokens] = [[], [], []];
  });

  const broker: TokenBroker = {
    mint: async (request) => {
      mints.push(request);
      const accessToken = tokens.shift();
      const with_ = accessToken === undefined ? {} : { accessToken, secrets: [`${accessToken}-exchanged`] };
      return { evidence: { strategy: 'none' }, secrets: [], ...with_ };
    },
  };

  async function dispatched(current: LiveTools['current'], over: Partial<DispatchInput> = {}): Promise<DispatchResult> {
    const { callTool, input } = await toolBench(server.url, {
      broker,
      liveTools: {
        current: async (principal, ...rest) => {
          principals.push(principal);
          return await current(principal, ...rest);
        },
      },
    });
    return await inActivity(callTool, input({}, { grant: OLD, ...over }));
  }

  test.each<ErrorCode>(['TOOL_UNAUTHORIZED', 'GRANT_EXPIRED', 'GRANT_LOST'])(
    '%s before the call: nothing is sent, and the run may ask for a fresh grant',
    async (code) => {
      const result = await dispatched(() => Promise.reject(new CountersignError(code, 'turned away')));
      expect(result).toEqual({
        kind: 'ended',
        outcome: { kind: 'failed', code, message: 'turned away', executed: false },
        authorization: { reason: code, message: 'turned away', wants: 'grant' },
      });
      expect([calls(), mints]).toEqual([[], []]);
    },
  );

  test('a tool that is gone is nothing to ask an authorization for', async () => {
    const result = await dispatched(() => Promise.reject(new CountersignError('TOOL_UNKNOWN', 'gone')));
    expect(result).toMatchObject({ kind: 'ended', outcome: { code: 'TOOL_UNKNOWN', executed: false } });
    expect(result).not.toHaveProperty('authorization');
  });

  test('a fresh grant lists the tools, too', async () => {
    const said = { kind: 'grant', decisionId: 'd1', callId: 't0.c0', digest: '0'.repeat(64), runId: 'run-1' } as const;
    const proof = (grantor: string): AuthorizationProof => ({
      answer: { ...said, approver: { id: grantor, groups: [] }, grant: FRESH },
      about: {
        kind: 'authorization',
        server: 'files',
        reason: 'GRANT_EXPIRED',
        message: 'm',
        wants: 'grant',
        round: 1,
      },
      generation: 1,
      approvers: { allOf: [{ layer: 'default', ids: ['ann'], groups: [] }] },
      definitionHash: '0'.repeat(64),
      openedAt: '2026-01-01T00:00:00.000Z',
      deadline: '2026-01-02T00:00:00.000Z',
      decidedAt: '2026-01-01T01:00:00.000Z',
    });
    for (const grantor of ['ann', 'eve'])
      await dispatched(async (_, tool) => ({ tool, secrets: [] }), { authorizations: [proof(grantor)] });
    expect(principals.map(({ grant }) => grant)).toEqual([FRESH, OLD]);
    expect(mints.map(({ grant }) => grant)).toEqual([FRESH, OLD]);
  });

  test('INV-S1: a server that tells of earlier requests gives no token away that this call has held: of both lists, and the refused one', async () => {
    tokens = ['canary-list-1', 'canary-list-2', 'canary-call-1', 'canary-call-2'];
    const given = [...tokens];
    let refusals = 2;
    const heard = () => server.seen.map(({ headers }) => headers.authorization ?? '');
    server.become({
      era: 'modern',
      pages: [[aDefinition()]],
      intercept: ({ headers }, response, rpcMethod = '') => {
        // The first token of each purpose.
        if (headers.authorization?.endsWith('-1') !== true || refusals === 0) return false;
        if (!['tools/list', 'tools/call'].includes(rpcMethod)) return false;
        refusals -= 1;
        response.writeHead(401).end();
        return true;
      },
      onCall: ({ text, execute }) => {
        execute();
        text(JSON.stringify([heard(), given.map((token) => `${token}-exchanged`)]));
      },
    });
    const config = Config.parse({ servers: { files: { url: server.url, recheckSeconds: 0 } } });
    const tools = createMcpToolServer({ artifacts: createMemoryStore(), egress: loopbackEgress() });
    const result = await dispatched(createLiveTools({ config, broker, server: tools }).current);
    expect(result).toMatchObject({ kind: 'ended', outcome: { kind: 'succeeded' } });
    expect(given.filter((token) => heard().includes(`Bearer ${token}`))).toEqual(given);
    expect(JSON.stringify(result)).toContain('[redacted]');
    expect(JSON.stringify(result)).not.toContain('canary');
  });
});
