/** Makes an artifact store that remembers everything put into it, for tests that ask what was stored. */
import { createMemoryStore } from '../../activities/artifacts/memory.ts';
import type { ArtifactStore } from '../../activities/artifacts/port.ts';

export interface ObservedArtifacts extends ArtifactStore {
  readonly stored: readonly { readonly bytes: Uint8Array; readonly contentType: string }[];
}

export function observedArtifacts(): ObservedArtifacts {
  const store = createMemoryStore();
  const stored: { readonly bytes: Uint8Array; readonly contentType: string }[] = [];
  return {
    stored,
    put(bytes, contentType) {
      stored.push({ bytes: Uint8Array.from(bytes), contentType });
      return store.put(bytes, contentType);
    },
    get: (ref) => store.get(ref),
  };
}
