/** The gate keeps the newest definitions of the tools that it offers, within bytes. */
import { expect, test } from '@jest/globals';
import type { CatalogSnapshot } from '../../../contracts/schemas/catalog.ts';
import type { ToolDefinition } from '../../../contracts/schemas/tool.ts';
import { Offers } from '../../../gateway/gate/offers.ts';
import { catalogEntry, catalogSnapshot, toolSetting } from '../../support/builders/catalog.ts';
import { toolDefinition } from '../../support/builders/tool.ts';
import { heldBytes } from '../../support/heap.ts';
import { refusalOf } from '../../support/refusal.ts';

const NAMES = Array.from({ length: 200 }, (_, index) => `tool-${index}`);
const entries = NAMES.map((name) => catalogEntry({ name, setting: toolSetting() }));

function scene() {
  const asked: string[] = [];
  let mark = 'first/1';
  const catalogs = {
    connectedIn: async () => await Promise.resolve({ snapshots: [catalogSnapshot(entries, { mark })], unread: [] }),
    definitionsIn: async (snapshot: Pick<CatalogSnapshot, 'mark'>): Promise<readonly ToolDefinition[]> => {
      asked.push(snapshot.mark);
      const read = NAMES.map((name) => ({ ...toolDefinition({ name }), description: `${name} `.repeat(500) }));
      // Read from a text, so that nothing is shared.
      return await Promise.resolve(JSON.parse(JSON.stringify(read)) as ToolDefinition[]);
    },
    isTrusted: () => undefined,
  };
  return { offers: new Offers(catalogs, undefined), asked, refresh: (next: string) => void (mark = next) };
}

test('definitions are read once for each state of a catalog, for all who ask at once and later', async () => {
  const { offers, asked, refresh } = scene();
  const listed = await Promise.all([offers.of('acme'), offers.of('acme')]);
  await offers.of('acme');
  expect([listed.map(({ length }) => length), asked]).toEqual([[200, 200], ['first/1']]);
  refresh('first/2');
  await offers.of('acme');
  expect(asked).toEqual(['first/1', 'first/2']);
});

test('of a catalog that is refreshed again and again only the newest definitions are kept', async () => {
  const { offers, refresh } = scene();
  await offers.of('acme');
  const before = heldBytes();
  for (let number = 2; number <= 40; number += 1) {
    refresh(`first/${number}`);
    await offers.of('acme');
  }
  // The definitions of one state have about a megabyte.
  expect(heldBytes() - before).toBeLessThan(8 * 2 ** 20);
  expect(await offers.of('acme')).toHaveLength(200);
});

test('where a catalog cannot be read, a client is told what it still can do, and not to go where it is already', async () => {
  const catalogs = {
    connectedIn: async () => ({ snapshots: [], unread: ['bank'] }),
    definitionsIn: async () => [],
    isTrusted: () => undefined,
  };
  const offers = new Offers(catalogs, undefined);
  const all = await refusalOf(offers.of('acme'));
  const one = await refusalOf(offers.of('acme', 'bank'));
  for (const { code, message } of [all, one])
    expect({ code, message }).toEqual({
      code: 'ENGINE_UNAVAILABLE',
      message: expect.stringContaining('countersign_result'),
    });
  expect(all.message).toContain('address of another server');
  expect(one.message).not.toContain('address');
});
