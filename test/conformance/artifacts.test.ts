/** The stores that need no server against the suite of their port, and what only a directory can do. */
import { chmod, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createDirectoryStore } from '../../activities/artifacts/directory.ts';
import { createMemoryStore } from '../../activities/artifacts/memory.ts';
import { MARKER, recordNamespace, setUpRoot } from '../../activities/artifacts/root.ts';
import { artifactSuite, keptArtifactSuite } from './artifacts.suite.ts';

let parent: string;
beforeAll(async () => {
  parent = await mkdtemp(join(tmpdir(), 'countersign-artifacts-'));
});
afterAll(async () => rm(parent, { recursive: true, force: true }));

let made = 0;
/** Does not exist yet. */
function newPath(): string {
  made += 1;
  return join(parent, `store-${made}`);
}

function newRoot(): string {
  const root = newPath();
  setUpRoot(root, true);
  return root;
}

artifactSuite({ name: 'in memory', create: createMemoryStore });
artifactSuite({ name: 'in a directory', create: () => createDirectoryStore(newRoot()) });
keptArtifactSuite('in a directory', async () => {
  const root = newRoot();
  return {
    store: createDirectoryStore(root),
    another: () => createDirectoryStore(root),
    overwrite: async (sha256, bytes) =>
      await writeFile(join(root, sha256.slice(0, 2), sha256.slice(2, 4), sha256), bytes),
    takeAway: async () => await rename(root, `${root}.away`),
    bringBack: async () => await rename(`${root}.away`, root),
  };
});

describe('the directory store', () => {
  const put = async (text: string) => {
    const root = newRoot();
    const store = createDirectoryStore(root);
    const ref = await store.put(new TextEncoder().encode(text), 'text/plain');
    return { root, store, ref, path: join(root, ref.sha256.slice(0, 2), ref.sha256.slice(2, 4), ref.sha256) };
  };

  test('files and folders are for their owner alone, and no temporary file stays', async () => {
    const { root, ref, path } = await put('private');
    const folders = [root, join(root, ref.sha256.slice(0, 2)), join(path, '..')];
    for (const folder of folders) expect((await stat(folder)).mode & 0o777).toBe(0o700);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect(
      (await readdir(root, { recursive: true, withFileTypes: true }))
        .filter((entry) => entry.isFile())
        .map((entry) => entry.name)
        .toSorted(),
    ).toEqual([MARKER, ref.sha256]);
  });

  test('INV-D3: what the disk refuses has a code that may pass, with the directory, the reason and what to look at', async () => {
    const { root, store, ref } = await put('kept');
    // A file where a folder should be: no user, not even root, can write or read below it.
    await rm(join(root, ref.sha256.slice(0, 2)), { recursive: true });
    await writeFile(join(root, ref.sha256.slice(0, 2)), '');
    const again = async () => await store.put(new TextEncoder().encode('kept'), 'text/plain');
    for (const refused of [again, async () => await store.get(ref)])
      await expect(refused()).rejects.toMatchObject({
        code: 'ARTIFACT_MISSING',
        traits: expect.objectContaining({ retryable: true }),
        facts: { path: 'artifacts.directory' },
        message: expect.stringMatching(
          `^The artifact store at ${root} cannot be used \\(ENOTDIR\\)\\. See that there is space`,
        ),
      });
  });

  test('INV-D3: a marker that cannot be looked at is no volume that is away: the directory is named, with the reason', async () => {
    const { root, store, ref, path } = await put('kept');
    await rm(path);
    await rm(join(root, MARKER));
    // No user, not even root, can follow a link to itself.
    await symlink(MARKER, join(root, MARKER));
    const again = async () => await store.put(new TextEncoder().encode('kept'), 'text/plain');
    for (const refused of [again, async () => await store.get(ref)])
      await expect(refused()).rejects.toMatchObject({
        code: 'ARTIFACT_MISSING',
        facts: { path: 'artifacts.directory' },
        message: expect.stringMatching(`^The artifact store at ${root} cannot be used \\(ELOOP\\)\\.`),
      });
  });

  test('where nothing can be written, put fails and leaves nothing behind', async () => {
    const root = newPath();
    await writeFile(root, 'a file where the folder should be');
    await expect(createDirectoryStore(root).put(new Uint8Array([1]), 'text/plain')).rejects.toThrow();
    await chmod(root, 0o600);
    expect(await readFile(root, 'utf8')).toBe('a file where the folder should be');
  });
});

describe('the root of a directory store', () => {
  const BYTES = new TextEncoder().encode('kept');

  test.each([
    ['is away', async () => newPath()],
    ['is a mount point on which nothing is mounted', async () => emptyFolder()],
  ])('INV-D3: where it %s, nothing is stored, nothing is made, and the failure may pass', async (_, make) => {
    const root = await make();
    const before = await readdir(parent, { recursive: true });
    const store = createDirectoryStore(root);
    for (const refused of [store.put(BYTES, 'text/plain'), store.get({ ...REF, bytes: 4 })]) {
      await expect(refused).rejects.toMatchObject({
        code: 'ARTIFACT_MISSING',
        traits: expect.objectContaining({ retryable: true }),
        message: expect.stringContaining(MARKER),
      });
    }
    expect(await readdir(parent, { recursive: true })).toEqual(before);
  });

  test('is made whole, with the folders above it, and a second time changes nothing', async () => {
    const root = join(newPath(), 'below', 'artifacts');
    setUpRoot(root, true);
    setUpRoot(root, true);
    expect(await readdir(join(root, '..'))).toEqual(['artifacts']);
    expect((await stat(root)).mode & 0o777).toBe(0o700);
    expect(await readdir(root)).toEqual([MARKER]);
  });

  test.each([
    ['is absent, where it may not be made', async () => newPath(), false],
    ['is empty, as a bare mount point is', async () => emptyFolder(), true],
    ['holds what is no artifact', async () => emptyFolder('lost+found'), true],
    ['holds artifacts, and has lost its marker', async () => emptyFolder('ab'), true],
  ])('that %s is refused, with what to do', async (_, make, mayCreate) => {
    const root = await make();
    const before = await readdir(parent, { recursive: true });
    expect(() => setUpRoot(root, mayCreate)).toThrow(
      expect.objectContaining({ code: 'SETUP_INCOMPLETE', message: expect.stringContaining(`touch '${root}/`) }),
    );
    expect(await readdir(parent, { recursive: true })).toEqual(before);
  });

  test('that cannot be read or written is refused, with the error of the system and what to look at', async () => {
    const refused = expect.objectContaining({
      code: 'SETUP_INCOMPLETE',
      message: expect.stringMatching(
        /cannot be used \([A-Z]+\)\. See that there is space, and .+ may read and write it/,
      ),
    });
    const file = newPath();
    await writeFile(file, '');
    expect(() => setUpRoot(file, true)).toThrow(refused);
    expect(() => setUpRoot(join(file, 'below'), true)).toThrow(refused);
    const root = newRoot();
    await writeFile(join(root, '.countersign-namespaces'), '');
    await expect(recordNamespace(root, { name: 'agents', id: 'a' })).rejects.toEqual(refused);
  });
});

const REF = { sha256: 'a'.repeat(64), contentType: 'text/plain' };

async function emptyFolder(...inside: readonly string[]): Promise<string> {
  const root = newPath();
  await mkdir(root);
  for (const name of inside) await mkdir(join(root, name));
  return root;
}
