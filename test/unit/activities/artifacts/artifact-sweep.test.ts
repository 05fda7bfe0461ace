/** What a sweep of an artifact directory keeps, and what it removes. */
import { mkdir, readdir, readFile, rename, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { createDirectoryStore } from '../../../../activities/artifacts/directory.ts';
import type { ArtifactStore } from '../../../../activities/artifacts/port.ts';
import { recordNamespace, setUpRoot } from '../../../../activities/artifacts/root.ts';
import { readArtifactsFrom, unreadableBy } from '../../../../client/artifacts/readers.ts';
import { sweepArtifacts } from '../../../../client/artifacts/sweep.ts';
import type { ArtifactRef } from '../../../../contracts/schemas/json.ts';
import { useConfigFolders } from '../../../support/config-folder.ts';
import { withCode } from '../../../support/refusal.ts';

const DAY_MS = 86_400_000;
const OLD = new Date(Date.now() - 100 * DAY_MS);
const BEFORE = Date.now() - 90 * DAY_MS;

const { folder } = useConfigFolders();
let parent: string;
let root: string;
let store: ArtifactStore;
/** Of a run that is open: no store in use is without. */
let pinned: ArtifactRef;
const AGENTS = { name: 'agents', id: '1b4e28ba-2fa1-11d2-883f-0016d3cca427' };
const RECORDS = '.countersign-namespaces';
beforeEach(async () => {
  parent = await folder();
  root = join(parent, 'artifacts');
  setUpRoot(root, true);
  store = createDirectoryStore(root);
  await recordNamespace(root, AGENTS);
  pinned = await put('pinned');
});

const pathOf = ({ sha256 }: ArtifactRef): string => join(root, sha256.slice(0, 2), sha256.slice(2, 4), sha256);

async function put(content: unknown, old = true): Promise<ArtifactRef> {
  const text = typeof content === 'string' ? content : JSON.stringify(content);
  const ref = await store.put(new TextEncoder().encode(text), 'application/json');
  if (old) await utimes(pathOf(ref), OLD, OLD);
  return ref;
}

/** As histories of the one recorded namespace name them. */
const inAgents = (...refs: readonly { readonly sha256: string }[]) =>
  new Map([[AGENTS.name, new Set(refs.map(({ sha256 }) => sha256))]]);

const sweep = async (named: readonly ArtifactRef[] = [], over: Partial<Parameters<typeof sweepArtifacts>[0]> = {}) =>
  await sweepArtifacts({
    directory: root,
    before: BEFORE,
    dryRun: false,
    referenced: async () => inAgents(pinned, ...named),
    ...over,
  });

async function left(): Promise<readonly string[]> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile() && entry.name !== '.countersign-store' && !entry.parentPath.endsWith(RECORDS))
    .map(({ name }) => name)
    .toSorted();
}
const hashes = (...refs: readonly ArtifactRef[]): readonly string[] =>
  [pinned, ...refs].map(({ sha256 }) => sha256).toSorted();

test('what is old and nobody names is removed, what is young or named stays', async () => {
  const garbage = await put('garbage');
  const young = await put('young', false);
  const named = await put('named');
  expect(await sweep([named])).toEqual({
    artifacts: 4,
    young: 1,
    needed: 2,
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
  expect((await sweep()).removed.map(({ sha256 }) => sha256).toSorted()).toEqual(
    [one.sha256, garbage.sha256].toSorted(),
  );
});

test('a dry run tells the same and removes nothing', async () => {
  const garbage = await put('garbage');
  expect((await sweep([], { dryRun: true })).removed).toEqual([{ sha256: garbage.sha256, bytes: 7 }]);
  expect(await left()).toEqual(hashes(garbage));
});

test('what another sweep has removed meanwhile is no fault, and is not counted', async () => {
  const [one, other] = [await put('garbage of one'), await put('garbage of the other')];
  const swept = await sweep([], {
    referenced: async () => {
      await rm(pathOf(other));
      return inAgents(pinned);
    },
  });
  expect(swept.removed.map(({ sha256 }) => sha256)).toEqual([one.sha256]);
});

test('what another sweep has put aside and may give back: nothing is removed, or what it names would go', async () => {
  const part = await put('a part');
  const whole = await put({ part });
  const swept = sweep([], {
    referenced: async () => {
      await rename(pathOf(whole), `${pathOf(whole)}.swept`);
      return inAgents(pinned, whole);
    },
  });
  await expect(swept).rejects.toMatchObject(withCode('SWEEP_REFUSED', 'another sweep is under way'));
  expect(await left()).toContain(part.sha256);
});

test('where all is young no history is read', async () => {
  await put('pinned', false);
  await expect(sweep([], { referenced: () => Promise.reject(new Error('read')) })).resolves.toMatchObject({ young: 1 });
});

test('INV-D3: what is put again while it is swept stays', async () => {
  const again = await put('again');
  const report = await sweep([], {
    referenced: async () => {
      // Listed as old, named by nobody: and now a run begins that needs it.
      await store.put(new TextEncoder().encode('again'), 'application/json');
      return inAgents(pinned);
    },
  });
  expect(report.removed).toEqual([]);
  expect(await left()).toEqual(hashes(again));
});

test('a put that finds it gone writes it anew', async () => {
  const garbage = await put('garbage');
  await sweep();
  expect(await left()).toEqual(hashes());
  await put('garbage', false);
  expect(Buffer.from(await store.get(garbage)).toString()).toBe('garbage');
});

test('INV-D3: where histories cannot be read nothing is removed', async () => {
  const garbage = await put('garbage');
  await expect(sweep([], { referenced: () => Promise.reject(new Error('away')) })).rejects.toThrow('away');
  expect(await left()).toEqual(hashes(garbage));
});

test('a folder that is no store is not touched', async () => {
  const pictures = join(parent, 'pictures');
  setUpRoot(pictures, true);
  await rm(join(pictures, '.countersign-store'));
  await expect(sweep([], { directory: pictures })).rejects.toMatchObject({ code: 'ARTIFACT_MISSING' });
});

test('a folder that cannot be read is not told as absent', async () => {
  const directory = join(parent, 'ring');
  await symlink(directory, directory);
  const unread = { code: 'ARTIFACT_MISSING', message: expect.stringMatching(/cannot be read \(ELOOP\)\.$/) };
  await expect(sweep([], { directory })).rejects.toMatchObject(unread);
  await expect(readArtifactsFrom(directory).get(pinned)).rejects.toMatchObject(unread);
});

test.each([
  ['EACCES', 'cannot be read (EACCES). The user of the workers alone may read artifacts: run this as that user'],
  ['EMFILE', 'cannot be read (EMFILE)'],
  ['ENOENT', undefined],
])('what keeps a store from being read says what to do: %s', (code, says) => {
  expect(unreadableBy(Object.assign(new Error(code), { code }))).toBe(says);
});

test('what is no artifact is left alone', async () => {
  await writeFile(join(root, 'lost+found'), 'x');
  const notes = join(pathOf(pinned), '..', 'notes.txt');
  await writeFile(notes, 'x');
  await utimes(notes, OLD, OLD);
  await put('garbage');
  expect(await sweep()).toMatchObject({ artifacts: 2, removed: [{ bytes: 7 }] });
  expect(await left()).toEqual([...hashes(), 'lost+found', 'notes.txt'].toSorted());
});

describe('histories that are not those of the store remove nothing (INV-D3)', () => {
  const refused = (why: RegExp) => ({
    code: 'SWEEP_REFUSED',
    message: expect.stringMatching(new RegExp(`${why.source}.*Nothing was removed\\.$`)),
  });
  let garbage: ArtifactRef;
  beforeEach(async () => {
    garbage = await put('garbage');
  });
  afterEach(async () => expect(await left()).toEqual(hashes(garbage)));

  test.each([false, true])('they name nothing of it (dry: %s)', async (dryRun) => {
    const none = async () => inAgents({ sha256: '0'.repeat(64) });
    await expect(sweep([], { referenced: none, dryRun })).rejects.toMatchObject(refused(/names anything in it/));
  });

  test('those of one namespace name something, those of another nothing', async () => {
    await recordNamespace(root, { name: 'restored', id: 'another-namespace' });
    await expect(sweep()).rejects.toMatchObject(refused(/namespace restored names anything in it/));
    const both = async () => new Map([...inAgents(pinned), ['restored', new Set([pinned.sha256])]]);
    expect(await sweep([], { referenced: both, dryRun: true })).toMatchObject({
      removed: [{ sha256: garbage.sha256 }],
    });
  });

  test('they name only what is young: enough to tell that they are its own', async () => {
    const young = await put('pinned', false);
    const report = await sweep([], { dryRun: true, referenced: async () => inAgents(young) });
    expect(report.removed).toEqual([{ sha256: garbage.sha256, bytes: 7 }]);
  });

  test('it says who uses it, and whoever reads histories is told', async () => {
    const other = { name: 'agents', id: 'another-service' };
    await recordNamespace(root, other);
    await recordNamespace(root, other);
    let told: unknown;
    await sweep([], {
      dryRun: true,
      referenced: async (recorded) => {
        told = recorded;
        return inAgents(pinned);
      },
    });
    expect(told).toEqual([AGENTS, other]);
    expect((await stat(join(root, RECORDS))).mode & 0o777).toBe(0o700);
  });

  test('nobody is recorded: it was restored without what workers have recorded', async () => {
    await rm(join(root, RECORDS), { recursive: true });
    await expect(sweep()).rejects.toMatchObject(refused(/no worker has recorded/));
    // As a worker leaves it that dies while it records.
    await mkdir(join(root, RECORDS));
    await writeFile(join(root, RECORDS, '.dead.tmp'), '{');
    await expect(sweep()).rejects.toMatchObject(refused(/no worker has recorded/));
    await rm(join(root, RECORDS), { recursive: true });
  });

  test.each(['{', '[]', '{"name":"agents"}', '{"name":"agents","id":"another"}'])(
    'a record that cannot be read is no record of nobody (%s)',
    async (text) => {
      await writeFile(join(root, RECORDS, 'x.json'), text);
      await expect(sweep()).rejects.toMatchObject(refused(/x\.json names no namespace/));
      // The worker that begins next writes it anew where it is its own.
      await rename(join(root, RECORDS, 'x.json'), join(root, RECORDS, `${AGENTS.id}.json`));
      await recordNamespace(root, AGENTS);
      expect(JSON.parse(await readFile(join(root, RECORDS, `${AGENTS.id}.json`), 'utf8'))).toEqual(AGENTS);
      expect((await sweep([], { dryRun: true })).removed).toHaveLength(1);
    },
  );
});

describe('what a sweep that was killed had put aside', () => {
  const asideOf = async (content: string): Promise<ArtifactRef> => {
    const ref = await put(content);
    await rename(pathOf(ref), `${pathOf(ref)}.swept`);
    return ref;
  };

  test('is given back, and is young, for somebody may have put it again just before (INV-D3)', async () => {
    const part = await put('a part');
    const ref = await asideOf(JSON.stringify({ part }));
    const dry = await sweep([], { dryRun: true });
    expect((await left()).some((name) => name.endsWith('.swept'))).toBe(true);
    expect(await sweep()).toEqual(dry);
    expect(dry).toMatchObject({ artifacts: 3, young: 1, needed: 2, removed: [] });
    expect(await left()).toEqual(hashes(ref, part));
    expect((await stat(pathOf(ref))).mtimeMs).toBeGreaterThan(BEFORE);
  });

  test('is nothing where it has been put again since', async () => {
    const ref = await asideOf('again');
    await put('again', false);
    const dry = await sweep([], { dryRun: true });
    expect(await sweep()).toEqual(dry);
    expect(dry).toMatchObject({ artifacts: 2, young: 1, removed: [] });
    expect(await left()).toEqual(hashes(ref));
  });
});
