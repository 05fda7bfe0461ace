/**
 * Starts an S3-compatible server that no one here wrote (Versity S3 Gateway over a folder), as a process on
 * loopback.
 */
import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AwsClient } from 'aws4fetch';
import { defined } from '../../../contracts/defined.ts';
import type { BucketConfig } from '../../../contracts/schemas/stores.ts';
import { freePort } from '../../../workers/dev-server.ts';
import { Hopeless, until } from '../until.ts';

export interface S3Server {
  readonly endpoint: string;
  /** Folder of the buckets: the server keeps its objects as files there. */
  readonly root: string;
  /** Makes an adapter configuration with an empty bucket of its own. */
  bucket(changes?: Partial<BucketConfig>): Promise<BucketConfig>;
  /** Sends a request of another authorised client, which the adapter would never send. */
  ask(method: string, path: string, body?: string, headers?: Readonly<Record<string, string>>): Promise<Response>;
  /** Kills the server with SIGKILL; `start` brings it back at the same address. */
  kill(): Promise<void>;
  start(): Promise<void>;
  close(): Promise<void>;
}

export const REGION = 'eu-test-1';
export const ACCESS_KEY_ID = 'countersign-test';
export const SECRET_ACCESS_KEY = 'canary-s3-secret-0123456789';

export async function startS3Server(): Promise<S3Server> {
  const binary = process.env['S3_SERVER_PATH'];
  if (binary === undefined || binary === '')
    throw new Error('S3_SERVER_PATH is not set: run this through `npm test -- slow`, which finds or builds a server.');
  const folder = await mkdtemp(join(tmpdir(), 'countersign-s3-'));
  const root = join(folder, 'buckets');
  // Attributes are kept beside the files, because not every file system keeps them.
  const sidecar = join(folder, 'attributes');
  await Promise.all([mkdir(root), mkdir(sidecar)]);
  const port = await freePort();
  const endpoint = `http://127.0.0.1:${port}`;
  const admin = new AwsClient({
    accessKeyId: ACCESS_KEY_ID,
    secretAccessKey: SECRET_ACCESS_KEY,
    service: 's3',
    region: REGION,
    retries: 0,
  });
  let child: ReturnType<typeof spawn> | undefined;
  const killWithParent = (): void => void child?.kill('SIGKILL');
  process.once('exit', killWithParent);

  const ask: S3Server['ask'] = async (method, path, body, headers = {}) =>
    await admin.fetch(`${endpoint}${path}`, { method, headers, ...defined({ body }) });

  const start = async (): Promise<void> => {
    const said: string[] = [];
    const args = ['--port', `127.0.0.1:${port}`, '--region', REGION, '--quiet', 'posix', '--sidecar', sidecar, root];
    const started = spawn(binary, args, {
      cwd: folder,
      env: { ROOT_ACCESS_KEY: ACCESS_KEY_ID, ROOT_SECRET_KEY: SECRET_ACCESS_KEY },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child = started;
    for (const stream of [started.stdout, started.stderr])
      stream.on('data', (chunk: Buffer) => said.push(chunk.toString('utf8')));
    await until(
      async () => {
        if (started.exitCode !== null) throw new Hopeless(`the S3 server ended: ${said.join('')}`);
        const answer = await ask('GET', '/');
        await answer.text();
        return answer.status === 200;
      },
      { what: `an answer of ${endpoint}` },
    );
  };

  const kill = async (): Promise<void> => {
    const ending = child;
    child = undefined;
    if (ending === undefined || ending.exitCode !== null) return;
    const ended = new Promise((resolve) => ending.once('exit', resolve));
    ending.kill('SIGKILL');
    await ended;
  };

  let made = 0;
  await start();
  return {
    endpoint,
    root,
    ask,
    start,
    kill,
    bucket: async (changes = {}) => {
      made += 1;
      const bucket = `artifacts-${made}`;
      const answer = await ask('PUT', `/${bucket}`);
      if (!answer.ok) throw new Error(`the bucket was not made: ${answer.status} ${await answer.text()}`);
      return {
        endpoint,
        bucket,
        region: REGION,
        accessKeyId: ACCESS_KEY_ID,
        secretAccessKey: SECRET_ACCESS_KEY,
        timeoutSeconds: 10,
        ...changes,
      };
    },
    close: async () => {
      await kill();
      process.off('exit', killWithParent);
      await rm(folder, { recursive: true, force: true });
    },
  };
}
