/**
 * One signed request to a store that speaks S3 (AWS Signature Version 4), tried again where that may help.
 *
 * Workers give it their guarded way out, backends that read artifacts their own (`client/artifact-bucket.ts`): nothing else of this
 * folder is imported there.
 *
 * 1. Bounded: so many tries of so many seconds, and no redirect is followed, since a signature is for one host.
 * 2. Neither credentials nor the text of an answer leave this module; of a failed answer, its code does.
 * 3. The hash of what is sent is signed: a store keeps the whole of it or refuses it.
 */
import { createHash } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { AwsV4Signer } from 'aws4fetch';
import type { BucketConfig } from '../../contracts/schemas/artifact-store.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { nodeCodeOf } from '../../contracts/node-code.ts';
import { bucketCodeIn, isPassing } from '../../domain/bucket.ts';
import type { Egress } from '../egress/fetch.ts';

export interface BucketRequest {
  readonly method: 'GET' | 'HEAD' | 'PUT';
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  /** Of a body that is asked for; a longer one is not read. */
  readonly maxBytes?: number;
}

export interface BucketAnswer {
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

export type AskBucket = (request: BucketRequest) => Promise<BucketAnswer>;

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
