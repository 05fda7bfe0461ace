/**
 * The `authorization` that a caller gives to a run, from the client library to the tool server (S1.1, S1.3, S1.4, S1.7, H-1):
 * each run's own, for each server its own.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { sightingsInHistory } from '../support/canary/stores.ts';
import { expectSound } from '../support/faults/oracle.ts';
import { authorizationsOf, type GrantScene, startGrantScene, TWO_CALLS } from '../support/faults/grants.ts';
import { factsOf, outcomes, refusalOf, replayOwn } from '../support/world/run-record.ts';
import { decisionOn, openRequests, startWorld } from '../support/world/world.ts';

const LONG_MS = 120_000;
const SHARED = { servers: [{ name: 'shared' }] };

let scene: GrantScene;

beforeAll(async () => {
  scene = await startGrantScene();
}, LONG_MS);

afterAll(async () => scene?.close());

test('two runs with two authorizations to one server: the server sees each its own, on listing and on every call', async () => {
  const { world, shared } = scene;
  const [ann, ben] = await Promise.all([
    world.start(TWO_CALLS, SHARED, { authorizations: { shared: 'token-of-ann' } }),
    // A prefix that the caller wrote is not doubled (S1.3).
    world.start(TWO_CALLS, SHARED, { authorizations: { shared: 'bearer token-of-ben' } }),
  ]);
  await Promise.all([ann.result(), ben.result()]);
  const tokens = new Map([
    [ann, 'Bearer token-of-ann'],
    [ben, 'Bearer token-of-ben'],
  ]);
  expect(authorizationsOf(shared, 'tools/list')).toHaveLength(2);
  expect(new Set(authorizationsOf(shared, 'tools/list'))).toEqual(new Set(tokens.values()));
  for (const [run, token] of tokens) {
    const own = shared.seen.filter(({ headers }) => String(headers['idempotency-key']).startsWith(`${run.runId}/`));
    expect(own.map(({ headers }) => headers.authorization)).toEqual([token, token]);
    const evidence = factsOf(await expectSound(run, shared.calls), 'outcome').map((fact) => fact.token);
    expect(evidence).toEqual([{ strategy: 'given' }, { strategy: 'given' }]);
  }
  // No request of any kind went without one, or under a third one.
  expect(new Set(shared.seen.map(({ headers }) => headers.authorization))).toEqual(new Set(tokens.values()));
  await replayOwn(world);
});

test('one run with an authorization for each of two servers: none meets that of the other (F15)', async () => {
  const { world, shared, other } = scene;
  const before = { shared: shared.seen.length, other: other.seen.length };
  const steps = [{ calls: [{ tool: 'shared/act' }, { tool: 'other/act' }] }, { text: 'Done.' }];
  const authorizations = { shared: 'token-for-shared', other: 'token-for-other' };
  const run = await world.start(steps, {}, { authorizations });
  const [request] = await openRequests(run);
  if (request === undefined) throw new Error('there is no request');
  await run.decide(decisionOn(request, 'bob'));
  await run.result();
  const used = (server: 'shared' | 'other') => [
    ...new Set(scene[server].seen.slice(before[server]).map(({ headers }) => headers.authorization)),
  ];
  expect(used('shared')).toEqual(['Bearer token-for-shared']);
  expect(used('other')).toEqual(['Bearer token-for-other']);
  await expectSound(run, [...shared.calls, ...other.calls]);
  await replayOwn(world);
});

test(
  'the workers that hold the run cannot open the grant, and need not: only the zone of the server holds the key',
  async () => {
    const { engine, world, shared, targets } = scene;
    const zoned = scene.configOf('zoned', { servers: { shared: { url: shared.url, taskQueue: 'zone-1' } } });
    const common = { engine, bundle: world.bundle, client: { servers: targets } };
    const keyless = await startWorld({ ...common, config: { ...zoned, grants: { keys: [] } }, role: 'runs' });
    const zone = await startWorld({ ...common, config: zoned, role: 'tools' });
    try {
      const run = await keyless.start(TWO_CALLS, {}, { authorizations: { shared: 'token-of-the-zone-1234' } });
      await run.result();
      expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded', 't1.c1': 'succeeded' });
      expect(authorizationsOf(shared, 'tools/call')).toContain('Bearer token-of-the-zone-1234');
      expect(await sightingsInHistory(keyless, run.runId, ['token-of-the-zone-1234'])).toEqual([]);
      // Control: what stands in the same history is found.
      expect(await sightingsInHistory(keyless, run.runId, ['Do it.'])).not.toEqual([]);
      await replayOwn(keyless);
    } finally {
      await Promise.all([keyless.stop(), zone.stop()]);
    }
  },
  LONG_MS,
);

test(
  'givenTokens: deny: a run that brings an authorization is refused by name, and nothing is asked of the server',
  async () => {
    const { engine, world, shared, targets } = scene;
    const config = scene.configOf('strict', { policy: { givenTokens: 'deny' } });
    const strict = await startWorld({ engine, bundle: world.bundle, config, client: { servers: targets } });
    try {
      const seen = shared.seen.length;
      const run = await strict.start(TWO_CALLS, SHARED, { authorizations: { shared: 'token-not-wanted' } });
      expect(await refusalOf(run.result())).toMatchObject({ code: 'GRANT_FORBIDDEN', facts: { path: 'grants[0]' } });
      // Without one the server, which takes only given tokens, gets none in its place (S1.4).
      const bare = await strict.start(TWO_CALLS, SHARED);
      expect(await refusalOf(bare.result())).toMatchObject({ code: 'GRANT_FORBIDDEN' });
      expect(shared.seen).toHaveLength(seen);
      await replayOwn(strict);
    } finally {
      await strict.stop();
    }
  },
  LONG_MS,
);
