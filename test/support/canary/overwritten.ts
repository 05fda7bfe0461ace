/** Overwrites the secrets in bytes that are searched at once; `largeBytes` of a scrubber does so part by part. */
import { createSecretSearch } from '../../../activities/scrubbing/scrubber.ts';

export function overwritten(secrets: readonly string[], bytes: Uint8Array): Buffer {
  const clean = Buffer.from(bytes);
  for (const { start, end } of createSecretSearch(secrets).spansIn(bytes)) clean.fill('*', start, end);
  return clean;
}
