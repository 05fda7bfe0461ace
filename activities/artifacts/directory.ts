/**
 * This `ArtifactStore` keeps one file per content in a directory: `<root>/ab/cd/<sha256>`. Nothing is ever deleted here
 * (`countersign artifacts sweep`).
 *
 * 1. Files are whole or not there, for the owner alone (`activities/kit/durable-file.ts`).
 * 2. Bytes are hashed again when they are read, so a changed or shortened file is detected, never returned.
 * 3. A file that is put again is as young as a new one: a sweep that removes old files counts from the last put.
 * 4. A full disk, a lost right and the like are `ARTIFACT_MISSING`: they may be mended while runs wait.
 */
import { readFile, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { CountersignError, nodeCodeOf } from '../../contracts/errors.ts';
import { replace } from '../kit/durable-file.ts';
import { type ArtifactStore, assertHash, corrupt, sha256Of } from './port.ts';
import { assertRoot } from './root.ts';

export function createDirectoryStore(root: string): ArtifactStore {
  return {
    async put(bytes, contentType) {
      const sha256 = sha256Of(bytes);
      const path = pathOf(root, sha256);
      try {
        await assertRoot(root);
        if (!(await renewed(path, sha256))) await replace(root, path, bytes);
      } catch (error) {
        throw unusable(root, error);
      }
      return { sha256, bytes: bytes.length, contentType };
    },
    async get(ref) {
      assertHash(ref);
      let bytes: Uint8Array;
      try {
        bytes = await readFile(pathOf(root, ref.sha256));
      } catch (error) {
        if (nodeCodeOf(error) !== 'ENOENT') throw unusable(root, error);
        await assertRoot(root).catch((fault: unknown) => {
          throw unusable(root, fault);
        });
        const message = `Artifact ${ref.sha256} is not in the store at ${root}.`;
        throw new CountersignError('ARTIFACT_MISSING', message, {}, { cause: error });
      }
      if (bytes.length !== ref.bytes || sha256Of(bytes) !== ref.sha256) throw corrupt(ref.sha256);
      return bytes;
    },
  };
}

/** True if the file is there and now counts as new. A damaged one is written anew, which repairs it. */
async function renewed(path: string, sha256: string): Promise<boolean> {
  try {
    if (sha256Of(await readFile(path)) !== sha256) return false;
    const now = new Date();
    // The update fails if a sweep has put the file aside meanwhile: then it is not there.
    await utimes(path, now, now);
    return true;
  } catch (error) {
    if (nodeCodeOf(error) === 'ENOENT') return false;
    throw error;
  }
}

/** Leaves what is no fault of the system as it is. */
function unusable(root: string, error: unknown): unknown {
  const code = nodeCodeOf(error);
  if (error instanceof CountersignError || code === undefined || /^(?:ERR_|\d)/.test(code)) return error;
  const message = `The artifact store at ${root} cannot be used (${code}). See that there is space on this worker, and that its user may read and write there; a run that waits then goes on.`;
  return new CountersignError('ARTIFACT_MISSING', message, { path: 'artifacts.directory' }, { cause: error });
}

function pathOf(root: string, sha256: string): string {
  return join(root, sha256.slice(0, 2), sha256.slice(2, 4), sha256);
}
