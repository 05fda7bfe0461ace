/**
 * Tokens minted for one call, from an authorization server that we did not write to the tool server (INV-S2, S1.5, H-2,
 * F13, F14, F15): what the tool server is shown, and what is tried again.
 */
import { beforeAll, expect, test } from '@jest/globals';
import { decodeJwt } from 'jose';
import type { RunHandle } from '../../client/index.ts';
import type { LedgerEntry } from '../../contracts/schemas/ledger.ts';
import { modelText } from '../../domain/views/model-text.ts';
import { sightingsInHistory } from '../support/canary/stores.ts';
import { executionsOf, expectSound } from '../support/faults/oracle.ts';
import { startProvider } from '../support/oauth/provider.ts';
import { startRawServer, succeedWith } from '../support/servers/raw-server.ts';
import { factsOf, replayOwn, results } from '../support/world/run-record.ts';
import { decideNext, useWorld } from '../support/world/world.ts';
import { silenceProvider } from '../conformance/tokens.suite.ts';
import { during } from '../support/world/during.ts';

const LONG_MS = 120_000;
const CLIENT = { id: 'countersign', secret: 'client-secret-3a7f/19+c0=' };
const TOOLS = ['read', 'write', 'stale', 'never', 'greedy', 'gated'];

let run: RunHandle;
let ledger: readonly LedgerEntry[];

silenceProvider();
const server = during(() =>
  startRawServer({
    era: 'modern',
    tools: {
      read: succeedWith('done'),
      write: succeedWith('done'),
      gated: succeedWith('done'),
      stale: (exchange, attempt) => (attempt === 1 ? exchange.status(401) : succeedWith('done')(exchange, attempt)),
      never: (exchange) => exchange.status(401),
      greedy: (exchange) =>
        exchange.status(403, { 'www-authenticate': 'Bearer error="insufficient_scope", scope="notes:read admin"' }),
    },
  }),
);
const SCOPE = 'notes:list notes:read notes:write admin';
const provider = during(() => startProvider({ clients: [CLIENT], resources: { [server.url]: SCOPE } }));
const world = useWorld(() => {
  const credentials = {
    kind: 'client-credentials' as const,
    issuer: provider.issuer,
    clientId: CLIENT.id,
    clientSecret: CLIENT.secret,
    scopes: { discovery: ['notes:list'], default: ['notes:read'], tools: { write: ['notes:write'] } },
  };
  return {
    config: {
      servers: { notes: { url: server.url, credentials } },
      policy: {
        missingAuthorization: 'fail',
        approvers: { ids: ['bob'] },
        servers: { notes: { default: 'allow', tools: { gated: 'ask' } } },
      },
    },
  };
});
beforeAll(async () => {
  run = await world.start([{ calls: TOOLS.map((tool) => ({ tool: `notes/${tool}` })) }, { text: 'Done.' }]);
  await decideNext(run, 'bob');
  await run.result();
  ledger = await run.ledger();
}, LONG_MS);

function callIdOf(tool: string): string {
  return `t1.c${TOOLS.indexOf(tool)}`;
}

/** Tokens with which a call of this tool reached the server, in order. */
function tokensOf(tool: string): string[] {
  return server.seen
    .filter(({ rpcMethod, params }) => rpcMethod === 'tools/call' && params['name'] === tool)
    .map(({ headers }) => headers.authorization?.replace(/^(?:Bearer|DPoP) /, '') ?? '');
}

function claimsOf(token: string | undefined): { readonly aud: unknown; readonly scope: unknown } {
  const { aud, scope } = decodeJwt(token ?? '');
  return { aud, scope };
}

test('the server sees a token for itself with the scope of the tool, and no more', () => {
  expect(tokensOf('read').map(claimsOf)).toEqual([{ aud: server.url, scope: 'notes:read' }]);
  expect(tokensOf('write').map(claimsOf)).toEqual([{ aud: server.url, scope: 'notes:write' }]);
  expect(tokensOf('gated').map(claimsOf)).toEqual([{ aud: server.url, scope: 'notes:read' }]);
  const listing = server.seen.filter(({ rpcMethod }) => rpcMethod === 'tools/list');
  expect(listing.map(({ headers }) => claimsOf(headers.authorization?.replace(/^(?:Bearer|DPoP) /, '')))).toEqual([
    { aud: server.url, scope: 'notes:list' },
  ]);
});

test('every call has a token of its own, and the ledger says which, without the token', () => {
  const used = TOOLS.flatMap(tokensOf);
  expect(new Set(used).size).toBe(used.length);
  for (const tool of ['read', 'write', 'gated']) {
    const { jti } = decodeJwt(tokensOf(tool)[0] ?? '');
    expect(factsOf(ledger, 'outcome', callIdOf(tool))).toMatchObject([
      { outcome: 'succeeded', token: { strategy: 'client-credentials', issuer: provider.issuer, jti } },
    ]);
  }
  const text = JSON.stringify(ledger);
  expect([...used, CLIENT.secret].filter((secret) => text.includes(secret))).toEqual([]);
});

test('one 401 costs one fresh token, and the call is executed once (H-2)', () => {
  const [first, second, ...others] = tokensOf('stale');
  expect(others).toEqual([]);
  expect(first).not.toBe(second);
  expect(executionsOf(server.calls, run, callIdOf('stale'))).toBe(1);
  // One dispatch: both are one attempt of the run, since the refused one cannot have run.
  expect(factsOf(ledger, 'dispatched', callIdOf('stale'))).toHaveLength(1);
  const { jti } = decodeJwt(second ?? '');
  expect(factsOf(ledger, 'outcome', callIdOf('stale'))).toMatchObject([{ outcome: 'succeeded', token: { jti } }]);
});

test('a server that accepts no token is tried twice, and the call has failed without having run', async () => {
  expect(tokensOf('never')).toHaveLength(2);
  expect(factsOf(ledger, 'outcome', callIdOf('never'))).toMatchObject([
    { outcome: 'failed', code: 'TOOL_UNAUTHORIZED' },
  ]);
  const told = (await results(world, run)).find(({ callId }) => callId === callIdOf('never'));
  if (told === undefined) throw new Error('the model was told nothing');
  expect(modelText(told.outcome)).toMatchObject({
    isError: true,
    text: expect.stringMatching(/^Not executed \(TOOL_UNAUTHORIZED\)/),
  });
});

test('a demand for more scope is never met by itself (F14)', () => {
  expect(tokensOf('greedy')).toHaveLength(1);
  expect(factsOf(ledger, 'outcome', callIdOf('greedy'))).toMatchObject([
    { outcome: 'failed', code: 'TOOL_INSUFFICIENT_SCOPE' },
  ]);
  expect(provider.seen.filter(({ form }) => form.get('scope')?.includes('admin'))).toEqual([]);
  expect(new Set(provider.seen.map(({ form }) => form.get('resource')))).toEqual(new Set([server.url]));
});

test('no token and no client secret stands in the history, and the run replays', async () => {
  await expectSound(run, server.calls);
  expect(await sightingsInHistory(world, run.runId, [...TOOLS.flatMap(tokensOf), CLIENT.secret])).toEqual([]);
  // Control: what stands in the same history is found.
  expect(await sightingsInHistory(world, run.runId, ['Do it.'])).not.toEqual([]);
  await replayOwn(world);
});
