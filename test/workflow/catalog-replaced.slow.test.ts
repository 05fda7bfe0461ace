/**
 * Another release of a server that no one here wrote takes the place of the one that a catalog knows: what is new asks,
 * what changed asks, what is gone is denied, and a waiting call never runs by the old word (S3.2, S3.3, INV-G4).
 */
import { afterAll, expect, jest, test } from '@jest/globals';
import { entryOf } from '../../domain/catalog/state.ts';
import { foreignPackages, INSTALL_MS } from '../support/foreign/clients.ts';
import { ADMINISTRATORS, allowed, changed, connected, refreshed, statusesIn } from '../support/scenes/catalogs.ts';
import { type RunningMcpServer, startEverythingServer } from '../support/servers/real-servers.ts';
import { factsOf } from '../support/world/run-record.ts';
import { decisionOn, requestFor, requestThat, startWorld } from '../support/world/world.ts';
import { beforehand, during } from '../support/world/during.ts';

jest.setTimeout(180_000);
let after: RunningMcpServer | undefined;

const before = beforehand(async () => startEverythingServer(await foreignPackages()), undefined, INSTALL_MS);
const world = during(
  () =>
    startWorld({
      config: {
        policy: { strategy: 'never' },
        catalog: { administrators: ADMINISTRATORS, origins: [new URL(before.url).origin] },
      },
    }),
  INSTALL_MS,
);
afterAll(async () => {
  await (after ?? before).close();
});

const calls = (...tools: readonly string[]) => [
  {
    calls: tools.map((tool) => ({
      tool: `office/${tool}`,
      arguments: tool === 'echo' ? { message: 'hi' } : { a: 1, b: 2 },
    })),
  },
  { text: 'done' },
];
const OFFICE = { servers: [{ name: 'office' }] };

test('a tool that was turned to ask, one that is described otherwise, one that vanished, and one that is new', async () => {
  const catalog = world.countersign.catalog('office');
  await connected(catalog, before.url);
  await allowed(catalog, 'echo', 'add', 'annotatedMessage');
  await world.restartWorkers();

  // All are allowed, so nobody is asked.
  const first = await world.start(calls('echo', 'add'), OFFICE);
  await first.result();
  expect(factsOf(await first.ledger(), 'outcome')).toMatchObject([{ outcome: 'succeeded' }, { outcome: 'succeeded' }]);

  // Turned to ask: the same call of the same run configuration waits.
  await changed(catalog, { tool: 'echo', requiresApproval: true });
  await world.restartWorkers();
  const waiting = await world.start(calls('echo'), OFFICE);
  const asked = await requestFor(waiting, 't1.c0');
  expect(asked.rules).toEqual(['catalog/office/tools/echo']);

  // Another release at the same address.
  const { port } = new URL(before.url);
  await before.close();
  after = await startEverythingServer(undefined, Number(port));
  expect(after.url).toBe(before.url);
  const known = await refreshed(catalog);
  expect(statusesIn(known)).toMatchObject({ echo: 'available', add: 'missing', 'get-sum': 'available' });
  expect(entryOf(known, 'echo')?.acknowledged?.hash).not.toBe(entryOf(known, 'echo')?.definition.hash);
  await world.restartWorkers();

  // Described otherwise: the approval of the old definition starts nothing, and the new one is asked about.
  await waiting.decide(decisionOn(asked, 'ann'));
  const again = await requestThat(waiting, ({ digest }) => digest !== asked.digest, 'a request by the new definition');
  expect(again).toMatchObject({ generation: 2, reopenedBecause: expect.stringContaining('DEFINITION_CHANGED') });
  expect(again.description).not.toBe(asked.description);
  await waiting.decide(decisionOn(again, 'ann'));
  await waiting.result();
  expect(factsOf(await waiting.ledger(), 'outcome')).toMatchObject([{ outcome: 'succeeded' }]);

  // Vanished: denied with its reason. New: asked.
  const last = await world.start(calls('add', 'get-sum'), OFFICE);
  const fresh = await requestFor(last, 't1.c1');
  expect(fresh).toMatchObject({ tool: 'get-sum', rules: ['catalog/office/tools/get-sum'] });
  await last.stop({ by: 'ann', reason: 'seen' });
  await last.result();
  expect(factsOf(await last.ledger(), 'dispatched')).toEqual([]);
  expect(factsOf(await last.ledger(), 'outcome')).toEqual(
    expect.arrayContaining([expect.objectContaining({ callId: 't1.c0', outcome: 'denied', code: 'TOOL_UNKNOWN' })]),
  );
});
