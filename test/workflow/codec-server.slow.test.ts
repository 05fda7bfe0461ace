/**
 * An encrypted run is read through the codec server, as Temporal UI and the `temporal` command do it, by whom the
 * configuration names, and by nobody else.
 */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { stringify } from 'yaml';
import { SEALED_ENCODING } from '../../contracts/payload-converter.ts';
import { CodecServerConfig, type CodecServerConfigInput } from '../../contracts/schemas/gateway.ts';
import { type CodecServer, startCodecServer } from '../../gateway/codec/server.ts';
import { createCodec, EncryptionCodec } from '../../workers/codec.ts';
import { commandsAt } from '../support/cli.ts';
import { AUDIENCE, type Claims, startTestProvider, type TestProvider } from '../support/scenes/gateway-world.ts';
import { until } from '../support/until.ts';
import { startBank } from '../support/world/bank-world.ts';
import { decideNext, type World } from '../support/world/world.ts';

const UI = 'https://temporal.example.com';
const KEY = randomBytes(32).toString('base64');
const OTHER_KEY = randomBytes(32).toString('base64');
const SECRET = `transfer to ${randomBytes(8).toString('hex')}`;
const READER = { sub: 'olga', groups: ['operators'] };

interface Json {
  readonly metadata?: Readonly<Record<string, string>>;
  readonly data?: string;
}

let world: World;
let provider: TestProvider;
let served: Promise<{ readonly exitCode: number }>;
let url: string;
let metricsUrl: string;
let told = '';
let lines = '';
let sealed: readonly Json[];
const ending = new AbortController();

beforeAll(async () => {
  provider = await startTestProvider();
  const encryption = { keys: [{ id: 'k1', key: KEY }] };
  ({ world } = await startBank({ encryption, policy: { approvers: { ids: ['ben'] } } }, { beside: [provider] }));
  const run = await world.start([
    { calls: [{ tool: 'bank__transfer', arguments: { to: SECRET, amount: 1 } }] },
    { text: 'paid' },
  ]);
  await decideNext(run, 'ben');
  await run.result();
  sealed = payloadsIn((await show()).stdout).filter(isSealed);

  const { directory, server } = world.engine;
  const config = join(directory, 'codec.yaml');
  const oidc = { issuer: provider.issuer, audience: AUDIENCE, tenant: 'default' };
  // Settings of others hold secrets that are not here.
  const others = { models: { main: { provider: 'openai', model: 'x', apiKey: '${NOT_HERE}' } } };
  const gateway = { oidc, signIn: { publicUrl: UI, clientId: 'x', clientSecret: '${NOR_HERE}' } };
  const metrics = { prometheus: '127.0.0.1:0' };
  const codecServer = { port: 0, origins: [UI], may: { groups: ['operators'] }, metrics };
  const egress = { allowLoopback: true };
  await writeFile(config, stringify({ ...others, gateway, codecServer, egress, encryption }));
  served = commandsAt({ server, directory })(['codec-server', '--json', '--config', config], {
    signal: ending.signal,
    onOut: (text) => void (told += text),
    onErr: (text) => void (lines += text),
  });
  await until(() => told.includes('\n'), { what: 'a codec server' });
  // Sound: that is what it says with --json.
  ({ url, metrics: metricsUrl } = JSON.parse(told) as { url: string; metrics: string });
});

afterAll(async () => {
  ending.abort();
  expect(await served).toMatchObject({ exitCode: 0 });
  await world.stop();
});

/** Reads the history with the `temporal` command, as JSON. */
async function show(...more: readonly string[]): Promise<{ readonly stdout: string; readonly stderr: string }> {
  const { address, namespace } = world.engine.server;
  const where = ['--address', address, '--namespace', namespace, '--workflow-id', world.runs[0] ?? ''];
  const args = ['workflow', 'show', ...where, '--output', 'json', ...more];
  return await promisify(execFile)(process.env['TEMPORAL_CLI_PATH'] ?? '', args, { maxBuffer: 64_000_000 });
}

function payloadsIn(json: string): readonly Json[] {
  const within = (value: unknown): readonly Json[] => {
    if (Array.isArray(value)) return value.flatMap(within);
    if (typeof value !== 'object' || value === null) return [];
    return 'metadata' in value && 'data' in value ? [value as Json] : Object.values(value).flatMap(within);
  };
  return within(JSON.parse(json));
}

function isSealed({ metadata }: Json): boolean {
  return Buffer.from(metadata?.['encoding'] ?? '', 'base64').toString() === SEALED_ENCODING;
}

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: { readonly payloads: readonly Json[]; readonly code?: string };
}

async function post(
  headers: Readonly<Record<string, string>>,
  payloads: unknown = sealed,
  { at = url, path = '/decode' } = {},
): Promise<Answer> {
  const response = await fetch(`${at}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-namespace': 'default', ...headers },
    body: typeof payloads === 'string' ? payloads : JSON.stringify({ payloads }),
  });
  // Sound: tests check what they use of it.
  return { status: response.status, headers: response.headers, body: (await response.json()) as Answer['body'] };
}

async function bearer(claims: Claims = READER): Promise<{ readonly authorization: string }> {
  return { authorization: `Bearer ${await provider.token(claims)}` };
}

function textOf(payloads: readonly Json[]): string {
  return payloads.map(({ data = '' }) => Buffer.from(data, 'base64').toString('utf8')).join('\n');
}

describe('who may read', () => {
  test('gets every payload of a history in clear, and Temporal has none of it', async () => {
    expect(sealed.length).toBeGreaterThan(5);
    expect(textOf(sealed)).not.toContain(SECRET);
    const { status, body } = await post(await bearer());
    expect(status).toBe(200);
    expect(body.payloads).toHaveLength(sealed.length);
    expect(textOf(body.payloads)).toContain(SECRET);
    const encodings = new Set(body.payloads.map(({ metadata }) => metadata?.['encoding'] ?? ''));
    expect([...encodings].map((encoding) => Buffer.from(encoding, 'base64').toString())).toContain('json/plain');
    expect(body.payloads.filter(isSealed)).toEqual([]);
  });

  test.each(['', '/{namespace}'])('reads a run with the temporal command, at the endpoint …%s', async (path) => {
    const { authorization } = await bearer();
    const endpoint = ['--codec-endpoint', `${url}${path}`];
    const { stdout } = await show(...endpoint, '--codec-auth', authorization);
    expect(textOf(payloadsIn(stdout))).toContain(SECRET);
  });

  test('gets nothing by the temporal command without a token', async () => {
    const refused = show('--codec-endpoint', url);
    await expect(refused).rejects.toMatchObject({ code: 1, stderr: expect.stringContaining('failed') });
    const { stdout } = await refused.catch((error: unknown) => error as { readonly stdout: string });
    expect(Buffer.from(stdout, 'base64').toString()).not.toContain(SECRET);
    expect(stdout).not.toContain('payloads');
  });

  test('what is not encrypted, or with another key, or was changed, is answered as it came, beside what is readable', async () => {
    const clear = { metadata: { encoding: Buffer.from('json/plain').toString('base64') }, data: 'InguIg==' };
    const [own = {}] = sealed;
    const stranger = new EncryptionCodec([{ id: 'k2', key: Buffer.from(OTHER_KEY, 'base64') }]);
    const [foreign] = await stranger.encode([{ metadata: {}, data: Buffer.from('x') }]);
    const json = (bytes: Uint8Array | null | undefined) => Buffer.from(bytes ?? []).toString('base64');
    const metadata = Object.entries(foreign?.metadata ?? {}).map(([name, bytes]) => [name, json(bytes)] as const);
    const unknownKey = { metadata: Object.fromEntries(metadata), data: json(foreign?.data) };
    const bytes = Buffer.from(own.data ?? '', 'base64');
    bytes.writeUInt8(bytes.readUInt8(bytes.length - 1) ^ 1, bytes.length - 1);
    const changed = { ...own, data: bytes.toString('base64') };
    const short = { ...own, data: 'AAAA' };
    const empty = {};
    const sent = [clear, unknownKey, changed, short, empty, null, own];
    const { status, body } = await post(await bearer(), sent);
    expect(status).toBe(200);
    expect(body.payloads.slice(0, -1)).toEqual(sent.slice(0, -1));
    expect(body.payloads.slice(-1).filter(isSealed)).toEqual([]);
    expect((await post(await bearer(), '{}')).body).toEqual({ payloads: [] });
  });

  test('is in the log with the number of payloads, and nothing of them', async () => {
    lines = '';
    const { headers } = await post(await bearer());
    expect(JSON.parse(lines)).toEqual({
      level: 'info',
      time: expect.any(String),
      message: 'payloads decoded',
      requestId: headers.get('x-request-id'),
      reader: 'olga',
      tenant: 'default',
      namespace: 'default',
      payloads: sealed.length,
      unreadable: 0,
    });
  });
});

describe('who is refused', () => {
  test.each<[string, number, string, () => Promise<Readonly<Record<string, string>>>]>([
    ['nobody', 401, 'SIGN_IN_REQUIRED', async () => ({})],
    ['a stranger', 401, 'SIGN_IN_REQUIRED', async () => ({ authorization: `Bearer ${await provider.forged(READER)}` })],
    ['a token for something else', 401, 'SIGN_IN_REQUIRED', async () => bearer({ ...READER, aud: 'https://other' })],
    ['a token that has expired', 401, 'SIGN_IN_REQUIRED', async () => bearer({ ...READER, lives: -600 })],
    ['another group', 403, 'ACTION_FORBIDDEN', async () => bearer({ sub: 'olga', groups: ['auditors'] })],
    ['the same group of another tenant', 403, 'ACTION_FORBIDDEN', async () => bearer({ ...READER, tenant: 'rival' })],
    ['another namespace', 422, 'USAGE', async () => ({ ...(await bearer()), 'x-namespace': 'payments' })],
    ['no namespace', 422, 'USAGE', async () => ({ ...(await bearer()), 'x-namespace': '' })],
  ])('%s', async (_who, status, code, headers) => {
    const answer = await post(await headers());
    expect(answer).toMatchObject({ status, body: { code } });
    expect(answer.headers.get('content-type')).toContain('application/problem+json');
    expect(JSON.stringify(answer.body)).not.toContain(SECRET);
  });

  test.each([
    ['another namespace in the path', '/payments/decode', 422],
    ['encoding, since workers take messages in clear', '/encode', 404],
    ['any other path', '/v1/runs', 404],
  ])('%s', async (_what, path, status) => {
    expect(await post(await bearer(), sealed, { path })).toMatchObject({ status });
  });

  test.each([
    ['what is no JSON', '{', 400],
    ['payloads that are none', '{"payloads": [1]}', 422],
    ['a list that is none', '{"payloads": {}}', 422],
    ['bytes that are no text', '{"payloads": [{"data": 1}]}', 422],
  ])('%s', async (_what, body, status) => {
    expect(await post(await bearer(), body)).toMatchObject({ status });
  });

  test('an oversize body, before it is read, and a person who asks too often', async () => {
    const limits = { bodyBytes: 1_024, requestsPerMinute: 2 };
    const small = await serve({ limits });
    try {
      const headers = await bearer();
      expect(await post(headers, 'x'.repeat(1_025), { at: small.url })).toMatchObject({
        status: 413,
        body: { code: 'BODY_TOO_LARGE' },
      });
      expect(await post(headers, [], { at: small.url })).toMatchObject({ status: 200 });
      const tooMany = await post(headers, [], { at: small.url });
      expect(tooMany).toMatchObject({ status: 429, body: { code: 'RATE_LIMITED' } });
      expect(Number(tooMany.headers.get('retry-after'))).toBeGreaterThan(0);
      expect(await post(await bearer({ ...READER, sub: 'paul' }), [], { at: small.url })).toMatchObject({
        status: 200,
      });
      expect((await fetch(`${small.url}/health`)).status).toBe(200);
    } finally {
      await small.stop();
    }
  });
});

async function serve(config: CodecServerConfigInput): Promise<CodecServer> {
  return await startCodecServer({
    config: CodecServerConfig.parse({
      port: 0,
      may: { groups: ['operators'] },
      oidc: { issuer: provider.issuer, audience: AUDIENCE, tenant: 'default' },
      ...config,
    }),
    namespace: 'default',
    codec: createCodec({ encryption: { keys: [{ id: 'k1', key: KEY }] } }),
    ask: async (to, init) => await fetch(to, init),
  });
}

describe('a page', () => {
  const preflight = async (origin: string): Promise<Response> =>
    await fetch(`${url}/decode`, {
      method: 'OPTIONS',
      headers: {
        origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization,content-type,x-namespace',
      },
    });

  test('of Temporal UI may send the token and read every answer, refusals too', async () => {
    const { status, headers } = await preflight(UI);
    expect(status).toBe(204);
    expect(headers.get('access-control-allow-origin')).toBe(UI);
    const allowed = headers.get('access-control-allow-headers')?.toLowerCase().split(', ');
    expect(allowed).toEqual(expect.arrayContaining(['authorization', 'content-type', 'x-namespace']));
    expect(headers.get('access-control-allow-methods')).toBe('POST');
    expect(headers.get('access-control-allow-credentials')).toBeNull();
    expect(headers.get('vary')).toContain('Origin');
    const decoded = await post({ ...(await bearer()), origin: UI });
    expect(decoded.headers.get('access-control-allow-origin')).toBe(UI);
    const refused = await post({ origin: UI });
    expect(refused).toMatchObject({ status: 401 });
    expect(refused.headers.get('access-control-allow-origin')).toBe(UI);
  });

  test.each(['https://evil.example', `${UI}.evil.example`, 'http://temporal.example.com', `${UI}:8443`, 'null'])(
    'of another origin gets no header that lets it read: %s',
    async (origin) => {
      const answers = [(await preflight(origin)).headers, (await post({ ...(await bearer()), origin })).headers];
      expect(answers.map((headers) => headers.get('access-control-allow-origin'))).toEqual([null, null]);
    },
  );
});

describe('in development', () => {
  test('everybody on this machine reads, under names of this machine alone, and every answer says so', async () => {
    const open = await serve({ development: true, origins: ['http://localhost:8233'] });
    try {
      const read = await post({ origin: 'http://localhost:8233' }, sealed, { at: open.url });
      expect(textOf(read.body.payloads)).toContain(SECRET);
      expect(read.headers.get('x-countersign-development')).toBe('everybody may read');
      expect(read.headers.get('access-control-allow-origin')).toBe('http://localhost:8233');
      const foreign = await post({ origin: 'https://evil.example' }, sealed, { at: open.url });
      expect(foreign).toMatchObject({ status: 403, body: { code: 'ACTION_FORBIDDEN' } });
    } finally {
      await open.stop();
    }
  });

  test('an address that others reach is refused', async () => {
    await expect(serve({ development: true, host: '0.0.0.0' })).rejects.toMatchObject({
      code: 'CONFIG_INVALID',
      facts: { path: 'codecServer.development' },
    });
  });
});

test('no key and no plaintext has been written by it', () => {
  expect(lines).not.toBe('');
  for (const secret of [SECRET, KEY, SECRET.slice(12)]) expect(`${told}${lines}`).not.toContain(secret);
});

test('metrics count what was looked at and answered, and name neither readers nor what they read', async () => {
  const count = async (line: string): Promise<number> => {
    const text = await (await fetch(metricsUrl)).text();
    for (const word of ['olga', 'operators', SECRET, world.runs[0] ?? '', 'k1"']) expect(text).not.toContain(word);
    return Number(
      text
        .split('\n')
        .find((each) => each.startsWith(`${line} `))
        ?.split(' ')[1] ?? 0,
    );
  };
  const counted = async () => ({
    decrypted: await count('countersign_codec_payloads{result="decrypted"}'),
    clear: await count('countersign_codec_payloads{result="clear"}'),
    unreadable: await count('countersign_codec_payloads{result="unreadable"}'),
    refused: await count('countersign_codec_http_requests{method="POST",route="/decode",status="403"}'),
  });
  const before = await counted();
  const [one] = sealed;
  const broken = { ...one, data: Buffer.from('not ours').toString('base64') };
  const plain = { metadata: { encoding: Buffer.from('json/plain').toString('base64') }, data: 'e30=' };
  expect((await post(await bearer(), [one, broken, plain])).status).toBe(200);
  expect((await post(await bearer({ sub: 'eve', groups: [] }), [one])).status).toBe(403);
  expect(await counted()).toEqual({
    decrypted: before.decrypted + 1,
    clear: before.clear + 1,
    unreadable: before.unreadable + 1,
    refused: before.refused + 1,
  });
  // It is an address of its own.
  expect((await fetch(`${url}/metrics`)).status).not.toBe(200);
});
