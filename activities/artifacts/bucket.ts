/**
 * An `ArtifactStore` in a bucket of an S3-compatible store, one object per content: `<prefix>/ab/cd/<sha256>`.
 *
 * Owns layout, when an object is written again, and what an answer means. Does not own requests (`bucket.ts`), nor when
 * an object may go: that is the bucket's lifecycle rule (docs/operations/artifacts.md).
 *
 * 1. Writers of the same content do not disturb each other: whoever comes second finds it there, or writes the same.
 * 2. An object that was put again is as good as new: a day after it was written it is written anew, so that a rule which deletes
 *    by age counts from the last put. So is one that does not hold what it should.
 * 3. What is read is hashed, so a changed or shortened object is found out, never returned.
 */
import { createHash } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { AwsV4Signer } from 'aws4fetch';
import { CountersignError } from '../../contracts/errors.ts';
import { nodeCodeOf } from '../../contracts/node-code.ts';
import { Sha256Hex } from '../../contracts/schemas/json.ts';
import type { BucketConfig } from '../../contracts/schemas/stores.ts';
import {
  artifactUrl,
  bucketCodeIn,
  bucketTrouble,
  isAbsent,
  isPassing,
  markerUrl,
} from '../../domain/text/object-keys.ts';
import type { Egress } from '../egress/fetch.ts';
import { egressRefusalIn } from '../egress/guard.ts';
import type { ArtifactStore } from './port.ts';

const RENEWED_AFTER_MS = 86_400_000;
/** What a server calls its content may be anything; a header may not (RFC 9110 §8.3.1). */
const MEDIA_TYPE = /^[\w!#$&^.+-]{1,127}\/[\w!#$&^.+-]{1,127}$/;
const IF_ABSENT = { 'if-none-match': '*' };

export function createBucketStore(config: BucketConfig, ask: AskBucket): ArtifactStore {
  return {
    async put(bytes, contentType) {
      // A copy: the caller may go on using its buffer, and a request that is tried again sends it again.
      const body = Uint8Array.from(bytes);
      const digest = createHash('sha256').update(body).digest();
      const sha256 = digest.toString('hex');
      const url = artifactUrl(config, sha256);
      const checksum = digest.toString('base64');
      const headers = {
        'content-type': MEDIA_TYPE.test(contentType) ? contentType : 'application/octet-stream',
        'x-amz-checksum-sha256': checksum,
      };
      const first = await answerTo(ask({ method: 'PUT', url, body, headers: { ...headers, ...IF_ABSENT } }), config);
      const isKept =
        isGood(first) || (first.status === 412 && (await isWhole(ask, config, url, body.length, checksum)));
      if (!isKept) {
        // 409: two at once; 412: there, and not as it should be; 501: the store knows no conditions.
        const again = [409, 412, 501].includes(first.status)
          ? await answerTo(ask({ method: 'PUT', url, body, headers }), config)
          : first;
        if (!isGood(again)) throw away(config, troubleIn(again));
      }
      return { sha256, bytes: body.length, contentType };
    },

    async get(ref) {
      // A reference may come from outside: a key is made of nothing but a hash.
      if (!Sha256Hex.safeParse(ref.sha256).success)
        throw new CountersignError('ARTIFACT_MISSING', 'The reference holds no sha256.');
      const url = artifactUrl(config, ref.sha256);
      const answer = await answerTo(ask({ method: 'GET', url, maxBytes: ref.bytes }), config);
      if (isAbsent(answer.status, answer.code))
        throw new CountersignError('ARTIFACT_MISSING', `Artifact ${ref.sha256} is not in ${placeOf(config)}.`);
      if (!isGood(answer)) throw away(config, troubleIn(answer));
      const { body } = answer;
      if (body?.length === ref.bytes && createHash('sha256').update(body).digest('hex') === ref.sha256) return body;
      throw new CountersignError(
        'ARTIFACT_CORRUPT',
        `Artifact ${ref.sha256} is not what was stored; restore it from a backup.`,
      );
    },
  };
}

/**
 * For the start of a worker: writes what marks the store, and so tries address, bucket, credentials and right at once.
 *
 * @throws CountersignError `CONFIG_INVALID` naming the field, `SETUP_INCOMPLETE` where the store is not there, `EGRESS_FORBIDDEN`
 */
export async function setUpBucket(config: BucketConfig, ask: AskBucket): Promise<void> {
  const body = new TextEncoder().encode('Countersign keeps its artifact store here.\n');
  const url = markerUrl(config);
  const headers = { 'content-type': 'text/plain' };
  let trouble: ReturnType<typeof bucketTrouble>;
  try {
    const first = await ask({ method: 'PUT', url, body, headers: { ...headers, ...IF_ABSENT } });
    if (isGood(first) || first.status === 412) return;
    const again = [409, 501].includes(first.status) ? await ask({ method: 'PUT', url, body, headers }) : first;
    if (isGood(again)) return;
    trouble = troubleIn(again);
  } catch (error) {
    if (!(error instanceof BucketSilent)) throw error;
    trouble = { reason: error.message };
  }
  const { field, reason } = trouble;
  if (field !== undefined && field !== 'bucket') {
    const path = `artifacts.s3.${field}`;
    throw new CountersignError('CONFIG_INVALID', `${path} ${reason} (${placeOf(config)}). Correct it and try again.`, {
      path,
    });
  }
  const path = `artifacts.s3.${field ?? 'endpoint'}`;
  throw new CountersignError(
    'SETUP_INCOMPLETE',
    `The artifact store is not set up: ${path} ${reason} (${placeOf(config)}). Make the bucket, or correct the field, and start again.`,
    { path },
  );
}

/** There already: is it as long as it should be, of these bytes by the store's own word, and not old? */
async function isWhole(
  ask: AskBucket,
  config: BucketConfig,
  url: string,
  length: number,
  checksum: string,
): Promise<boolean> {
  const { status, headers } = await answerTo(
    ask({ method: 'HEAD', url, headers: { 'x-amz-checksum-mode': 'ENABLED' } }),
    config,
  );
  const writtenAt = Date.parse(headers.get('last-modified') ?? '');
  return (
    status === 200 &&
    headers.get('content-length') === String(length) &&
    headers.get('x-amz-checksum-sha256') === checksum &&
    Date.now() - writtenAt < RENEWED_AFTER_MS
  );
}

async function answerTo(asked: Promise<BucketAnswer>, config: BucketConfig): Promise<BucketAnswer> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof BucketSilent) throw away(config, { reason: error.message });
    // Final where a call is refused; here it would end runs for an answer of DNS that may be another one in a minute (INV-D3).
    const forbidden = egressRefusalIn(error)?.facts['reason'];
    if (forbidden === undefined) throw error;
    throw away(config, {
      field: 'endpoint',
      reason: `was not contacted (EGRESS_FORBIDDEN): its host ${String(forbidden)}`,
    });
  }
}

function isGood({ status }: BucketAnswer): boolean {
  return status >= 200 && status < 300;
}

function troubleIn({ status, code }: BucketAnswer): ReturnType<typeof bucketTrouble> {
  return bucketTrouble(status, code);
}

/** Whatever it is, it may pass, or be mended while runs wait: the same code as of a directory whose volume is away. */
function away(config: BucketConfig, { field, reason }: ReturnType<typeof bucketTrouble>): CountersignError {
  const path = field === undefined ? {} : { path: `artifacts.s3.${field}` };
  const subject = path.path ?? 'it';
  return new CountersignError(
    'ARTIFACT_MISSING',
    `The artifact store ${placeOf(config)} cannot be used: ${subject} ${reason}. It is tried again.`,
    path,
  );
}

function placeOf({ endpoint, bucket }: BucketConfig): string {
  return `${endpoint.replace(/\/+$/, '')}/${bucket}`;
}

// One signed request to a store that speaks S3 (AWS Signature Version 4), tried again where that may help.
//
// Workers give it their guarded way out, backends that read artifacts their own (`client/artifacts/bucket.ts`): nothing else of this
// folder is imported there.
//
// 1. Bounded: so many tries of so many seconds, and no redirect is followed, since a signature is for one host.
// 2. Neither credentials nor the text of an answer leave this module; of a failed answer, its code does.
// 3. The hash of what is sent is signed: a store keeps the whole of it or refuses it.

export interface BucketRequest {
  readonly method: 'GET' | 'HEAD' | 'PUT';
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  /** Of a body that is asked for; a longer one is not read. */
  readonly maxBytes?: number;
}

interface BucketAnswer {
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  /** Of a failure, where the store says one. */
  readonly code: string;
  /** Of a success; undefined where it is longer than was asked for. */
  readonly body: Uint8Array | undefined;
}

/** No answer at all; the message says why, in words that may be shown. */
export class BucketSilent extends Error {
  override readonly name = 'BucketSilent';
}

/** A fetch that follows no redirect. */
export type BucketFetch = (
  url: string,
  init: {
    readonly method: string;
    readonly headers: Record<string, string>;
    readonly signal: AbortSignal;
    readonly redirect: 'manual';
    readonly body?: Uint8Array<ArrayBuffer>;
  },
) => Promise<Pick<BucketAnswer, 'status' | 'headers'> & { readonly body: AsyncIterable<Uint8Array> | null }>;

type AskBucket = (request: BucketRequest) => Promise<BucketAnswer>;

const MOST_TRIES = 3;
/** Of the first wait; the next is twice as long, and each is shortened by chance, so that workers do not come back as one. */
const DEFAULT_WAIT_MS = 200;
/** Error texts of S3 are below 2 KiB. */
const MOST_ERROR_BYTES = 16_384;

/** @throws CountersignError `EGRESS_FORBIDDEN`, from each request */
export function createBucketRequest(config: BucketConfig, egress: Egress, waitMs = DEFAULT_WAIT_MS): AskBucket {
  // Each request says how much of its answer it reads.
  const { fetch } = egress.outlet({
    what: 'artifacts.s3.endpoint',
    to: [config.endpoint],
    maxBytes: Number.MAX_SAFE_INTEGER,
  });
  return bucketRequestBy(config, fetch, waitMs);
}

/** @throws what `fetch` throws with a code of ours, from each request */
export function bucketRequestBy(config: BucketConfig, fetch: BucketFetch, waitMs = DEFAULT_WAIT_MS): AskBucket {
  // Keys derived from the secret, one a day.
  const cache = new Map<string, ArrayBuffer>();
  return async (request) => {
    for (let tried = 1; ; tried += 1) {
      const isLast = tried === MOST_TRIES;
      try {
        const answer = await once(config, cache, fetch, request);
        if (isLast || !isPassing(answer.status)) return answer;
      } catch (error) {
        if (isLast || !(error instanceof BucketSilent)) throw error;
      }
      await wait(waitMs * 2 ** (tried - 1) * (0.5 + Math.random() / 2));
    }
  };
}

async function once(
  { region, accessKeyId, secretAccessKey, sessionToken, timeoutSeconds }: BucketConfig,
  cache: Map<string, ArrayBuffer>,
  fetch: BucketFetch,
  { method, url, headers = {}, body, maxBytes = 0 }: BucketRequest,
): Promise<BucketAnswer> {
  const signed = await new AwsV4Signer({
    method,
    url,
    headers: {
      ...headers,
      'x-amz-content-sha256': createHash('sha256')
        .update(body ?? '')
        .digest('hex'),
    },
    service: 's3',
    region,
    accessKeyId,
    secretAccessKey,
    cache,
    ...(sessionToken === undefined ? {} : { sessionToken }),
  }).sign();
  const signal = AbortSignal.timeout(timeoutSeconds * 1_000);
  try {
    const answer = await fetch(url, {
      method,
      headers: Object.fromEntries(signed.headers),
      signal,
      redirect: 'manual',
      // Sound: bytes are a body; that they may be shared memory is all that the type objects to.
      ...(body === undefined ? {} : { body: body as Uint8Array<ArrayBuffer> }),
    });
    const isGood = answer.status >= 200 && answer.status < 300;
    const read = await readUpTo(answer.body, isGood ? maxBytes : MOST_ERROR_BYTES);
    const code = isGood || read === undefined ? '' : bucketCodeIn(new TextDecoder().decode(read));
    return { status: answer.status, headers: answer.headers, code, body: isGood ? read : undefined };
  } catch (error) {
    // It was not sent: egress forbids it.
    if (error instanceof CountersignError) throw error;
    const reason = signal.aborted
      ? `did not answer within ${timeoutSeconds} s`
      : `could not be reached (${nodeCodeOf(causeOf(error)) ?? 'error'})`;
    // Without the cause: it holds the request.
    throw new BucketSilent(reason);
  }
}

async function readUpTo(body: AsyncIterable<Uint8Array> | null, maxBytes: number): Promise<Uint8Array | undefined> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  // Leaving the loop closes the connection.
  for await (const chunk of body ?? []) {
    length += chunk.length;
    if (length > maxBytes) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** The fault of the network, where fetch has wrapped it. */
function causeOf(error: unknown): unknown {
  return typeof error === 'object' && error !== null && 'cause' in error ? error.cause : error;
}
