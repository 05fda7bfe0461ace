/** A loosening that a second administrator must agree to (`catalog.loosening: countersign`). */
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import type { CatalogHandle } from '../../client/index.ts';
import { entryOf } from '../../domain/catalog/state.ts';
import { ADMINISTRATORS, ANN, BEN, connected } from '../support/scenes/catalogs.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import { codeOf, factsOf } from '../support/world/run-record.ts';
import { startWorld, type World } from '../support/world/world.ts';

let world: World;
let bank: RecordingServer;
let catalogs = 0;
let catalog: CatalogHandle;

beforeAll(async () => {
  bank = await startRecordingServer();
  world = await startWorld({
    config: {
      catalog: {
        administrators: [...ADMINISTRATORS, { ids: ['tess'], may: ['connect', 'tighten'] }],
        origins: [new URL(bank.url).origin],
        loosening: 'countersign',
      },
    },
  });
});
beforeEach(async () => {
  catalog = world.countersign.catalog(`bank-${(catalogs += 1)}`);
  await connected(catalog, bank.url);
});
afterAll(async () => {
  await world.stop();
  await bank.close();
});

const setting = async (tool = 'pay') => entryOf(await catalog.snapshot(), tool)?.setting;
const version = async () => (await catalog.snapshot()).policyVersion;

async function loosened() {
  const ack = await catalog.setToolPolicies({
    by: ANN,
    expectedVersion: await version(),
    changes: [{ tool: 'pay', requiresApproval: false }],
  });
  const [pending] = (await catalog.snapshot()).pending;
  if (pending === undefined) throw new Error('nothing waits');
  expect(ack).toMatchObject({ status: 'waiting', changeId: pending.changeId });
  return { changeId: pending.changeId, digest: pending.digest };
}

test('waits, changes nothing until then, and takes effect as it was shown', async () => {
  const change = await loosened();
  expect(await setting()).toMatchObject({ requiresApproval: true });
  expect(await catalog.decide({ by: BEN, ...change, verdict: 'approve' })).toMatchObject({ status: 'applied' });
  expect(await setting()).toMatchObject({ requiresApproval: false });
  expect((await catalog.snapshot()).pending).toEqual([]);
  expect(factsOf(await catalog.ledger(), 'catalog.policy')).toMatchObject([
    { by: { id: 'ann' }, countersignedBy: { id: 'ben' } },
  ]);
});

test('tightening does not wait', async () => {
  const tighten = { by: ANN, expectedVersion: await version(), changes: [{ tool: 'pay', enabled: false }] };
  expect(await catalog.setToolPolicies(tighten)).toMatchObject({ status: 'applied' });
});

test.each([
  ['by who asked for it', { by: ANN }, 'APPROVER_NOT_ENTITLED'],
  ['by one who may not loosen', { by: { id: 'tess' } }, 'CATALOG_FORBIDDEN'],
  ['by a stranger', { by: { id: 'eve' } }, 'CATALOG_FORBIDDEN'],
  ['of another digest', { by: BEN, digest: '0'.repeat(64) }, 'DIGEST_MISMATCH'],
  ['of a change that is not there', { by: BEN, changeId: 'change-99' }, 'REQUEST_NOT_OPEN'],
])('an approval %s is refused, and it goes on waiting', async (_, over, code) => {
  const change = await loosened();
  expect(await codeOf(catalog.decide({ ...change, verdict: 'approve', ...over }))).toBe(code);
  expect(await setting()).toMatchObject({ requiresApproval: true });
  expect((await catalog.snapshot()).pending).toHaveLength(1);
});

test('a rejection closes it, by anybody who may loosen', async () => {
  const change = await loosened();
  await catalog.decide({ by: BEN, ...change, verdict: 'reject' });
  expect(await codeOf(catalog.decide({ by: BEN, ...change, verdict: 'approve' }))).toBe('REQUEST_NOT_OPEN');
  expect(await setting()).toMatchObject({ requiresApproval: true });
});

test('where the tool was changed meanwhile it is outdated, and does nothing', async () => {
  const change = await loosened();
  await catalog.setToolPolicies({
    by: BEN,
    expectedVersion: await version(),
    changes: [{ tool: 'pay', deadlineSeconds: 60 }],
  });
  expect(await codeOf(catalog.decide({ by: BEN, ...change, verdict: 'approve' }))).toBe('CATALOG_VERSION_CONFLICT');
  expect(await setting()).toMatchObject({ requiresApproval: true, deadlineSeconds: 60 });
  expect((await catalog.snapshot()).pending).toEqual([]);
});

test('trust waits as well: the server is connected without it', async () => {
  const url = bank.url;
  const ack = await catalog.connect({ by: ANN, url, trusted: true, expectedVersion: await version() });
  expect(ack.status).toBe('waiting');
  expect((await catalog.snapshot()).connection).toMatchObject({ trusted: false });
  const [pending] = (await catalog.snapshot()).pending;
  if (pending === undefined) throw new Error('nothing waits');
  const { changeId, digest } = pending;
  await catalog.decide({ by: BEN, changeId, digest, verdict: 'approve' });
  expect((await catalog.snapshot()).connection).toMatchObject({ trusted: true });
});
