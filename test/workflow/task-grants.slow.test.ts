/** A task, and grants that take each other's place while its server works on it (INV-S2, INV-D3; ADR 0041). */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { startEngine } from '../support/engine.ts';
import { keepZoneKey, type KeptZoneKey } from '../support/signing/keys.ts';
import { factsOf } from '../support/world/run-record.ts';
import { startTaskServer, type TaskServer } from '../support/servers/task-server.ts';
import { until } from '../support/until.ts';
import { authorizationOf, wantedFor } from '../support/scenes/authorizations.ts';
import { startWorld, type World } from '../support/world/world.ts';

let server: TaskServer;
let world: World;
let zone: KeptZoneKey;
/** Calls with any other token are turned away. */
let taken: string;

beforeAll(async () => {
  server = await startTaskServer({
    begins: { pollInterval: 300_000 },
    intercept: (method, response, { headers }) =>
      method === 'tools/call' && headers.authorization !== `Bearer ${taken}` && (response.writeHead(401).end(), true),
  });
  const engine = await startEngine();
  zone = await keepZoneKey(engine.directory);
  world = await startWorld({
    engine,
    client: { servers: { mine: { url: server.url, key: zone.publicJwk } } },
    config: {
      servers: { mine: { url: server.url, recheckSeconds: 0, tasks: { seconds: 600 } } },
      policy: { servers: { mine: { tools: { dig: 'allow' } } } },
      grants: zone.grants,
    },
  });
}, 120_000);
afterAll(async () => {
  await world?.stop();
  await world?.engine.stop();
  await server?.close();
});

test('the run ends before a task whose grant was replaced since it was asked about last: it is asked about with its own', async () => {
  taken = 'first-token';
  const dig = { tool: 'mine/dig' };
  const run = await world.start(
    [{ calls: [dig, dig] }, { text: 'done' }],
    { servers: [{ name: 'mine' }] },
    { authorizations: { mine: 'stale-token' } },
  );
  const give = async (callId: string, authorization: string): Promise<void> => {
    const request = await wantedFor(run, callId);
    const grant = await run.sealGrant({
      server: 'mine',
      authorization,
      target: { url: server.url, key: zone.publicJwk },
    });
    await run.authorize(authorizationOf(request, 'ann', { kind: 'grant', grant }));
  };
  const tasks = async (many: number) =>
    await until(
      async () => {
        const { tasks: begun = [] } = await run.state();
        return begun.length === many ? begun : undefined;
      },
      { what: `${many} tasks` },
    );
  await wantedFor(run, 't1.c1');
  await give('t1.c0', 'first-token');
  expect(await tasks(1)).toMatchObject([{ callId: 't1.c0', polls: 0 }]);
  taken = 'second-token';
  await give('t1.c1', 'second-token');
  expect(await tasks(2)).toMatchObject([{ polls: 0 }, { polls: 0 }]);
  await run.stop({ by: 'ann', reason: 'enough', inFlight: 'cancel' });
  await run.result();
  const ends = factsOf(await run.ledger(), 'outcome').map(({ callId, outcome }) => [callId, outcome]);
  expect(Object.fromEntries(ends)).toEqual({ 't1.c0': 'succeeded', 't1.c1': 'succeeded' });
});
