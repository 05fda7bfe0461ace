/** A catalog that cannot be read is no missing catalog (INV-G4), and one that was just read is not asked again. */
import { expect, test } from '@jest/globals';
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { createCatalogReader } from '../../../../activities/catalog/reader.ts';
import type { CatalogSnapshot } from '../../../../contracts/schemas/catalog.ts';

const BANK = { tenant: 'default', server: 'bank' };
const SNAPSHOT: CatalogSnapshot = {
  ...BANK,
  status: 'connected',
  revision: 7,
  mark: 'first/7',
  policyVersion: 1,
  refreshes: 1,
  newTools: 'ask',
  entries: [],
  listings: {},
  pending: [],
  ledgerLength: 1,
  ledgerHead: '0'.repeat(64),
};

/** A client whose catalogs answer so. */
function reading(answer: (id: string, known: string) => Promise<unknown>) {
  const asked: [string, string][] = [];
  let time = 0;
  const getHandle = (id: string) => ({
    query: async (_name: string, known: string) => {
      asked.push([id, known]);
      return await answer(id, known);
    },
  });
  const withDeadline = async (_at: number, act: () => Promise<unknown>) => await act();
  // Sound for the test: the reader uses no more of a client.
  const client = { workflow: { getHandle }, connection: { withDeadline } } as unknown as Client;
  return { asked, read: createCatalogReader(client, () => time), pass: (ms: number) => void (time += ms) };
}

test('is asked once for all who want it at a time, and not again while it is fresh', async () => {
  const { asked, read, pass } = reading(async () => SNAPSHOT);
  expect(await Promise.all([read(BANK), read(BANK)])).toEqual([SNAPSHOT, SNAPSHOT]);
  pass(1_999);
  await read(BANK);
  expect(asked).toEqual([['catalog/default/bank', '']]);
});

test('is then asked only whether it has changed', async () => {
  let mark = 'first/7';
  const { asked, read, pass } = reading(async (_, known) =>
    known === mark ? { unchanged: true, mark } : { ...SNAPSHOT, mark },
  );
  await read(BANK);
  pass(2_000);
  expect(await read(BANK)).toMatchObject({ mark: 'first/7' });
  // After a reset: as many changes, and other ones.
  mark = 'second/7';
  pass(2_000);
  expect(await read(BANK)).toMatchObject({ mark: 'second/7' });
  expect(asked.map(([, known]) => known)).toEqual(['', 'first/7', 'first/7']);
});

test('that does not exist, or was never connected, is none; and that too is known for seconds only', async () => {
  let status: CatalogSnapshot['status'] | undefined;
  const { read, pass } = reading(async (id) => {
    if (status === undefined) throw new WorkflowNotFoundError('not found', id, undefined);
    return { ...SNAPSHOT, status };
  });
  expect(await read(BANK)).toBeUndefined();
  status = 'new';
  pass(2_000);
  expect(await read(BANK)).toBeUndefined();
  status = 'disconnected';
  pass(2_000);
  expect(await read(BANK)).toMatchObject({ status: 'disconnected' });
});

test.each([
  ['does not answer', async () => await Promise.reject(new Error('no poller'))],
  ['answers something else', async () => ({ status: 'connected' })],
  ['is another workflow', async () => 'hello'],
  ['says that nothing has changed, to one who knew nothing', async () => ({ unchanged: true, mark: '' })],
])('that %s is an error which may pass, and is asked again', async (_, answer) => {
  const { asked, read } = reading(answer);
  for (const times of [1, 2]) {
    await expect(read(BANK)).rejects.toMatchObject({ code: 'CATALOG_UNAVAILABLE', traits: { retryable: true } });
    expect(asked).toHaveLength(times);
  }
});
