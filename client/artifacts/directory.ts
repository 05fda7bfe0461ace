/** Reads artifacts from the workers' folder (`activities/artifacts/directory.ts`), or from a copy of it. */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CountersignError } from '../../contracts/errors.ts';
import { Sha256Hex } from '../../contracts/schemas/json.ts';
import type { ArtifactReader } from '../ledger/ledger.ts';

export function readArtifactsFrom(directory: string): ArtifactReader {
  return {
    get: async ({ sha256 }) => {
      // A reference comes from outside the process, so a path is made of nothing but a hash.
      if (!Sha256Hex.safeParse(sha256).success)
        throw new CountersignError('ARTIFACT_MISSING', 'The reference holds no sha256.');
      const path = join(directory, sha256.slice(0, 2), sha256.slice(2, 4), sha256);
      const bytes = await readFile(path).catch((error: unknown) => {
        throw new CountersignError(
          'ARTIFACT_MISSING',
          `Artifact ${sha256} is not in ${directory}; name the workers' artifact folder.`,
          {},
          { cause: error },
        );
      });
      if (createHash('sha256').update(bytes).digest('hex') === sha256) return bytes;
      throw new CountersignError(
        'ARTIFACT_CORRUPT',
        `Artifact ${sha256} is not what was stored; restore it from a backup.`,
      );
    },
  };
}
