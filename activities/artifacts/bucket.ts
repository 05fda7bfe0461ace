/**
 * This `ArtifactStore` keeps one object per content in a bucket of an S3-compatible store: `<prefix>/ab/cd/<sha256>`.
 * When an object may go is the bucket's lifecycle rule (docs/operations/artifacts.md).
 *
 * 1. A put always writes. Writers of the same content write the same; a rule which deletes by age counts from the last
 *    put; an object with wrong content is mended.
 * 2. Bytes are hashed when they are read, so a changed or shortened object is detected, never returned.
 */
import { CountersignError } from '../../contracts/errors.ts';
import type { BucketConfig } from '../../contracts/schemas/stores.ts';
import { artifactUrl, bucketTrouble, isAbsent, markerUrl } from '../../domain/text/object-keys.ts';
import { egressRefusalIn } from '../egress/fetch.ts';
import { type ArtifactStore, assertHash, corrupt, sha256Of } from './port.ts';
import { type AskBucket, type BucketAnswer, BucketSilent } from './bucket-request.ts';

/** A server may call its content anything; a header may not (RFC 9110 §8.3.1). */
const MEDIA_TYPE = /^[\w!#$&^.+-]{1,127}\/[\w!#$&^.+-]{1,127}$/;

export function createBucketStore(config: BucketConfig, ask: AskBucket): ArtifactStore {
  return {
    async put(bytes, contentType) {
      // The bytes are copied: the caller may go on using its buffer, and a retry sends them again.
      const body = Uint8Array.from(bytes);
      const sha256 = sha256Of(body);
      const url = artifactUrl(config, sha256);
      const headers = {
        'content-type': MEDIA_TYPE.test(contentType) ? contentType : 'application/octet-stream',
        'x-amz-checksum-sha256': Buffer.from(sha256, 'hex').toString('base64'),
      };
      const answer = await answerTo(ask({ method: 'PUT', url, body, headers }), config);
      if (!isGood(answer)) throw away(config, bucketTrouble(answer.status, answer.code));
      return { sha256, bytes: body.length, contentType };
    },

    async get(ref) {
      assertHash(ref);
      const url = artifactUrl(config, ref.sha256);
      const answer = await answerTo(ask({ method: 'GET', url, maxBytes: ref.bytes }), config);
      if (isAbsent(answer.status, answer.code))
        throw new CountersignError('ARTIFACT_MISSING', `Artifact ${ref.sha256} is not in ${placeOf(config)}.`);
      if (!isGood(answer)) throw away(config, bucketTrouble(answer.status, answer.code));
      const { body } = answer;
      if (body?.length === ref.bytes && sha256Of(body) === ref.sha256) return body;
      throw corrupt(ref.sha256);
    },
  };
}

/**
 * Writes the store's marker at the start of a worker, and so tests address, bucket, credentials and permission at once.
 *
 * @throws CountersignError `CONFIG_INVALID` naming the field, `SETUP_INCOMPLETE` if the store is not there,
 * `EGRESS_FORBIDDEN`
 */
export async function setUpBucket(config: BucketConfig, ask: AskBucket): Promise<void> {
  const body = new TextEncoder().encode('Countersign keeps its artifact store here.\n');
  const headers = { 'content-type': 'text/plain' };
  let trouble: ReturnType<typeof bucketTrouble>;
  try {
    const answer = await ask({ method: 'PUT', url: markerUrl(config), body, headers });
    if (isGood(answer)) return;
    trouble = bucketTrouble(answer.status, answer.code);
  } catch (error) {
    if (!(error instanceof BucketSilent)) throw error;
    trouble = { reason: error.message };
  }
  const { field, reason } = trouble;
  const path = `artifacts.s3.${field ?? 'endpoint'}`;
  const fault = `${path} ${reason} (${placeOf(config)})`;
  if (field !== undefined && field !== 'bucket')
    throw new CountersignError('CONFIG_INVALID', `${fault}. Correct it and try again.`, { path });
  const message = `The artifact store is not set up: ${fault}. Make the bucket, or correct the field, and start again.`;
  throw new CountersignError('SETUP_INCOMPLETE', message, { path });
}

async function answerTo(asked: Promise<BucketAnswer>, config: BucketConfig): Promise<BucketAnswer> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof BucketSilent) throw away(config, { reason: error.message });
    // An egress refusal is final for a call. Here it would end runs for one answer of DNS (INV-D3).
    const forbidden = egressRefusalIn(error)?.facts['reason'];
    if (forbidden === undefined) throw error;
    const reason = `was not contacted (EGRESS_FORBIDDEN): its host ${String(forbidden)}`;
    throw away(config, { field: 'endpoint', reason });
  }
}

function isGood({ status }: BucketAnswer): boolean {
  return status >= 200 && status < 300;
}

/** It may pass or be mended while runs wait. */
function away(config: BucketConfig, { field, reason }: ReturnType<typeof bucketTrouble>): CountersignError {
  const path = field === undefined ? {} : { path: `artifacts.s3.${field}` };
  const subject = path.path ?? 'it';
  const message = `The artifact store ${placeOf(config)} cannot be used: ${subject} ${reason}. Once it can be, a run that waits goes on.`;
  return new CountersignError('ARTIFACT_MISSING', message, path);
}

function placeOf({ endpoint, bucket }: BucketConfig): string {
  return `${endpoint.replace(/\/+$/, '')}/${bucket}`;
}
