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
import { CountersignError } from '../../contracts/errors.ts';
import { Sha256Hex } from '../../contracts/schemas/json.ts';
import type { BucketConfig } from '../../contracts/schemas/stores.ts';
import { artifactUrl, bucketTrouble, isAbsent, markerUrl } from '../../domain/text/object-keys.ts';
import { egressRefusalIn } from '../egress/guard.ts';
import type { ArtifactStore } from './port.ts';
import { type AskBucket, type BucketAnswer, BucketSilent } from './bucket-request.ts';

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
