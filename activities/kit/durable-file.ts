/**
 * Writes files that are whole or absent, also after a crash, in the folders of a store that workers share.
 *
 * It does not own the root of the store (`activities/artifacts/root.ts`).
 * 1. A file has its name only once its bytes are on disk. Names are durable only when the folders that hold them are: a
 *    write is acknowledged once these are synced.
 * 2. The root is never created: a folder below a bare mount point would be hidden as soon as the volume comes back.
 * 3. Files and folders are readable by the owner alone (0600, 0700).
 */
import { randomUUID } from 'node:crypto';
import { type FileHandle, link, mkdir, open, rename, rm, stat } from 'node:fs/promises';
import { dirname, join, relative, sep } from 'node:path';
import { nodeCodeOf } from '../../contracts/errors.ts';

const FOLDER_MODE = 0o700;
const FILE_MODE = 0o600;

/**
 * Writes a file that does not exist yet. Returns false if another writer was first; this needs no lock and survives a
 * crash.
 */
export async function writeNew(root: string, path: string, content: string | Uint8Array): Promise<boolean> {
  return await written(root, path, content, async (temporary) => {
    try {
      await link(temporary, path);
      return true;
    } catch (error) {
      if (nodeCodeOf(error) !== 'EEXIST') throw error;
      // An NFS client repeats a request whose answer was lost, and then meets the name that it has made itself
      // (link(2), BUGS).
      return await isSame(temporary, path);
    }
  });
}

/** Writes a file over any existing one: readers get all of the old file or all of the new one. */
export async function replace(root: string, path: string, content: string | Uint8Array): Promise<void> {
  await written(root, path, content, async (temporary) => {
    await rename(temporary, path);
    return true;
  });
}

export async function syncFolders(root: string, folder: string): Promise<void> {
  for (const synced of [...foldersBelow(root, folder), root])
    await closing(await open(synced, 'r'), async (handle) => await handle.sync());
}

async function written(
  root: string,
  path: string,
  content: string | Uint8Array,
  name: (temporary: string) => Promise<boolean>,
): Promise<boolean> {
  const folder = dirname(path);
  // The folders are made one by one, because `recursive` would make the root too.
  for (const made of foldersBelow(root, folder).toReversed()) await makeFolder(made);
  // The temporary file is in the same folder: a rename is atomic only within one file system.
  const temporary = join(folder, `.${randomUUID()}.tmp`);
  try {
    // `wx` never writes through a link that somebody put there.
    await closing(await open(temporary, 'wx', FILE_MODE), async (file) => {
      await file.writeFile(content);
      await file.sync();
    });
    if (!(await name(temporary))) return false;
  } finally {
    // A full disk must not fill further.
    await rm(temporary, { force: true });
  }
  await syncFolders(root, folder);
  return true;
}

function foldersBelow(root: string, folder: string): readonly string[] {
  const names = relative(root, folder).split(sep);
  return names.map((_, above) => join(root, ...names.slice(0, names.length - above)));
}

async function makeFolder(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: FOLDER_MODE });
  } catch (error) {
    if (nodeCodeOf(error) !== 'EEXIST') throw error;
  }
}

async function closing(file: FileHandle, use: (file: FileHandle) => Promise<void>): Promise<void> {
  try {
    await use(file);
  } finally {
    await file.close();
  }
}

async function isSame(one: string, other: string): Promise<boolean> {
  try {
    const [first, second] = [await stat(one, { bigint: true }), await stat(other, { bigint: true })];
    return first.ino === second.ino && first.dev === second.dev;
  } catch (error) {
    if (nodeCodeOf(error) === 'ENOENT') return false;
    throw error;
  }
}
