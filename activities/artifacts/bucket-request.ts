/**
 * Sends one signed request to a store that speaks S3 (AWS Signature Version 4), and tries again if that may help.
 * Workers pass in their guarded egress; backends that read artifacts pass in their own fetch
 * (`client/artifacts/readers.ts`), and import nothing else of this folder.
 *
 * 1. Tries and the seconds of each are bounded. No redirect is followed, since a signature is for one host.
 * 2. Neither credentials nor the text of an answer leave this module; of a failed answer, its code does.
 * 3. The hash of the sent body is signed: a store keeps the whole of it or refuses it.
 */
import { createHash } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { AwsV4Signer } from 'aws4fetch';
import { defined } from '../../contracts/defined.ts';
import { CountersignError, nodeCodeOf } from '../../contracts/errors.ts';
import type { BucketConfig } from '../../contracts/schemas/stores.ts';
import { isFields } from '../../domain/shapes/inputs.ts';
import { bucketCodeIn, isPassing } from '../../domain/text/object-keys.ts';
import type { Egress } from '../egress/fetch.ts';

interface BucketRequest {
  readonly method: 'GET' | 'PUT';
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  /** Limit of the answer's body; a longer one is not read. */
  readonly maxBytes?: number;
}

export interface BucketAnswer {
  readonly status: number;
  /** Error code of a failure, if the store states one. */
  readonly code: string;
  /** Body of a success; undefined if it is longer than `maxBytes`. */
  readonly body: Uint8Array | undefined;
}

/** The store gave no answer; the message says why, in words that may be shown. */
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
) => Promise<{ readonly status: number; readonly body: AsyncIterable<Uint8Array> | null }>;

export type AskBucket = (request: BucketRequest) => Promise<BucketAnswer>;

const MOST_TRIES = 3;

/** Pause of the first wait; the next is twice as long, and each is shortened at random. */
const DEFAULT_WAIT_MS = 200;

/** Error texts of S3 are below 2 KiB. */
const MOST_ERROR_BYTES = 16_384;

/** @throws CountersignError `EGRESS_FORBIDDEN`, from each request */
export function createBucketRequest(config: BucketConfig, egress: Egress, waitMs = DEFAULT_WAIT_MS): AskBucket {
  // Each request says how much of its answer it reads.
  const maxBytes = Number.MAX_SAFE_INTEGER;
  const { fetch } = egress.outlet({ what: 'artifacts.s3.endpoint', to: [config.endpoint], maxBytes });
  return bucketRequestBy(config, fetch, waitMs);
}

export function bucketRequestBy(config: BucketConfig, fetch: BucketFetch, waitMs = DEFAULT_WAIT_MS): AskBucket {
  return async (request) => {
    for (let tried = 1; ; tried += 1) {
      const isLast = tried === MOST_TRIES;
      try {
        const answer = await once(config, fetch, request);
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
  fetch: BucketFetch,
  { method, url, headers = {}, body, maxBytes = 0 }: BucketRequest,
): Promise<BucketAnswer> {
  const hash = createHash('sha256').update(body ?? '');
  const stated = { ...headers, 'x-amz-content-sha256': hash.digest('hex') };
  const credentials = { service: 's3', region, accessKeyId, secretAccessKey, ...defined({ sessionToken }) };
  const signed = await new AwsV4Signer({ method, url, headers: stated, ...credentials }).sign();
  const signal = AbortSignal.timeout(timeoutSeconds * 1_000);
  try {
    const answer = await fetch(url, {
      method,
      headers: Object.fromEntries(signed.headers),
      signal,
      redirect: 'manual',
      // Sound: bytes are a body; the type objects only that they may be shared memory.
      ...(body === undefined ? {} : { body: body as Uint8Array<ArrayBuffer> }),
    });
    const isTaken = answer.status >= 200 && answer.status < 300;
    const read = await readUpTo(answer.body, isTaken ? maxBytes : MOST_ERROR_BYTES);
    const code = isTaken || read === undefined ? '' : bucketCodeIn(new TextDecoder().decode(read));
    return { status: answer.status, code, body: isTaken ? read : undefined };
  } catch (error) {
    // Egress rules forbid the request; it was not sent.
    if (error instanceof CountersignError) throw error;
    const { cause = error } = isFields(error) ? error : {};
    const reason = signal.aborted
      ? `did not answer within ${timeoutSeconds} s`
      : `could not be reached (${nodeCodeOf(cause) ?? 'error'})`;
    // The cause is left out: it holds the request.
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
