/** The bucket store, and the clients' reader of it, against an S3-compatible server that no one here wrote. */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createBucketStore, setUpBucket } from '../../activities/artifacts/bucket.ts';
import { createBucketRequest } from '../../activities/artifacts/bucket-request.ts';
import { readArtifactsFromBucket } from '../../client/index.ts';
import type { BucketConfig } from '../../contracts/schemas/stores.ts';
import { loopbackEgress } from '../support/egress.ts';
import { type S3Server, SECRET_ACCESS_KEY, startS3Server } from '../support/servers/s3-server.ts';
import { artifactSuite, keptArtifactSuite } from './artifacts.suite.ts';

let server: S3Server;
beforeAll(async () => void (server = await startS3Server()));
afterAll(async () => await server.close());

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);
const keyOf = (sha256: string): string => `${sha256.slice(0, 2)}/${sha256.slice(2, 4)}/${sha256}`;
const askOf = (config: BucketConfig) => createBucketRequest(config, loopbackEgress(), 1);
/** Whose tries follow each other at once. */
const storeOf = (config: BucketConfig) => createBucketStore(config, createBucketRequest(config, loopbackEgress(), 1));

artifactSuite({ name: 'in a bucket', create: async () => storeOf(await server.bucket()) });
artifactSuite({
  name: 'in a folder of a bucket',
  create: async () => storeOf(await server.bucket({ prefix: 'a/b.c' })),
});
keptArtifactSuite('in a bucket', async () => {
  const config = await server.bucket();
  return {
    store: storeOf(config),
    another: () => storeOf(config),
    overwrite: async (sha256, bytes) => {
      const answer = await server.ask('PUT', `/${config.bucket}/${keyOf(sha256)}`, new TextDecoder().decode(bytes));
      expect(answer.status).toBe(200);
    },
    takeAway: server.kill,
    bringBack: server.start,
  };
});

describe('the bucket store', () => {
  test('an object stands where the directory store would have its file, with its type and its checksum', async () => {
    const config = await server.bucket({ prefix: 'countersign' });
    const { sha256 } = await storeOf(config).put(bytesOf('kept'), 'image/png');
    const path = `countersign/${keyOf(sha256)}`;
    expect(await readFile(join(server.root, config.bucket, path), 'utf8')).toBe('kept');
    const head = await server.ask('HEAD', `/${config.bucket}/${path}`, undefined, { 'x-amz-checksum-mode': 'ENABLED' });
    expect(Object.fromEntries(head.headers)).toMatchObject({
      'content-type': 'image/png',
      'content-length': '4',
      'x-amz-checksum-sha256': Buffer.from(sha256, 'hex').toString('base64'),
    });
  });

  test('what a server calls its content becomes no header', async () => {
    const config = await server.bucket();
    const { sha256 } = await storeOf(config).put(bytesOf('odd'), 'text/html\r\nx-amz-acl: public-read');
    const head = await server.ask('HEAD', `/${config.bucket}/${keyOf(sha256)}`);
    expect(head.headers.get('content-type')).toBe('application/octet-stream');
  });

  test('content that was changed there is mended by the next put', async () => {
    const config = await server.bucket();
    const ref = await storeOf(config).put(bytesOf('whole'), 'text/plain');
    await server.ask('PUT', `/${config.bucket}/${keyOf(ref.sha256)}`, 'other');
    await storeOf(config).put(bytesOf('whole'), 'text/plain');
    expect(await storeOf(config).get(ref)).toEqual(bytesOf('whole'));
  });

  test('a body that was changed on its way is refused by the store, and nothing is kept', async () => {
    const config = await server.bucket();
    const sha256 = createHash('sha256').update('what was meant').digest('hex');
    const answer = await server.ask('PUT', `/${config.bucket}/${keyOf(sha256)}`, 'what arrived', {
      'x-amz-content-sha256': sha256,
    });
    expect(answer.status).toBe(400);
    await expect(storeOf(config).get({ sha256, bytes: 12, contentType: '' })).rejects.toMatchObject({
      code: 'ARTIFACT_MISSING',
    });
  });

  test('a bucket that is taken away makes what may pass, named by its field', async () => {
    const config = await server.bucket({ bucket: 'never-made' });
    const store = storeOf(config);
    for (const refused of [() => store.put(bytesOf('x'), 'text/plain'), () => store.get(NOT_THERE)])
      await expect(refused()).rejects.toMatchObject({
        code: 'ARTIFACT_MISSING',
        facts: { path: 'artifacts.s3.bucket' },
        traits: expect.objectContaining({ retryable: true }),
      });
  });
});

const WRITTEN = { endpoint: 'https://s3.example.com', bucket: 'a', accessKeyId: 'id', secretAccessKey: 'secret' };
const NOT_THERE = { sha256: 'a'.repeat(64), bytes: 1, contentType: '' };

const WRONG: readonly [string, Partial<BucketConfig>, string, string][] = [
  ['a bucket that is not there', { bucket: 'never-made' }, 'SETUP_INCOMPLETE', 'artifacts.s3.bucket'],
  ['an access key that is not known', { accessKeyId: 'nobody' }, 'CONFIG_INVALID', 'artifacts.s3.accessKeyId'],
  ['a wrong secret', { secretAccessKey: 'canary-wrong-secret' }, 'CONFIG_INVALID', 'artifacts.s3.secretAccessKey'],
  ['another region', { region: 'mars-north-1' }, 'CONFIG_INVALID', 'artifacts.s3.region'],
  ['an address where nobody listens', { endpoint: 'http://127.0.0.1:1' }, 'SETUP_INCOMPLETE', 'artifacts.s3.endpoint'],
];

describe('the start of a worker with a bucket', () => {
  test('marks it, also where another worker did so before', async () => {
    const config = await server.bucket({ prefix: 'p' });
    await setUpBucket(config, askOf(config));
    await setUpBucket(config, askOf(config));
    expect(await readFile(join(server.root, config.bucket, 'p', '.countersign-store'), 'utf8')).toContain(
      'artifact store',
    );
  });

  test.each(WRONG)('with %s says which field is wrong, and no secret (INV-S1)', async (_, changes, code, path) => {
    const config = await server.bucket(changes);
    const failure: unknown = await setUpBucket(config, askOf(config)).catch((error: unknown) => error);
    expect(failure).toMatchObject({ code, facts: { path }, message: expect.stringContaining(path) });
    for (const secret of [SECRET_ACCESS_KEY, 'canary-wrong-secret'])
      expect(`${String(failure)} ${JSON.stringify(failure)} ${String((failure as Error).stack)}`).not.toContain(secret);
  });
});

describe('a client that reads the bucket', () => {
  test('reads what workers put, by its hash alone', async () => {
    const config = await server.bucket({ prefix: 'p' });
    const ref = await storeOf(config).put(bytesOf('a segment'), 'text/plain');
    const { timeoutSeconds: _, ...options } = config;
    const read = await readArtifactsFromBucket(options).get({ ...ref, bytes: 0 });
    expect(Buffer.from(read).toString()).toBe('a segment');
  });

  test('finds out what was changed', async () => {
    const config = await server.bucket();
    const ref = await storeOf(config).put(bytesOf('a segment'), 'text/plain');
    await server.ask('PUT', `/${config.bucket}/${keyOf(ref.sha256)}`, 'another');
    await expect(readArtifactsFromBucket(config).get(ref)).rejects.toMatchObject({ code: 'ARTIFACT_CORRUPT' });
  });

  test.each([
    ...WRONG.map(([what, changes, , path]): [string, Partial<BucketConfig>, string] => [
      what,
      changes,
      path === 'artifacts.s3.endpoint' ? 'could not be reached' : path,
    ]),
    ['nothing under that hash', {}, 'is not there'] as [string, Partial<BucketConfig>, string],
  ])('with %s is told so, and no secret (INV-S1)', async (_, changes, said) => {
    const config = await server.bucket(changes);
    const failure: unknown = await readArtifactsFromBucket(config)
      .get(NOT_THERE)
      .catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: 'ARTIFACT_MISSING', message: expect.stringContaining(said) });
    expect(String(failure)).not.toContain('canary');
  });

  test('takes no path for a hash', async () => {
    const config = await server.bucket();
    await expect(
      readArtifactsFromBucket(config).get({ sha256: '../../secret', bytes: 1, contentType: '' }),
    ).rejects.toMatchObject({ code: 'ARTIFACT_MISSING' });
  });

  test('is refused where its options are wrong, with the field', () => {
    expect(() => readArtifactsFromBucket({ ...WRITTEN, bucket: '..' })).toThrow(
      expect.objectContaining({ code: 'CONFIG_INVALID' }),
    );
  });
});
