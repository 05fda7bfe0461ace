/** This `ArtifactStore` lives in memory, for tests and for a process that keeps nothing: it is not durable. */
import { createHash } from 'node:crypto';
import { CountersignError } from '../../contracts/errors.ts';
import { type ArtifactStore, corrupt } from './port.ts';

export function createMemoryStore(): ArtifactStore {
  const kept = new Map<string, Uint8Array>();
  return {
    put(bytes, contentType) {
      const sha256 = createHash('sha256').update(bytes).digest('hex');
      // The caller may go on using its buffer.
      kept.set(sha256, Uint8Array.from(bytes));
      return Promise.resolve({ sha256, bytes: bytes.length, contentType });
    },
    get(ref) {
      const bytes = kept.get(ref.sha256);
      if (bytes === undefined)
        return Promise.reject(new CountersignError('ARTIFACT_MISSING', `Artifact ${ref.sha256} is not in this store.`));
      if (bytes.length !== ref.bytes) return Promise.reject(corrupt(ref.sha256));
      return Promise.resolve(Uint8Array.from(bytes));
    },
  };
}
