/** Opens the artifact store that the configuration names, for reading. */
import { readArtifactsFrom, readArtifactsFromBucket } from '../../client/index.ts';
import type { ArtifactReader } from '../../client/ledger/ledger.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { BucketConfig } from '../../contracts/schemas/stores.ts';

export type ArtifactPlace =
  /** Absolute path. */
  | { readonly kind: 'directory'; readonly directory: string }
  /** With `allowInsecure`, workers may speak to the bucket in clear, and so may this command. */
  | { readonly kind: 'bucket'; readonly bucket: BucketConfig; readonly allowInsecure: boolean }
  /** A bucket whose credentials this client does not have; most commands need none. */
  | { readonly kind: 'unreadable'; readonly reason: string };

export function artifactReader(place: ArtifactPlace): ArtifactReader {
  switch (place.kind) {
    case 'directory':
      return readArtifactsFrom(place.directory);
    case 'bucket':
      return readArtifactsFromBucket(place.bucket, place);
    case 'unreadable':
      return { get: () => Promise.reject(new CountersignError('ARTIFACT_MISSING', place.reason)) };
  }
}
