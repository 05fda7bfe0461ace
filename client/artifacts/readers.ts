/**
 * Reads artifacts from the workers' bucket (`activities/artifacts/bucket.ts`), or from their folder.
 *
 * 1. The connection uses TLS, except to this machine. No more of an answer is read than the artifact has bytes.
 * 2. The content is checked against its hash, wherever it comes from. No error quotes credentials or the text of an
 *    answer.
 */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { AskBucket } from '../../activities/artifacts/bucket-request.ts';
import { CountersignError, nodeCodeOf } from '../../contracts/errors.ts';
import { type ArtifactRef, Sha256Hex } from '../../contracts/schemas/json.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { BucketConfig, type BucketInput } from '../../contracts/schemas/stores.ts';
import { artifactUrl, bucketTrouble, isAbsent } from '../../domain/text/object-keys.ts';
import { isSecurelyReached } from '../../domain/text/urls.ts';
import type { ArtifactReader } from '../ledger/ledger.ts';

/** Most bytes of an artifact of which only the hash is known: the segment that a run named last. */
const MOST_BYTES = 64 * 1_024 * 1_024;

/**
 * Creates a reader of the bucket.
 * @param options as under `artifacts.s3` of the configuration; `s3:GetObject` is enough
 * @param allowInsecure as `egress.allowInsecure` of the configuration: permits clear text to other machines, too
 * @throws CountersignError `CONFIG_INVALID`
 */
export function readArtifactsFromBucket(
  options: BucketInput,
  { allowInsecure = false }: { readonly allowInsecure?: boolean } = {},
): ArtifactReader {
  const config = parseAs(BucketConfig, options, 'CONFIG_INVALID', 'artifact bucket');
  if (!isSecurelyReached(new URL(config.endpoint), allowInsecure)) {
    const message =
      'artifact bucket: endpoint must use https, save to this machine: session tokens and artifacts would go in clear.';
    throw new CountersignError('CONFIG_INVALID', message, { path: 'endpoint' });
  }
  let ask: AskBucket | undefined;
  return checked(async ({ sha256, bytes }) => {
    const missing = (why: string): CountersignError => {
      const message = `Artifact ${sha256} cannot be read from ${config.endpoint}/${config.bucket}: ${why}.`;
      return new CountersignError('ARTIFACT_MISSING', message);
    };
    // Loaded with the first artifact: most clients never read one.
    const { bucketRequestBy, BucketSilent } = await import('../../activities/artifacts/bucket-request.ts');
    const { fetch } = await import('undici');
    ask ??= bucketRequestBy(config, fetch);
    const maxBytes = bytes === 0 ? MOST_BYTES : bytes;
    const url = artifactUrl(config, sha256);
    const { status, code, body } = await ask({ method: 'GET', url, maxBytes }).catch((error: unknown) => {
      throw error instanceof BucketSilent ? missing(`the store ${error.message}`) : error;
    });
    if (status === 200) return body;
    if (isAbsent(status, code)) throw missing('it is not there');
    const { field, reason } = bucketTrouble(status, code);
    throw missing(`${field === undefined ? 'the store' : `artifacts.s3.${field}`} ${reason}`);
  });
}

function checked(read: (ref: ArtifactRef) => Promise<Uint8Array | undefined>): ArtifactReader {
  return {
    get: async (ref) => {
      const { sha256 } = ref;
      // A reference comes from outside the process, so a key or a path is made of nothing but a hash.
      if (!Sha256Hex.safeParse(sha256).success)
        throw new CountersignError('ARTIFACT_MISSING', 'The reference holds no sha256.');
      const bytes = await read(ref);
      if (bytes !== undefined && createHash('sha256').update(bytes).digest('hex') === sha256) return bytes;
      const message = `Artifact ${sha256} is not what was stored; restore it from a backup.`;
      throw new CountersignError('ARTIFACT_CORRUPT', message);
    },
  };
}

export function readArtifactsFrom(directory: string): ArtifactReader {
  return checked(async ({ sha256 }) => {
    const path = join(directory, sha256.slice(0, 2), sha256.slice(2, 4), sha256);
    return await readFile(path).catch((error: unknown) => {
      const absent = `Artifact ${sha256} is not in ${directory}; name the workers' artifact folder.`;
      throw missingBy(error, `Artifact ${sha256} in ${directory}`, absent);
    });
  });
}

/** @param absent the message if nothing is there, and not merely unreadable */
export function missingBy(error: unknown, what: string, absent: string): CountersignError {
  const why = unreadableBy(error);
  const message = why === undefined ? absent : `${what} ${why}.`;
  return new CountersignError('ARTIFACT_MISSING', message, {}, { cause: error });
}

/** Says why something cannot be read that may well be there; undefined if it is not there. */
export function unreadableBy(error: unknown): string | undefined {
  const code = nodeCodeOf(error);
  if (code === undefined || ['ENOENT', 'ENOTDIR'].includes(code)) return undefined;
  const isRight = code === 'EACCES' || code === 'EPERM';
  return `cannot be read (${code})${isRight ? '. The user of the workers alone may read artifacts: run this as that user' : ''}`;
}
