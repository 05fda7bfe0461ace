/** The bucket store where a store answers as real ones do on a bad day, or as those that know less of S3. */
import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { afterEach, expect, test } from '@jest/globals';
import { createBucketStore, setUpBucket } from '../../../../activities/artifacts/bucket.ts';
import { createBucketRequest } from '../../../../activities/artifacts/bucket-request.ts';
import { readArtifactsFromBucket } from '../../../../client/index.ts';
import type { BucketConfig } from '../../../../contracts/schemas/stores.ts';
import { loopbackEgress } from '../../../support/egress.ts';
import { withCode } from '../../../support/refusal.ts';
import { bodyOf, listenOnLoopback } from '../../../support/servers/loopback-server.ts';

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

const BYTES = new TextEncoder().encode('kept');
const SHA = createHash('sha256').update(BYTES).digest('hex');
const STORED = { sha256: SHA, bytes: 4, contentType: '' };
const SECRET = 'canary-secret-key';

const BUCKET: BucketConfig = {
  endpoint: 'https://s3.example.com',
  region: 'r',
  bucket: 'artifacts',
  accessKeyId: 'id',
  secretAccessKey: SECRET,
  timeoutSeconds: 1,
};

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

/** Answers in turn; the last one from then on. */
async function bucketThat(...answers: readonly Answer[]) {
  const seen: { readonly method: string; readonly body: string }[] = [];
  const server = await listenOnLoopback((request, response) => {
    void bodyOf(request).then((body) => {
      const answer = answers[Math.min(seen.length, answers.length - 1)];
      seen.push({ method: request.method ?? '', body });
      answer?.(request, response);
    });
  });
  closing.push(server.close);
  const config: BucketConfig = { ...BUCKET, endpoint: server.origin };
  return {
    seen,
    config,
    ask: createBucketRequest(config, loopbackEgress(), 1),
    store: createBucketStore(config, createBucketRequest(config, loopbackEgress(), 1)),
  };
}

const says =
  (status: number, code = '', headers: Readonly<Record<string, string>> = {}): Answer =>
  (_, response) => {
    response.writeHead(status, headers);
    response.end(code === '' ? '' : `<Error><Code>${code}</Code><Message>${SECRET}</Message></Error>`);
  };
const breaksOff: Answer = (request) => void request.socket.destroy();

test.each([
  ['an answer that may pass', says(503, 'SlowDown')],
  ['no answer', breaksOff],
])('%s is asked for again, with the whole body', async (_, first) => {
  const { store, seen } = await bucketThat(first, says(200));
  await expect(store.put(BYTES, 'text/plain')).resolves.toMatchObject({ sha256: SHA });
  expect(seen.map(({ method, body }) => `${method} ${body}`)).toEqual(['PUT kept', 'PUT kept']);
});

test.each([
  ['fails for good', says(500, 'InternalError'), 'answered 500 (InternalError)'],
  ['breaks every connection off', breaksOff, 'could not be reached'],
  ['never answers', () => undefined, 'did not answer within 1 s'],
] as readonly [string, Answer, string][])(
  'a store that %s is asked three times, no more (INV-S1)',
  async (_, answer, said) => {
    const { store, seen } = await bucketThat(answer);
    const failure: unknown = await store.put(BYTES, 'text/plain').catch((error: unknown) => error);
    expect(failure).toMatchObject(withCode('ARTIFACT_MISSING', said));
    expect(`${String(failure)}${JSON.stringify(failure)}`).not.toContain(SECRET);
    // A refresh of a catalog that has failed says so too, and nobody tries it again.
    expect(String(failure)).not.toContain('tried again');
    expect(seen).toHaveLength(3);
  },
);

test('a redirect is not followed: the signature is for one host', async () => {
  const elsewhere = await bucketThat(says(200));
  const { store, config } = await bucketThat(says(307, '', { location: elsewhere.config.endpoint }));
  await expect(store.put(BYTES, 'text/plain')).rejects.toMatchObject({ facts: { path: 'artifacts.s3.endpoint' } });
  await expect(readArtifactsFromBucket(config).get(STORED)).rejects.toMatchObject({
    code: 'ARTIFACT_MISSING',
  });
  expect(elsewhere.seen).toEqual([]);
});

test('a name that leads where egress forbids is a store that is away, and tried again (INV-D3, INV-S1)', async () => {
  const config: BucketConfig = { ...BUCKET, endpoint: 'https://store.example' };
  const egress = loopbackEgress({ resolve: async () => [{ address: '10.0.0.7' }] });
  const ask = createBucketRequest(config, egress, 1);
  const store = createBucketStore(config, ask);
  const away = {
    code: 'ARTIFACT_MISSING',
    traits: { retryable: true },
    message: expect.stringContaining('EGRESS_FORBIDDEN'),
    facts: { path: 'artifacts.s3.endpoint' },
  };
  await expect(store.put(BYTES, 'text/plain')).rejects.toMatchObject(away);
  await expect(store.get(STORED)).rejects.toMatchObject(away);
  await expect(setUpBucket(config, ask)).rejects.toMatchObject(withCode('EGRESS_FORBIDDEN', 'artifacts.s3.endpoint'));
});

const ENDLESS: Answer = (_, response) => {
  response.writeHead(200);
  const more = (): void => {
    while (!response.destroyed && response.write(Buffer.alloc(1_048_576)));
    response.once('drain', more);
  };
  more();
};

test('of an object that is longer than was stored no more is read than that', async () => {
  const { store } = await bucketThat(ENDLESS);
  await expect(store.get(STORED)).rejects.toMatchObject({ code: 'ARTIFACT_CORRUPT' });
});

test.each([4, 0])('nor by a client, which was told of %d bytes', async (bytes) => {
  const { config } = await bucketThat(ENDLESS);
  const read = readArtifactsFromBucket({ ...config, timeoutSeconds: 30 }).get({ ...STORED, bytes });
  await expect(read).rejects.toMatchObject({ code: 'ARTIFACT_CORRUPT' });
});

test('INV-S1: a client speaks to no other machine in clear, unless its operator allows that', () => {
  const clear = { ...BUCKET, endpoint: 'http://s3.internal:9000' };
  expect(() => readArtifactsFromBucket(clear)).toThrow(/endpoint must use https/);
  expect(() => readArtifactsFromBucket(clear, { allowInsecure: true })).not.toThrow();
});

test.each([
  ['may not write', says(403, 'AccessDenied'), { code: 'CONFIG_INVALID', facts: { path: 'artifacts.s3.accessKeyId' } }],
  ['is away', says(503), { code: 'SETUP_INCOMPLETE', facts: { path: 'artifacts.s3.endpoint' } }],
] as readonly [string, Answer, object][])('a worker that %s does not start', async (_, answer, failure) => {
  const { config, ask } = await bucketThat(answer);
  await expect(setUpBucket(config, ask)).rejects.toMatchObject(failure);
});

test('a client asks three times too', async () => {
  const { config, seen } = await bucketThat(says(503), breaksOff, (_, response) => void response.end('kept'));
  const read = await readArtifactsFromBucket(config).get({ ...STORED, bytes: 0 });
  expect(Buffer.from(read).toString()).toBe('kept');
  expect(seen).toHaveLength(3);
});
