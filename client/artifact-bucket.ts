/**
 * Reads the artifact bucket of the workers (`activities/artifacts/bucket.ts`).
 *
 * 1. Bounded: three tries, each of `timeoutSeconds`; no redirect is followed, since a signature is for one host.
 * 2. What is read is hashed, as in `artifact-directory.ts`. No error quotes credentials or an answer's text.
 */
import { createHash } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { AwsV4Signer } from 'aws4fetch';
import { fetch } from 'undici';
import { CountersignError } from '../contracts/errors.ts';
import { BucketConfig, type BucketInput } from '../contracts/schemas/artifact-store.ts';
import { Sha256Hex } from '../contracts/schemas/json.ts';
import { parseAs } from '../contracts/schemas/parse.ts';
import { artifactUrl, bucketCodeIn, bucketTrouble, isAbsent, isPassing } from '../domain/bucket.ts';
import type { ArtifactReader } from './ledger.ts';

const MOST_TRIES = 3;
const WAIT_MS = 200;

interface Answer {
  readonly status: number;
  readonly body: Uint8Array;
}

/** @param options as under `artifacts.s3` of the configuration; `s3:GetObject` is enough @throws CountersignError `CONFIG_INVALID` */
export function readArtifactsFromBucket(options: BucketInput): ArtifactReader {
  const config = parseAs(BucketConfig, options, 'CONFIG_INVALID', 'artifact bucket');
  return {
    get: async ({ sha256 }) => {
      // What a run refers to comes from outside: a key is made of nothing but a hash.
      if (!Sha256Hex.safeParse(sha256).success)
        throw new CountersignError('ARTIFACT_MISSING', 'The reference holds no sha256.');
      const { status, body } = await patiently(config, artifactUrl(config, sha256), sha256);
      if (status !== 200) throw unreadable(config, sha256, status, bucketCodeIn(new TextDecoder().decode(body)));
      if (createHash('sha256').update(body).digest('hex') === sha256) return body;
      throw new CountersignError(
        'ARTIFACT_CORRUPT',
        `Artifact ${sha256} is not what was stored; restore it from a backup.`,
      );
    },
  };
}

async function patiently(config: BucketConfig, url: string, sha256: string): Promise<Answer> {
  for (let tried = 1; ; tried += 1) {
    const answer = await once(config, url);
    if (tried === MOST_TRIES && answer === undefined)
      throw missing(
        config,
        sha256,
        `the store does not answer within ${config.timeoutSeconds} s, or cannot be reached`,
      );
    if (answer !== undefined && (tried === MOST_TRIES || !isPassing(answer.status))) return answer;
    await wait(WAIT_MS * tried);
  }
}

/** Undefined where there was no answer. */
async function once(
  { region, accessKeyId, secretAccessKey, sessionToken, timeoutSeconds }: BucketConfig,
  url: string,
): Promise<Answer | undefined> {
  const signed = await new AwsV4Signer({
    method: 'GET',
    url,
    headers: { 'x-amz-content-sha256': createHash('sha256').digest('hex') },
    service: 's3',
    region,
    accessKeyId,
    secretAccessKey,
    ...(sessionToken === undefined ? {} : { sessionToken }),
  }).sign();
  try {
    const answer = await fetch(url, {
      headers: Object.fromEntries(signed.headers),
      redirect: 'manual',
      signal: AbortSignal.timeout(timeoutSeconds * 1_000),
    });
    return { status: answer.status, body: new Uint8Array(await answer.arrayBuffer()) };
  } catch {
    return undefined;
  }
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
