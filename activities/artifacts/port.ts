/**
 * An artifact store keeps bytes that are too large, or of the wrong kind, for history. It is addressed by content, so a
 * repeated put is harmless.
 *
 * 1. `put` returns only when the bytes are durable.
 * 2. `get` returns exactly the bytes that were put, or throws `ARTIFACT_MISSING` / `ARTIFACT_CORRUPT`.
 */
import type { ArtifactRef } from '../../contracts/schemas/json.ts';

export interface ArtifactStore {
  put(bytes: Uint8Array, contentType: string): Promise<ArtifactRef>;
  get(ref: ArtifactRef): Promise<Uint8Array>;
}
