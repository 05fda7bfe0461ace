/**
 * Reads the artifact bucket of the workers (`activities/artifacts/bucket.ts`).
 *
 * 1. Over TLS, save to this machine; of an answer no more is read than the artifact has bytes.
 * 2. What is read is hashed, as in `artifact-directory.ts`. No error quotes credentials or an answer's text.
 */
import { createHash } from 'node:crypto';
import { fetch } from 'undici';
import { BucketSilent, bucketRequestBy } from '../activities/artifacts/bucket-request.ts';
import { CountersignError } from '../contracts/errors.ts';
import { BucketConfig, type BucketInput } from '../contracts/schemas/artifact-store.ts';
import { Sha256Hex } from '../contracts/schemas/json.ts';
import { parseAs } from '../contracts/schemas/parse.ts';
import { artifactUrl, bucketTrouble, isAbsent } from '../domain/bucket.ts';
import { isSecurelyReached } from '../domain/transport.ts';
import type { ArtifactReader } from './ledger.ts';

/** Of an artifact of which only the hash is known: the segment that a run named last. */
const MOST_BYTES = 64 * 1_024 * 1_024;

/**
 * @param options as under `artifacts.s3` of the configuration; `s3:GetObject` is enough
 * @param allowInsecure as `egress.allowInsecure` of the configuration: in clear to other machines, too
 * @throws CountersignError `CONFIG_INVALID`
 */
export function readArtifactsFromBucket(
  options: BucketInput,
  { allowInsecure = false }: { readonly allowInsecure?: boolean } = {},
): ArtifactReader {
  const config = parseAs(BucketConfig, options, 'CONFIG_INVALID', 'artifact bucket');
  if (!isSecurelyReached(new URL(config.endpoint), allowInsecure))
    throw new CountersignError(
      'CONFIG_INVALID',
      'artifact bucket: endpoint must use https, save to this machine: session tokens and artifacts would go in clear.',
      { path: 'endpoint' },
    );
  const ask = bucketRequestBy(config, fetch);
  return {
    get: async ({ sha256, bytes }) => {
      // What a run refers to comes from outside: a key is made of nothing but a hash.
      if (!Sha256Hex.safeParse(sha256).success)
        throw new CountersignError('ARTIFACT_MISSING', 'The reference holds no sha256.');
      const url = artifactUrl(config, sha256);
      const { status, code, body } = await ask({
        method: 'GET',
        url,
        maxBytes: bytes === 0 ? MOST_BYTES : bytes,
      }).catch((error: unknown) => {
        throw error instanceof BucketSilent ? missing(config, sha256, `the store ${error.message}`) : error;
      });
      if (status !== 200) throw unreadable(config, sha256, status, code);
      if (body !== undefined && createHash('sha256').update(body).digest('hex') === sha256) return body;
      throw new CountersignError(
        'ARTIFACT_CORRUPT',
        `Artifact ${sha256} is not what was stored; restore it from a backup.`,
      );
    },
  };
}

function unreadable(config: BucketConfig, sha256: string, status: number, code: string): CountersignError {
  if (isAbsent(status, code)) return missing(config, sha256, 'it is not there');
  const { field, reason } = bucketTrouble(status, code);
  return missing(config, sha256, `${field === undefined ? 'the store' : `artifacts.s3.${field}`} ${reason}`);
}

function missing({ endpoint, bucket }: BucketConfig, sha256: string, why: string): CountersignError {
  return new CountersignError(
    'ARTIFACT_MISSING',
    `Artifact ${sha256} cannot be read from ${endpoint}/${bucket}: ${why}.`,
  );
}
