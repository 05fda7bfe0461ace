/** The log of a worker process: one JSON object a line, with message, server and code; Temporal's own lines too; start and stop. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { stringify } from 'yaml';
import { Countersign } from '../../client/index.ts';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import { freePort } from '../../workers/dev-server.ts';
import { LOOPBACK } from '../support/egress.ts';
import { startEngine, type TestEngine } from '../support/engine.ts';
import { until } from '../support/until.ts';
import { startWorkerProcess, type WorkerProcess } from '../support/world/worker-process.ts';

type Line = Readonly<Record<string, unknown>>;

let engine: TestEngine;
let worker: WorkerProcess;
let tools: WorkerProcess;

beforeAll(async () => {
  engine = await startEngine();
  const { address, namespace } = engine.server;
  const configFile = join(engine.directory, 'countersign.yaml');
  const config: ConfigInput = {
    taskQueue: 'logged',
    servers: {
      bank: { url: `http://127.0.0.1:${await freePort()}/mcp`, credentials: { kind: 'none' } },
      notes: { url: 'http://127.0.0.1:1/mcp', credentials: { kind: 'none' }, taskQueue: 'notes' },
    },
    models: { script: { provider: 'scripted', script: { steps: [{ text: 'Done.' }] } } },
    egress: LOOPBACK,
  };
  await writeFile(configFile, stringify(config));
  const both = { configFile, address, namespace, shipped: true };
  [worker, tools] = await Promise.all([startWorkerProcess(both), startWorkerProcess({ ...both, role: 'tools' })]);
});
afterAll(async () => {
  await worker?.kill();
  await tools?.kill();
  await engine?.stop();
});

/** Fails where a line of stderr is no JSON. */
function lines(of = worker): Line[] {
  // Sound: an object, or the next line of the test says what it was.
  const found = of
    .log()
    .split('\n')
    // The command's own words about its configuration, before there is a log.
    .filter((text) => text !== '' && !text.startsWith('warning: '))
    .map((text) => JSON.parse(text) as Line);
  for (const line of found)
    expect(line).toMatchObject({ level: expect.any(String), time: expect.any(String), message: expect.any(String) });
  return found;
}

async function lineOf(what: string, matches: (line: Line) => boolean): Promise<Line> {
  return await until(() => lines().find(matches), { what });
}

test('its start says what it serves, where, and as which build', async () => {
  expect(await lineOf('the start', ({ message }) => message === 'The worker has started.')).toMatchObject({
    level: 'info',
    role: 'all',
    taskQueues: ['logged', 'notes'],
    namespace: engine.server.namespace,
    address: engine.server.address,
    buildId: expect.stringMatching(/^[0-9a-f]{12}$/),
    bundle: 'made at start',
    memoryMiB: expect.any(Number),
    maxCachedWorkflows: expect.any(Number),
    version: expect.stringMatching(/^\d+\.\d+\.\d+$/),
  });
});

test('an attempt that failed says which server and why, by code', async () => {
  const countersign = new Countersign({ client: await engine.connect() });
  const spec = {
    agent: { name: 'clerk', model: 'script' },
    input: 'Do it.',
    initiator: { id: 'ann' },
    servers: [{ name: 'bank' }],
  };
  const run = await countersign.startRun({ runId: 'logged', taskQueue: 'logged', spec });
  expect(await lineOf('the failed attempt', ({ activityType }) => activityType === 'discoverTools')).toMatchObject({
    level: 'warn',
    code: expect.stringMatching(/^[A-Z_]+$/),
    server: 'bank',
    workflowId: 'logged',
    activityType: 'discoverTools',
    attempt: 1,
    reason: expect.any(String),
    since: expect.any(String),
  });
  await run.stop({ by: 'ann', reason: 'It has been seen.' });
});

test('its end says why, and how long it took', async () => {
  tools.terminate();
  await tools.ended;
  const [stops, stopped] = lines(tools).slice(-2);
  expect(stops).toMatchObject({ message: expect.stringContaining('stops'), why: 'SIGTERM', taskQueues: ['notes'] });
  expect(stopped).toMatchObject({
    message: 'The worker has stopped.',
    role: 'tools',
    why: 'SIGTERM',
    upSeconds: expect.any(Number),
    stoppingMs: expect.any(Number),
  });
});

test("lines of Temporal's native part are of the same form", async () => {
  await engine.server.stop('SIGKILL');
  expect(await lineOf('a line of the native part', ({ sdkComponent }) => sdkComponent === 'core')).toMatchObject({
    level: expect.stringMatching(/^(warn|error)$/),
  });
});
