/**
 * Tokens that are bound to a key (DPoP, RFC 9449) in runs: an authorization server and an MCP server that we did not
 * write, which both want a nonce in each proof (INV-X1, INV-S1).
 */
import { beforeAll, describe, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import { sightingsInHistory } from '../support/canary/stores.ts';
import { AT_SERVER, callsAt, startBoundScene, TOOL_SCOPES } from '../support/oauth/bound-scene.ts';
import { CLIENT, SECRET } from '../support/oauth/broker.ts';
import { startProvider } from '../support/oauth/provider.ts';
import { startEverythingServer } from '../support/servers/real-servers.ts';
import { codeOf, factsOf, outcomes, replayOwn } from '../support/world/run-record.ts';
import { decideNext, useWorld } from '../support/world/world.ts';
import { silenceProvider } from '../conformance/tokens.suite.ts';
import { during } from '../support/world/during.ts';

const LONG_MS = 120_000;

let run: RunHandle;

silenceProvider();
const everything = during(() => startEverythingServer());
const at = during(() => startBoundScene(everything.url, { nonce: 'wanted' }, { proofs: 'nonce' }));
const unbound = during(() =>
  startProvider({ clients: [CLIENT], resources: { [at.guard.url]: AT_SERVER }, proofs: 'off' }),
);
const world = useWorld(() => {
  const credentials = (issuer: string) => ({
    kind: 'client-credentials' as const,
    issuer,
    clientId: CLIENT.id,
    clientSecret: SECRET,
    scopes: TOOL_SCOPES,
    senderConstrained: 'required' as const,
  });
  return {
    config: {
      servers: {
        bound: { url: at.guard.url, credentials: credentials(at.provider.issuer), recheckSeconds: 0 },
        unbound: { url: at.guard.url, credentials: credentials(unbound.issuer) },
      },
      policy: { approvers: { ids: ['bob'] }, servers: { bound: { default: 'ask' } } },
    },
  };
});
beforeAll(async () => {
  run = await world.start([{ calls: [{ tool: 'bound/echo', arguments: { message: 'hello' } }] }, { text: 'Done.' }], {
    servers: [{ name: 'bound' }],
  });
  await decideNext(run, 'bob');
  await run.result();
}, LONG_MS);

describe('a run at servers that want a nonce', () => {
  test('INV-X1: the call that bob approved was dispatched once and ran once, with a bound token', async () => {
    expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
    expect(callsAt(at.guard).map(({ verdict, tool }) => [tool, verdict])).toEqual([['echo', 'passed']]);
    // A request that was refused for its nonce is no dispatch of the run.
    expect(factsOf(await run.ledger(), 'dispatched', 't1.c0')).toHaveLength(1);
    expect(at.guard.seen.some(({ verdict }) => verdict === 'nonce')).toBe(true);
    expect(at.guard.seen.every(({ headers }) => headers.authorization?.startsWith('DPoP '))).toBe(true);
  });

  test('S1.7: each list has a token of its own, bound like that of the call', () => {
    const lists = at.guard.seen.filter(({ rpcMethod }) => rpcMethod === 'tools/list');
    expect(lists.length).toBeGreaterThan(1);
    expect(new Set([...lists, ...callsAt(at.guard)].map(({ token }) => token)).size).toBe(lists.length + 1);
  });

  test('INV-S1: no token and no proof stands in the history, and the run replays', async () => {
    const proofs = [...at.guard.seen, ...at.provider.seen].flatMap(({ proof }) => proof ?? []);
    const shown = [...new Set([...proofs, ...at.guard.seen.map(({ token }) => token)])];
    expect(shown.length).toBeGreaterThan(10);
    expect(await sightingsInHistory(world, run.runId, [...shown, SECRET])).toEqual([]);
    // Control: what stands in the same history is found.
    expect(await sightingsInHistory(world, run.runId, ['Do it.'])).not.toEqual([]);
    await replayOwn(world);
  });
});

test(
  'required: a run whose issuer gives bearer tokens ends with the code, and nothing was sent to the server',
  async () => {
    const before = at.guard.seen.length;
    const refused = await world.start([{ text: 'Done.' }], { servers: [{ name: 'unbound' }] });
    expect(await codeOf(refused.result())).toBe('TOKEN_UNBOUND');
    expect(at.guard.seen).toHaveLength(before);
  },
  LONG_MS,
);
