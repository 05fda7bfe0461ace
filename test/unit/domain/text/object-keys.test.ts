/** Keys in a bucket, and what an answer of it means. */
import { expect, test } from '@jest/globals';
import {
  artifactUrl,
  bucketCodeIn,
  bucketTrouble,
  isAbsent,
  isPassing,
  markerUrl,
} from '../../../../domain/text/object-keys.ts';

const SHA = `abcd${'0'.repeat(60)}`;
const PLACE = { endpoint: 'https://s3.example.com', bucket: 'artifacts' };

test('an artifact stands under its hash, as in a directory', () => {
  expect(artifactUrl(PLACE, SHA)).toBe(`https://s3.example.com/artifacts/ab/cd/${SHA}`);
  expect(artifactUrl({ ...PLACE, endpoint: 'https://s3.example.com//', prefix: 'a/b' }, SHA)).toBe(
    `https://s3.example.com/artifacts/a/b/ab/cd/${SHA}`,
  );
  expect(markerUrl({ ...PLACE, prefix: 'a' })).toBe('https://s3.example.com/artifacts/a/.countersign-store');
});

test('of an answer the code is read, and nothing that is no code', () => {
  expect(bucketCodeIn('<?xml version="1.0"?><Error><Code>NoSuchKey</Code><Key>k</Key></Error>')).toBe('NoSuchKey');
  expect(bucketCodeIn('<Code>two words</Code>')).toBe('');
  expect(bucketCodeIn(`<Code>${'x'.repeat(65)}</Code>`)).toBe('');
});

test.each([
  ['NoSuchBucket', 404, 'bucket'],
  ['InvalidAccessKeyId', 403, 'accessKeyId'],
  ['XAdminUserNotFound', 404, 'accessKeyId'],
  ['SignatureDoesNotMatch', 403, 'secretAccessKey'],
  ['ExpiredToken', 400, 'sessionToken'],
  ['AuthorizationHeaderMalformed', 400, 'region'],
  ['PermanentRedirect', 301, 'region'],
  ['AccessDenied', 403, 'accessKeyId'],
  ['', 307, 'endpoint'],
])('%s (%i) is about artifacts.s3.%s', (code, status, field) => {
  expect(bucketTrouble(status, code)).toMatchObject({ field });
});

test('what is no fault of the configuration names no field', () => {
  expect(bucketTrouble(500, 'InternalError')).toEqual({ reason: 'answered 500 (InternalError)' });
  expect(bucketTrouble(418, '')).toEqual({ reason: 'answered 418' });
  expect(bucketTrouble(403, 'RequestTimeTooSkewed')).toEqual({ reason: expect.stringContaining('clock') });
  // A code is a server's word: it is no key of ours.
  expect(bucketTrouble(400, 'constructor')).toEqual({ reason: 'answered 400 (constructor)' });
});

test('an object is not there where the store says so of the object', () => {
  expect([isAbsent(404, 'NoSuchKey'), isAbsent(404, '')]).toEqual([true, true]);
  expect([isAbsent(404, 'NoSuchBucket'), isAbsent(403, 'NoSuchKey')]).toEqual([false, false]);
});

test('what may pass is tried again, what is not known is not', () => {
  expect([408, 429, 500, 502, 503, 504].map(isPassing)).toEqual([true, true, true, true, true, true]);
  expect([200, 301, 400, 403, 404, 409, 412, 501].map(isPassing)).toEqual(Array.from({ length: 8 }, () => false));
});
