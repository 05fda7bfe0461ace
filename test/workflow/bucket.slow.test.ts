/**
 * Whole runs whose artifacts stand in a bucket, on an S3-compatible server that no one here wrote: what is stored, what
 * is not (INV-S1), and what a run does while the store is away (INV-D3).
 */
import { randomBytes } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { stringify } from 'yaml';
import { readArtifactsFromBucket, type RunHandle } from '../../client/index.ts';
import type { ResultPart } from '../../contracts/schemas/call.ts';
import type { BucketConfig } from '../../contracts/schemas/stores.ts';
import { type Canary, CanaryScanner } from '../support/canary/scan.ts';
import { type CanaryServer, startCanaryServer } from '../support/canary/server.ts';
import { errorOf, runCommand } from '../support/cli.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import { type S3Server, SECRET_ACCESS_KEY, startS3Server } from '../support/servers/s3-server.ts';
import { until } from '../support/until.ts';
import { executions, results } from '../support/world/run-record.ts';
import { decisionOn, requestFor, startWorld, type World } from '../support/world/world.ts';

const SERVER_SECRET = `canary-${randomBytes(12).toString('hex')}`;

let s3: S3Server;
let bucket: BucketConfig;
let tools: CanaryServer;
let bank: RecordingServer;
let world: World;

beforeAll(async () => {
  [s3, tools, bank] = await Promise.all([startS3Server(), startCanaryServer(), startRecordingServer()]);
  bucket = await s3.bucket({ prefix: 'agents', timeoutSeconds: 2 });
  world = await startWorld({
    beside: [s3, tools, bank],
    config: {
      artifacts: { s3: bucket },
      policy: { servers: { canary: { default: 'allow' } } },
      servers: {
        bank: { url: bank.url, credentials: { kind: 'none' } },
        canary: { url: tools.url, credentials: { kind: 'none' }, headers: { 'X-Api-Key': SERVER_SECRET } },
      },
    },
    client: { artifacts: readArtifactsFromBucket(bucket) },
  });
}, 120_000);
afterAll(async () => world?.stop());

async function contentOf(run: RunHandle): Promise<readonly (readonly ResultPart[])[]> {
  const read = { ...world, artifacts: { ...world.artifacts, get: readArtifactsFromBucket(bucket).get } };
  return (await results(read, run)).map(({ outcome }) => ('result' in outcome ? (outcome.result?.content ?? []) : []));
}

/** All that lies in the server's folder, with its attributes. */
async function keptFiles(): Promise<readonly { readonly path: string; readonly content: Buffer }[]> {
  const entries = await readdir(join(s3.root, '..'), { recursive: true, withFileTypes: true });
  return await Promise.all(
    entries
      .filter((entry) => entry.isFile())
      .map(async ({ parentPath, name }) => ({
        path: join(parentPath, name),
        content: await readFile(join(parentPath, name)),
      })),
  );
}

test('INV-S1: artifacts in a bucket hold no secret, and history no binary', async () => {
  const calls = ['image', 'resource', 'large', 'structured', 'words'].map((tool) => ({ tool: `canary/${tool}` }));
  const run = await world.start([{ calls }, { text: 'done' }], {
    servers: [{ name: 'canary' }],
    limits: { resultBytes: 2_000 },
  });
  expect(await run.result()).toMatchObject({ status: 'completed', output: 'done' });

  const [[image] = [], [resource] = []] = await contentOf(run);
  if (image?.type !== 'image' || resource?.type !== 'resource' || resource.artifact === undefined)
    throw new Error('no binary was kept');
  const history = JSON.stringify((await executions(world, run.runId)).map(({ events }) => events));
  for (const { artifact } of [image, { artifact: resource.artifact }]) {
    const bytes = Buffer.from(await readArtifactsFromBucket(bucket).get(artifact));
    expect(bytes.length).toBe(artifact.bytes);
    expect(history).not.toContain(bytes.toString('base64').slice(0, 200));
  }
  // The server really gave it away, and something really was stored.
  expect(bytesOf(await keptFiles()).includes('[redacted]')).toBe(true);

  const canaries: Canary[] = [
    { name: 'server', value: SERVER_SECRET },
    { name: 'bucket', value: SECRET_ACCESS_KEY },
  ];
  const scanner = new CanaryScanner(canaries);
  const found = (await keptFiles()).flatMap(({ path, content }) => scanner.scan(path, content));
  expect(found).toEqual([]);
  expect(scanner.scan('history', history)).toEqual([]);
  // It would be seen.
  expect(scanner.scan('control', `x${SERVER_SECRET}`)).not.toEqual([]);
});

test('INV-D3: a run that rolls while the store is away waits for it, and goes on; its ledger is read from the bucket', async () => {
  const run = await world.start([{ calls: [{ tool: 'bank/pay', arguments: { purpose: 'away' } }] }, { text: 'paid' }], {
    servers: [{ name: 'bank' }],
  });
  await requestFor(run, 't1.c0');
  const { runId } = await run.state();
  await s3.kill();
  await world.client.workflow.getHandle(run.runId).signal('nudge');
  // It has tried, and failed at least once.
  await until(
    async () => {
      const { raw } = await world.client.workflow.getHandle(run.runId).describe();
      return (raw.pendingActivities ?? []).some(({ attempt, lastFailure }) => Number(attempt) > 1 && lastFailure);
    },
    { what: 'a second try to store' },
  );
  await s3.start();
  await until(async () => (await run.state()).runId !== runId, { what: 'a new execution' });
  await run.decide(decisionOn(await requestFor(run, 't1.c0'), 'ann'));
  expect(await run.result()).toMatchObject({ status: 'completed', output: 'paid' });
  expect(bank.callsFor('away')).toHaveLength(1);

  // By a command line that has the credentials in its environment, and one that has not.
  const { engine } = world;
  const file = join(engine.directory, 'client.yaml');
  const s3Options = { ...bucket, secretAccessKey: '${S3_SECRET}' };
  await writeFile(file, stringify({ artifacts: { s3: s3Options } }));
  const command = ['verify-ledger', run.runId, '--json', '--config', file, '--address', engine.server.address];
  expect(await runCommand(command, { env: { S3_SECRET: SECRET_ACCESS_KEY } })).toMatchObject({ exitCode: 0, err: '' });
  const blind = await runCommand(command);
  expect(errorOf(blind)).toMatchObject({ code: 'ARTIFACT_MISSING' });
  expect(blind.err).toContain('S3_SECRET');
  const wrong = await runCommand(command, { env: { S3_SECRET: 'canary-wrong' } });
  expect(wrong.err).toContain('artifacts.s3.secretAccessKey');
  expect(wrong.err).not.toContain('canary');
}, 120_000);

test('a sweep leaves a bucket to its lifecycle rule', async () => {
  const file = join(world.engine.directory, 'client.yaml');
  await writeFile(file, stringify({ artifacts: { s3: bucket } }));
  const command = ['artifacts', 'sweep', '--older-than', '1h', '--json', '--config', file];
  const refused = await runCommand([...command, '--address', world.engine.server.address]);
  expect(errorOf(refused)).toMatchObject({ code: 'USAGE' });
});

function bytesOf(files: readonly { readonly content: Buffer }[]): Buffer {
  return Buffer.concat(files.map(({ content }) => content));
}
