/** Both artifact stores against the suite of their port, and what only a directory can do. */
import { chmod, mkdtemp, readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createDirectoryStore } from '../../activities/artifacts/directory.ts';
import { createMemoryStore } from '../../activities/artifacts/memory.ts';
import { artifactSuite } from './artifacts.suite.ts';

let parent: string;
beforeAll(async () => {
  parent = await mkdtemp(join(tmpdir(), 'countersign-artifacts-'));
});
afterAll(async () => rm(parent, { recursive: true, force: true }));

let made = 0;
/** Does not exist yet: the store makes it. */
function newRoot(): string {
  made += 1;
  return join(parent, `store-${made}`);
}

artifactSuite({ name: 'in memory', create: createMemoryStore });
artifactSuite({ name: 'in a directory', create: () => createDirectoryStore(newRoot()) });

describe('the directory store', () => {
  const put = async (text: string) => {
    const root = newRoot();
    const store = createDirectoryStore(root);
    const ref = await store.put(new TextEncoder().encode(text), 'text/plain');
    return { root, store, ref, path: join(root, ref.sha256.slice(0, 2), ref.sha256.slice(2, 4), ref.sha256) };
  };

  test('another store on the same directory reads what one wrote', async () => {
    const { root, ref } = await put('kept');
    expect(Buffer.from(await createDirectoryStore(root).get(ref)).toString()).toBe('kept');
  });

  test('files and folders are for their owner alone, and no temporary file stays', async () => {
    const { root, ref, path } = await put('private');
    const folders = [root, join(root, ref.sha256.slice(0, 2)), join(path, '..')];
    for (const folder of folders) expect((await stat(folder)).mode & 0o777).toBe(0o700);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect(
      (await readdir(root, { recursive: true, withFileTypes: true }))
        .filter((entry) => entry.isFile())
        .map((entry) => entry.name),
    ).toEqual([ref.sha256]);
  });

  test('a file that was changed is ARTIFACT_CORRUPT, never returned', async () => {
    const { store, ref, path } = await put('original');
    await writeFile(path, 'changed!');
    await expect(store.get(ref)).rejects.toMatchObject({ code: 'ARTIFACT_CORRUPT' });
  });

  test('a file that was cut short is ARTIFACT_CORRUPT, and putting the bytes again mends it', async () => {
    const { store, ref, path } = await put('original');
    await truncate(path, 3);
    await expect(store.get(ref)).rejects.toMatchObject({ code: 'ARTIFACT_CORRUPT' });
    await store.put(new TextEncoder().encode('original'), 'text/plain');
    expect(await readFile(path, 'utf8')).toBe('original');
  });

  test('where nothing can be written, put fails and leaves nothing behind', async () => {
    const root = newRoot();
    await writeFile(root, 'a file where the folder should be');
    await expect(createDirectoryStore(root).put(new Uint8Array([1]), 'text/plain')).rejects.toThrow();
    await chmod(root, 0o600);
    expect(await readFile(root, 'utf8')).toBe('a file where the folder should be');
  });
});
