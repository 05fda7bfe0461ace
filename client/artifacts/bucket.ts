/**
 * Reads the artifact bucket of the workers (`activities/artifacts/bucket.ts`).
 *
 * 1. Bounded: three tries, each of `timeoutSeconds`; no redirect is followed, since a signature is for one host.
 * 2. Over TLS, save to this machine; of an answer no more is read than the artifact has bytes.
 * 3. What is read is hashed, as in `directory.ts`. No error quotes credentials or an answer's text.
 */
import { createHash } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { AwsV4Signer } from 'aws4fetch';
import { fetch, type Response } from 'undici';
import { CountersignError } from '../../contracts/errors.ts';
import { Sha256Hex } from '../../contracts/schemas/json.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { BucketConfig, type BucketInput } from '../../contracts/schemas/stores.ts';
import { artifactUrl, bucketCodeIn, bucketTrouble, isAbsent, isPassing } from '../../domain/text/object-keys.ts';
import { isSecurelyReached } from '../../domain/text/urls.ts';
import type { ArtifactReader } from '../ledger/ledger.ts';

const MOST_TRIES = 3;
const WAIT_MS = 200;
/** Of an artifact of which only the hash is known: the segment that a run named last. */
const MOST_BYTES = 64 * 1_024 * 1_024;
/** Of an answer that is not the artifact: its code stands at the beginning. */
const ERROR_BYTES = 65_536;

interface Answer {
  readonly status: number;
  readonly body: Uint8Array;
}

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
  return {
    get: async ({ sha256, bytes }) => {
      // What a run refers to comes from outside: a key is made of nothing but a hash.
      if (!Sha256Hex.safeParse(sha256).success)
        throw new CountersignError('ARTIFACT_MISSING', 'The reference holds no sha256.');
      const { status, body } = await patiently(config, { url: artifactUrl(config, sha256), sha256, bytes });
      if (status !== 200) throw unreadable(config, sha256, status, bucketCodeIn(new TextDecoder().decode(body)));
      if (createHash('sha256').update(body).digest('hex') === sha256) return body;
      throw new CountersignError(
        'ARTIFACT_CORRUPT',
        `Artifact ${sha256} is not what was stored; restore it from a backup.`,
      );
    },
  };
}

interface Wanted {
  readonly url: string;
  readonly sha256: string;
  /** 0 where nobody knows. */
  readonly bytes: number;
}

async function patiently(config: BucketConfig, { url, sha256, bytes }: Wanted): Promise<Answer> {
  for (let tried = 1; ; tried += 1) {
    const answer = await once(config, url, bytes === 0 ? MOST_BYTES : bytes);
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

/** Undefined where there was no answer. @param most bytes that the artifact may have */
async function once(
  { region, accessKeyId, secretAccessKey, sessionToken, timeoutSeconds }: BucketConfig,
  url: string,
  most: number,
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
    return { status: answer.status, body: await beginningOf(answer, answer.status === 200 ? most : ERROR_BYTES) };
  } catch {
    return undefined;
  }
}

/** One byte more than there may be tells that it is another thing; the rest is not read. */
async function beginningOf({ body }: Response, most: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  // Sound: what a body of undici holds is bytes.
  for await (const chunk of (body ?? []) as AsyncIterable<Uint8Array>) {
    chunks.push(chunk);
    length += chunk.byteLength;
    if (length > most) break;
  }
  return Buffer.concat(chunks).subarray(0, most + 1);
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
