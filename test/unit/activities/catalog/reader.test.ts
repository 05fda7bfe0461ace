/** How a worker reads catalogs, and which toolsets it keeps between steps. */
import { describe, expect, test } from '@jest/globals';
import { WorkflowNotFoundError } from '@temporalio/client';
import type { ArtifactStore } from '../../../../activities/artifacts/port.ts';
import { createCatalogReader, createToolsetLoader } from '../../../../activities/catalog/reader.ts';
import type { CatalogSnapshot } from '../../../../contracts/schemas/catalog.ts';
import type { ToolsetRef } from '../../../../contracts/wire/identity.ts';
import { catalogSnapshot } from '../../../support/builders/catalog.ts';
import { fakeClient } from '../../../support/servers/fake-client.ts';

// A catalog that cannot be read is no missing catalog (INV-G4), and one that was just read is not asked again.

const BANK = { tenant: 'default', server: 'bank' };
const SNAPSHOT = catalogSnapshot([], { ...BANK, mark: 'first/7' });

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
  const client = fakeClient({ workflow: { getHandle } });
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

test('is kept with others within bytes: the one that was asked for longest ago goes first', async () => {
  const at = '2026-01-01T00:00:00.000Z';
  const entry = (index: number) => ({
    name: `${index}`.padEnd(128, 'n'),
    status: 'available' as const,
    definition: { hash: 'a'.repeat(64), refresh: 1 },
    setting: { enabled: true, requiresApproval: true, denied: false },
    firstSeen: at,
    lastSeen: at,
  });
  // About 400 kB.
  const entries = Array.from({ length: 1_000 }, (_, index) => entry(index));
  const { asked, read, pass } = reading(async (id, known) =>
    known === '' ? { ...SNAPSHOT, entries, mark: id } : { unchanged: true, mark: known },
  );
  const names = Array.from({ length: 250 }, (_, index) => `server-${index}`);
  for (const server of names) await read({ tenant: 'default', server });
  pass(2_000);
  asked.length = 0;
  await read({ tenant: 'default', server: 'server-249' });
  await read({ tenant: 'default', server: 'server-0' });
  expect(asked).toEqual([
    ['catalog/default/server-249', 'catalog/default/server-249'],
    ['catalog/default/server-0', ''],
  ]);
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

// Toolsets that are kept between steps, bounded by what they take.

const MIB = 1_048_576;
const NO_TOOLS = new TextEncoder().encode(
  JSON.stringify({ server: 'files', serverUrl: 'https://files.test/mcp', tools: [] }),
);

function harness() {
  const read: string[] = [];
  const artifacts: ArtifactStore = {
    put: async () => {
      throw new Error('not expected');
    },
    get: async ({ sha256 }) => {
      read.push(sha256.slice(-2));
      return NO_TOOLS;
    },
  };
  const load = createToolsetLoader(artifacts);
  /** Loads a toolset that is said to be so large, under a name of two digits. */
  const of = async (name: string, bytes: number): Promise<void> => {
    const tools: ToolsetRef['tools'] = { sha256: name.padStart(64, '0'), bytes, contentType: 'application/json' };
    await load([{ server: 'files', tools }]);
  };
  return { read, of };
}

describe('toolsets', () => {
  test('are read once while they are kept', async () => {
    const { read, of } = harness();
    await of('01', MIB);
    await of('01', MIB);
    expect(read).toEqual(['01']);
  });

  test('INV-D2: take 64 MiB together; what was not used for longest goes first', async () => {
    const { read, of } = harness();
    for (const name of ['01', '02', '03']) await of(name, 20 * MIB);
    await of('01', 20 * MIB);
    await of('04', 20 * MIB);
    expect(read).toEqual(['01', '02', '03', '04']);
    await of('01', 20 * MIB);
    await of('02', 20 * MIB);
    expect(read).toEqual(['01', '02', '03', '04', '02']);
  });

  test('one that takes more alone is kept until the next', async () => {
    const { read, of } = harness();
    await of('01', 100 * MIB);
    await of('01', 100 * MIB);
    await of('02', MIB);
    await of('01', 100 * MIB);
    expect(read).toEqual(['01', '02', '01']);
  });

  test('are fifty at most, however small', async () => {
    const { read, of } = harness();
    for (let index = 10; index < 61; index += 1) await of(String(index), 1);
    await of('10', 1);
    expect(read.filter((name) => name === '10')).toHaveLength(2);
  });
});
