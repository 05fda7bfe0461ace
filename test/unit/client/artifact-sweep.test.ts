/** What a sweep of an artifact directory keeps, and what it removes. */
import { mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { createDirectoryStore } from '../../../activities/artifacts/directory.ts';
import type { ArtifactStore } from '../../../activities/artifacts/port.ts';
import { setUpRoot } from '../../../activities/artifacts/root.ts';
import { sweepArtifacts } from '../../../client/artifact-sweep.ts';
import type { ArtifactRef } from '../../../contracts/schemas/json.ts';

const DAY_MS = 86_400_000;
const OLD = new Date(Date.now() - 100 * DAY_MS);
const BEFORE = Date.now() - 90 * DAY_MS;

let parent: string;
let root: string;
let store: ArtifactStore;
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'countersign-sweep-'));
  root = join(parent, 'artifacts');
  setUpRoot(root, true);
  store = createDirectoryStore(root);
});
afterEach(async () => rm(parent, { recursive: true, force: true }));

const pathOf = ({ sha256 }: ArtifactRef): string => join(root, sha256.slice(0, 2), sha256.slice(2, 4), sha256);

async function put(content: unknown, old = true): Promise<ArtifactRef> {
  const text = typeof content === 'string' ? content : JSON.stringify(content);
  const ref = await store.put(new TextEncoder().encode(text), 'application/json');
  if (old) await utimes(pathOf(ref), OLD, OLD);
  return ref;
}

const sweep = async (named: readonly ArtifactRef[] = [], over: Partial<Parameters<typeof sweepArtifacts>[0]> = {}) =>
  await sweepArtifacts({
    directory: root,
    before: BEFORE,
    dryRun: false,
    referenced: async () => new Set(named.map(({ sha256 }) => sha256)),
    ...over,
  });

async function left(): Promise<readonly string[]> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile() && entry.name !== '.countersign-store')
    .map(({ name }) => name)
    .toSorted();
}
const hashes = (...refs: readonly ArtifactRef[]): readonly string[] => refs.map(({ sha256 }) => sha256).toSorted();

test('what is old and nobody names is removed, what is young or named stays', async () => {
  const garbage = await put('garbage');
  const young = await put('young', false);
  const named = await put('named');
  expect(await sweep([named])).toEqual({
    artifacts: 3,
    young: 1,
    needed: 1,
    removed: [{ sha256: garbage.sha256, bytes: 7 }],
  });
  expect(await left()).toEqual(hashes(young, named));
});

test('what a kept one names stays too, however deep: segments, and parts of results', async () => {
  const image = await put('an image');
  const result = await put({ content: [{ type: 'image', artifact: image }] });
  const first = await put({ ledger: [], result });
  const second = await put({ previous: first });
  // The end of a ledger that is younger than the rest of it.
  const third = await put({ previous: second }, false);
  const garbage = await put({ previous: third });
  expect((await sweep()).removed).toEqual([{ sha256: garbage.sha256, bytes: garbage.bytes }]);
  expect(await left()).toEqual(hashes(image, result, first, second, third));
});

test('a ring of two that nobody needs is removed, and what only looks like a list is read to no end', async () => {
  const one = await put('[');
  const garbage = await put({ previous: one });
  expect((await sweep()).removed.map(({ sha256 }) => sha256).toSorted()).toEqual(hashes(one, garbage));
});

test('a dry run tells the same and removes nothing', async () => {
  const garbage = await put('garbage');
  expect((await sweep([], { dryRun: true })).removed).toEqual([{ sha256: garbage.sha256, bytes: 7 }]);
  expect(await left()).toEqual(hashes(garbage));
});

test('where all is young no history is read', async () => {
  await put('young', false);
  await expect(sweep([], { referenced: () => Promise.reject(new Error('read')) })).resolves.toMatchObject({ young: 1 });
});

test('INV-D3: what is put again while it is swept stays', async () => {
  const again = await put('again');
  const report = await sweep([], {
    referenced: async () => {
      // Listed as old, named by nobody: and now a run begins that needs it.
      await store.put(new TextEncoder().encode('again'), 'application/json');
      return new Set();
    },
  });
  expect(report.removed).toEqual([]);
  expect(await left()).toEqual(hashes(again));
});

test('a put that finds it gone writes it anew', async () => {
  const garbage = await put('garbage');
  await sweep();
  expect(await left()).toEqual([]);
  await put('garbage', false);
  expect(Buffer.from(await store.get(garbage)).toString()).toBe('garbage');
});

test('INV-D3: where histories cannot be read nothing is removed', async () => {
  const garbage = await put('garbage');
  await expect(sweep([], { referenced: () => Promise.reject(new Error('away')) })).rejects.toThrow('away');
  expect(await left()).toEqual(hashes(garbage));
});

test('a folder that is no store is not touched', async () => {
  const folder = join(parent, 'pictures');
  setUpRoot(folder, true);
  await rm(join(folder, '.countersign-store'));
  await expect(sweep([], { directory: folder })).rejects.toMatchObject({ code: 'ARTIFACT_MISSING' });
});

test('what is no artifact is left alone', async () => {
  await writeFile(join(root, 'lost+found'), 'x');
  const ref = await put('named');
  await writeFile(join(pathOf(ref), '..', 'notes.txt'), 'x');
  await utimes(join(pathOf(ref), '..', 'notes.txt'), OLD, OLD);
  expect(await sweep()).toMatchObject({ artifacts: 1 });
  expect(await left()).toEqual(['lost+found', 'notes.txt']);
});
