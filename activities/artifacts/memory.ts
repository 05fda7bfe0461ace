/** This `ArtifactStore` lives in memory, for tests and for a process that keeps nothing: it is not durable. */
import { CountersignError } from '../../contracts/errors.ts';
import { type ArtifactStore, corrupt, sha256Of } from './port.ts';

export function createMemoryStore(): ArtifactStore {
  const kept = new Map<string, Uint8Array>();
  return {
    async put(bytes, contentType) {
      const sha256 = sha256Of(bytes);
      // The caller may go on using its buffer.
      kept.set(sha256, Uint8Array.from(bytes));
      return { sha256, bytes: bytes.length, contentType };
    },
    async get(ref) {
      const bytes = kept.get(ref.sha256);
      if (bytes === undefined)
        throw new CountersignError('ARTIFACT_MISSING', `Artifact ${ref.sha256} is not in this store.`);
      if (bytes.length !== ref.bytes) throw corrupt(ref.sha256);
      return Uint8Array.from(bytes);
    },
  };
}
