/** Who watches a catalog is told of its changes, and the number of watchers asks nothing more of Temporal. */
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import type { Countersign } from '../../../client/index.ts';
import { CountersignError, type ErrorCode } from '../../../contracts/errors.ts';
import { CatalogWatch } from '../../../gateway/catalog/watch.ts';

interface Scene {
  readonly watch: CatalogWatch;
  /** Server → what Temporal says of its catalog now. */
  readonly marks: Map<string, string>;
  /** What was asked since the last look. */
  readonly asked: string[];
  readonly forgotten: string[];
  listed: readonly string[] | undefined;
}

function scene(): Scene {
  const marks = new Map<string, string>();
  const [asked, forgotten]: [string[], string[]] = [[], []];
  const countersign = {
    catalog: (server: string, tenant: string) => ({
      mark: async () => {
        asked.push(`${tenant}/${server}`);
        const mark = await Promise.resolve(marks.get(server) ?? 'CATALOG_NOT_FOUND');
        if (mark.includes('/')) return mark;
        // Sound: it is one of the codes above.
        throw new CountersignError(mark as ErrorCode, 'no mark');
      },
    }),
  };
  const found: Omit<Scene, 'watch'> = { marks, asked, forgotten, listed: [] };
  const catalogs = {
    changed: (_tenant: string, server: string) => void forgotten.push(server),
    serversOf: async () => await Promise.resolve(found.listed ?? Promise.reject(new Error('away'))),
  };
  // Sound: this is what it uses.
  return Object.assign(found, { watch: new CatalogWatch(countersign as unknown as Countersign, catalogs) });
}

/** Lets the next look happen, and forgets what the ones before asked. */
async function look({ asked }: Scene): Promise<void> {
  asked.length = 0;
  await jest.advanceTimersByTimeAsync(2_000);
}

beforeEach(() => {
  jest.useFakeTimers();
});
afterEach(() => {
  jest.useRealTimers();
});

test('a catalog is asked for once for all who watch it, and not at all when nobody does any more', async () => {
  const at = scene();
  at.marks.set('shop', 'a/1');
  let told = 0;
  const ends = Array.from({ length: 100 }, () => at.watch.follow('acme', 'shop', () => void (told += 1)));
  await jest.advanceTimersByTimeAsync(0);
  // Pages may be older than the first look.
  expect([at.asked, told, at.forgotten]).toEqual([['acme/shop'], 100, ['shop']]);
  await look(at);
  expect([at.asked, told]).toEqual([['acme/shop'], 100]);
  at.marks.set('shop', 'a/2');
  await look(at);
  expect([at.asked, told, at.forgotten]).toEqual([['acme/shop'], 200, ['shop', 'shop']]);
  for (const end of ends) end();
  await look(at);
  expect([at.asked, jest.getTimerCount()]).toEqual([[], 0]);
  at.watch.follow('acme', 'shop', () => void (told += 1));
  await jest.advanceTimersByTimeAsync(0);
  expect(at.asked).toEqual(['acme/shop']);
});

test('each is told of the catalogs of the own tenant that they watch: of one, or of all, also of a new one', async () => {
  const at = scene();
  const told: string[] = [];
  at.listed = ['mail', 'shop'];
  for (const server of ['mail', 'shop', 'books']) at.marks.set(server, 'a/1');
  at.watch.follow('acme', 'shop', () => void told.push('shop'));
  at.watch.follow('acme', undefined, () => void told.push('all'));
  at.watch.follow('other', 'shop', () => void told.push('other'));
  await jest.advanceTimersByTimeAsync(0);
  await look(at);
  expect(at.asked.toSorted()).toEqual(['acme/mail', 'acme/shop', 'other/shop']);
  told.length = 0;
  at.marks.set('mail', 'a/2');
  await look(at);
  expect(told).toEqual(['all']);
  at.listed = ['books', 'mail', 'shop'];
  await look(at);
  expect(told).toEqual(['all', 'all']);
  at.marks.set('shop', 'b/1');
  await look(at);
  expect(told.toSorted()).toEqual(['all', 'all', 'all', 'other', 'shop']);
});

test('where nobody answers, nobody is told anything, and the change is told when somebody does', async () => {
  const at = scene();
  let told = 0;
  at.marks.set('shop', 'a/1');
  at.watch.follow('acme', 'shop', () => void (told += 1));
  at.watch.follow('acme', undefined, () => undefined);
  await jest.advanceTimersByTimeAsync(0);
  expect(told).toBe(1);
  at.marks.set('shop', 'ENGINE_UNAVAILABLE');
  at.listed = undefined;
  await look(at);
  expect(told).toBe(1);
  at.marks.set('shop', 'a/1');
  await look(at);
  expect(told).toBe(1);
  at.marks.set('shop', 'ENGINE_UNAVAILABLE');
  await look(at);
  at.marks.set('shop', 'a/2');
  await look(at);
  expect(told).toBe(2);
  // One that is connected while somebody waits for it.
  at.watch.follow('acme', 'books', () => void (told += 10));
  await look(at);
  expect(told).toBe(12);
  await look(at);
  at.marks.set('books', 'a/1');
  await look(at);
  expect(told).toBe(22);
});

test('of very many catalogs a look asks for some, and each has its turn', async () => {
  const at = scene();
  const names = Array.from({ length: 150 }, (_, index) => `s${index}`);
  at.listed = names;
  for (const name of names) at.marks.set(name, 'a/1');
  const told: string[] = [];
  at.watch.follow('acme', undefined, () => void told.push('all'));
  at.watch.follow('acme', 's149', () => void told.push('last'));
  await jest.advanceTimersByTimeAsync(0);
  expect(at.asked).toHaveLength(64);
  const seen = new Set(at.asked);
  for (let looks = 0; looks < 2; looks += 1) {
    await look(at);
    expect(at.asked).toHaveLength(64);
    for (const each of at.asked) seen.add(each);
  }
  expect(seen.size).toBe(150);
  told.length = 0;
  at.marks.set('s149', 'a/2');
  for (let looks = 0; looks < 3; looks += 1) await look(at);
  expect(told).toEqual(['all', 'last']);
});

test('a look that fails is not the last', async () => {
  const at = scene();
  at.marks.set('shop', 'a/1');
  let told = 0;
  at.watch.follow('acme', 'shop', () => {
    told += 1;
    if (told === 1) throw new Error('no reader');
  });
  await jest.advanceTimersByTimeAsync(0);
  at.marks.set('shop', 'a/2');
  await look(at);
  expect(told).toBe(2);
});
