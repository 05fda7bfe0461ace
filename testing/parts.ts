/** Parts of a world for tests: how they end, and where their artifacts are read. */
import { resolve } from 'node:path';
import { readArtifactsFrom, readArtifactsFromBucket } from '../client/index.ts';
import type { Config } from '../contracts/schemas/config.ts';

export interface Part {
  stop(): Promise<unknown>;
}

/**
 * Stops the part that was started last first, and every other one even where one fails.
 * @throws what the first of them has failed with
 */
export async function stopAll(started: Part[]): Promise<void> {
  const failures: { readonly reason: unknown }[] = [];
  for (const part of started.splice(0).toReversed())
    await part.stop().catch((reason: unknown) => void failures.push({ reason }));
  const [first] = failures;
  if (first !== undefined) throw first.reason;
}

/** Reads what workers of this configuration store. @param directory of the configuration, as workers have it */
export function readerOf(
  { artifacts, egress }: Pick<Config, 'artifacts' | 'egress'>,
  directory: string,
): ReturnType<typeof readArtifactsFrom> {
  const { s3, directory: folder } = artifacts;
  return s3 === undefined ? readArtifactsFrom(resolve(directory, folder)) : readArtifactsFromBucket(s3, egress);
}
