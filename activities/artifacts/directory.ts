/**
 * An `ArtifactStore` in a directory, one file per content: `<root>/ab/cd/<sha256>`.
 *
 * Owns layout, durability, access rights. Does not own the root (`root.ts`), nor when an artifact may go: nothing is ever
 * deleted here (`countersign artifacts sweep`).
 *
 * 1. A file has its name only once its bytes are on disk: written under another name, synced, renamed, the folder synced.
 * 2. Readable by the owner alone (0700, 0600): artifacts are what tools returned.
 * 3. What is read is hashed again, so a changed or shortened file is found out, never returned.
 * 4. A file that is put again is as young as a new one: a sweep that removes what is old counts from the last put.
 */
import { createHash, randomUUID } from 'node:crypto';
import { type FileHandle, mkdir, open, readFile, rename, rm, utimes } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { CountersignError } from '../../contracts/errors.ts';
import { Sha256Hex } from '../../contracts/schemas/json.ts';
import type { ArtifactStore } from './port.ts';
import { assertRoot } from './root.ts';

const FOLDER_MODE = 0o700;
const FILE_MODE = 0o600;

export function createDirectoryStore(root: string): ArtifactStore {
  return {
    async put(bytes, contentType) {
      await assertRoot(root);
      const sha256 = sha256Of(bytes);
      const path = pathOf(root, sha256);
      if (!(await renewed(path, sha256))) await write(root, path, bytes);
      return { sha256, bytes: bytes.length, contentType };
    },
    async get(ref) {
      // A reference may come from outside: a path is made of nothing but a hash.
      if (!Sha256Hex.safeParse(ref.sha256).success)
        throw new CountersignError('ARTIFACT_MISSING', 'The reference holds no sha256.');
      let bytes: Uint8Array;
      try {
        bytes = await readFile(pathOf(root, ref.sha256));
      } catch (error) {
        if (codeOf(error) !== 'ENOENT') throw error;
        await assertRoot(root);
        throw new CountersignError(
          'ARTIFACT_MISSING',
          `Artifact ${ref.sha256} is not in the store at ${root}.`,
          {},
          { cause: error },
        );
      }
      if (bytes.length !== ref.bytes || sha256Of(bytes) !== ref.sha256) {
        throw new CountersignError(
          'ARTIFACT_CORRUPT',
          `Artifact ${ref.sha256} is not what was stored; restore it from a backup.`,
        );
      }
      return bytes;
    },
  };
}

async function write(root: string, path: string, bytes: Uint8Array): Promise<void> {
  const folder = dirname(path);
  // One by one: `recursive` would make the root too.
  for (const made of [dirname(folder), folder]) await makeFolder(made);
  // In the same folder, because a rename is atomic only within one file system.
  const temporary = join(folder, `.${randomUUID()}.tmp`);
  try {
    // `wx`: never through a link that somebody put there.
    await within(await open(temporary, 'wx', FILE_MODE), async (file) => {
      await file.writeFile(bytes);
      await file.sync();
    });
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  // The names are durable only when the folders that hold them are.
  for (const directory of [folder, dirname(folder), root]) {
    await within(await open(directory, 'r'), (handle) => handle.sync());
  }
}

async function makeFolder(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: FOLDER_MODE });
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
  }
}

/** Is it there? A damaged file is written anew; that is the one way in which it can be mended. */
async function renewed(path: string, sha256: string): Promise<boolean> {
  try {
    if (sha256Of(await readFile(path)) !== sha256) return false;
    const now = new Date();
    // Fails where a sweep has put the file aside meanwhile: then it is not there.
    await utimes(path, now, now);
    return true;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false;
    throw error;
  }
}

async function within(file: FileHandle, use: (file: FileHandle) => Promise<void>): Promise<void> {
  try {
    await use(file);
  } finally {
    await file.close();
  }
}

function pathOf(root: string, sha256: string): string {
  return join(root, sha256.slice(0, 2), sha256.slice(2, 4), sha256);
}

function sha256Of(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** Not by instanceof: errors of Node's core are of another realm under jest. */
function codeOf(error: unknown): unknown {
  return typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;
}
