/** A loosening that a second administrator must agree to (`catalog.loosening: countersign`); how a catalog ends, and how it does not. */
import { beforeEach, describe, expect, test } from '@jest/globals';
import type { CatalogHandle } from '../../client/index.ts';
import { entryOf } from '../../domain/catalog/state.ts';
import { ADMINISTRATORS, allowed, ANN, BEN, changed, connected } from '../support/scenes/catalogs.ts';
import { codeOf, factsOf, refusalOf } from '../support/world/run-record.ts';
import { startRecordingServer } from '../support/servers/recording-server.ts';
import { during } from '../support/world/during.ts';
import { useEngine, useWorld } from '../support/world/world.ts';

const administrators = [...ADMINISTRATORS, { ids: ['tess'], may: ['connect' as const, 'tighten' as const] }];
const engine = useEngine();
const bank = during(() => startRecordingServer());
const catalogOf = () => ({ administrators, origins: [new URL(bank.url).origin] });
const world = useWorld(() => ({ engine, config: { catalog: { ...catalogOf(), loosening: 'countersign' } } }));
/** One administrator is enough. */
const plain = useWorld(() => ({
  engine,
  bundle: world.bundle,
  config: { catalog: catalogOf(), taskQueue: 'plain' },
}));

describe('a loosening', () => {
  let catalogs = 0;
  let catalog: CatalogHandle;

  beforeEach(async () => {
    catalog = world.countersign.catalog(`bank-${(catalogs += 1)}`);
    await connected(catalog, bank.url);
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
});

describe('how a catalog ends', () => {
  let catalogs = 0;
  function fresh(): CatalogHandle {
    return plain.countersign.catalog(`plain-${(catalogs += 1)}`);
  }

  test('a request to cancel it changes nothing', async () => {
    const catalog = fresh();
    await connected(catalog, bank.url);
    await plain.client.workflow.getHandle(catalog.workflowId).cancel();
    const after = await changed(catalog, { tool: 'pay', enabled: false });
    expect(after).toMatchObject({ status: 'connected', policyVersion: 2 });
  });

  test('where it was terminated, connecting does not quietly begin without what was set (INV-G4)', async () => {
    const catalog = fresh();
    await connected(catalog, bank.url);
    await changed(catalog, { tool: 'pay', enabled: false });
    await plain.client.workflow.getHandle(catalog.workflowId).terminate('by mistake');
    const message = { by: ANN, url: bank.url };
    expect(await codeOf(catalog.connect(message))).toBe('CATALOG_VERSION_CONFLICT');
    expect(entryOf(await catalog.snapshot(), 'pay')?.setting.enabled).toBe(false);
    // It is there to be read, so no change is told that there is none.
    for (const change of [catalog.refresh({ by: ANN }), catalog.disconnect({ by: ANN, expectedVersion: 2 })])
      expect(await refusalOf(change)).toMatchObject({
        code: 'CATALOG_VERSION_CONFLICT',
        message: expect.stringContaining(`(countersign catalog export ${catalog.server} --tenant `),
      });
    expect(await catalog.ended()).toBe('terminated');
    expect(await catalog.connect(message, { anew: true })).toMatchObject({ status: 'applied', policyVersion: 1 });
    expect(await catalog.ended()).toBeUndefined();
  });

  test('one that nobody ever connected may be connected later, by who may', async () => {
    const catalog = fresh();
    expect(await codeOf(catalog.connect({ by: { id: 'eve' }, url: bank.url }))).toBe('CATALOG_FORBIDDEN');
    expect(await connected(catalog, bank.url)).toMatchObject({ status: 'connected' });
  });

  test('another address is another server: nothing is acknowledged there, and nothing can be before it has been listed', async () => {
    const catalog = fresh();
    await connected(catalog, bank.url);
    const before = await allowed(catalog, 'pay');
    await connected(catalog, `${bank.url}?at=other`);
    const entry = entryOf(await catalog.snapshot(), 'pay');
    expect(entry?.definition).toEqual(entryOf(before, 'pay')?.definition);
    expect(entry?.acknowledged).toBeUndefined();
  });
});
