/**
 * An artifact's place in a bucket, and the meaning of an S3 store's answer, for workers and clients alike.
 *
 * 1. A key consists of the prefix and a hash, and of nothing that came from outside.
 * 2. Only the status and the error code of an answer are shown: its text echoes what was signed, and names keys.
 */
import { own } from '../../contracts/defined.ts';
import type { BucketConfig } from '../../contracts/schemas/stores.ts';

export type BucketPlace = Pick<BucketConfig, 'endpoint' | 'bucket' | 'prefix'>;

/** Object that a worker writes at its start, so that a read-only bucket is found before a run needs it. */
export const BUCKET_MARKER = '.countersign-store';

/** In the layout of the directory store: one is a copy of the other. @param sha256 64 hexadecimal digits */
export function artifactUrl(place: BucketPlace, sha256: string): string {
  return urlOf(place, `${sha256.slice(0, 2)}/${sha256.slice(2, 4)}/${sha256}`);
}

export function markerUrl(place: BucketPlace): string {
  return urlOf(place, BUCKET_MARKER);
}

function urlOf({ endpoint, bucket, prefix }: BucketPlace, name: string): string {
  return [endpoint.replace(/\/+$/, ''), bucket, ...(prefix === undefined ? [] : [prefix]), name].join('/');
}

/** Returns `<Code>` of an answer's body (S3 API, "Error responses"), or an empty text. */
export function bucketCodeIn(body: string): string {
  return /<Code>([A-Za-z0-9.]{1,64})<\/Code>/.exec(body)?.[1] ?? '';
}

export interface BucketTrouble {
  /** The field of the configuration that is probably wrong; absent if the store is at fault. */
  readonly field?: keyof BucketConfig;
  readonly reason: string;
}

const FIELDS: Readonly<Record<string, { readonly field: keyof BucketConfig; readonly reason: string }>> = {
  NoSuchBucket: { field: 'bucket', reason: 'names a bucket that is not there' },
  InvalidBucketName: { field: 'bucket', reason: 'is no name of a bucket there' },
  InvalidAccessKeyId: { field: 'accessKeyId', reason: 'is not known there' },
  // The Versity S3 Gateway's code for the same, with 404.
  XAdminUserNotFound: { field: 'accessKeyId', reason: 'is not known there' },
  SignatureDoesNotMatch: { field: 'secretAccessKey', reason: 'does not belong to the access key' },
  InvalidToken: { field: 'sessionToken', reason: 'is not valid' },
  ExpiredToken: { field: 'sessionToken', reason: 'has expired' },
  AuthorizationHeaderMalformed: { field: 'region', reason: 'is not the region of the bucket' },
  PermanentRedirect: { field: 'region', reason: 'is not the region of the bucket, or the endpoint is another one' },
  AccessDenied: {
    field: 'accessKeyId',
    reason: 'may not do this; it needs s3:GetObject and s3:PutObject on the bucket',
  },
};

export function bucketTrouble(status: number, code: string): BucketTrouble {
  const known = own(FIELDS, code);
  if (known !== undefined) return known;
  if (code === 'RequestTimeTooSkewed')
    return { reason: 'says that the clock of this machine is wrong by more than it allows' };
  if (status >= 300 && status < 400) return { field: 'endpoint', reason: 'sends elsewhere, which is not followed' };
  return { reason: code === '' ? `answered ${status}` : `answered ${status} (${code})` };
}

/** True if only the object is missing. A gateway may say 404 of other things too. */
export function isAbsent(status: number, code: string): boolean {
  return status === 404 && (code === 'NoSuchKey' || code === '');
}

/** True if the same request may succeed a moment later. */
export function isPassing(status: number): boolean {
  return status === 408 || status === 429 || (status >= 500 && status !== 501);
}
