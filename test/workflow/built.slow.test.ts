/** What `npm run build` makes runs in production: Node alone, no TypeScript (INV-D1). */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { stringify } from 'yaml';
import { Countersign } from '../../client/index.ts';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import { startEngine, type TestEngine } from '../support/engine.ts';
import { startWorkerProcess } from '../support/world/worker-process.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** With a compiler, a server and two bundlers, on a busy machine. */
jest.setTimeout(180_000);

let engine: TestEngine;
let built: string;
let main: string;

beforeAll(async () => {
  // Inside the repository, so that packages resolve as they do from dist/.
  await mkdir(join(ROOT, '.build'), { recursive: true });
  built = await mkdtemp(join(ROOT, '.build', 'built-'));
  main = join(built, 'cli/main.js');
  const compile = ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json', '--outDir', built];
  execFileSync(process.execPath, compile, { cwd: ROOT });
  execFileSync(process.execPath, [join(built, 'workers/build-bundle.js')]);
  engine = await startEngine();
});
afterAll(async () => {
  await engine?.stop();
  await rm(built, { recursive: true, force: true });
});

/** The command of dist/, as anybody runs it in the repository. */
function command(...args: readonly string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...args], { cwd: ROOT, encoding: 'utf8' });
  const document: unknown = stdout === '' ? undefined : JSON.parse(stdout);
  return { status, stderr, document };
}

test('it holds JavaScript, and no test', async () => {
  const files = await readdir(built, { recursive: true });
  expect(files).toContain('workflows/index.js');
  expect(files.filter((path) => /(?<!\.d)\.ts$/.test(path))).toEqual([]);
  expect(files.filter((path) => /^test(?:\/|$)/.test(path))).toEqual([]);
});

test('`countersign worker` of it takes the bundle that lies there, serves a run to its end, and ends when it is asked to', async () => {
  const config: ConfigInput = {
    taskQueue: 'built',
    models: { script: { provider: 'scripted', script: { steps: [{ text: 'Done.' }] } } },
  };
  const configFile = join(engine.directory, 'countersign.yaml');
  await writeFile(configFile, stringify(config));
  const { address, namespace } = engine.server;
  const worker = await startWorkerProcess({ configFile, address, namespace, built: main });
  try {
    expect(worker.log()).toContain('"bundle":"built"');
    const countersign = new Countersign({ client: await engine.connect() });
    const spec = { agent: { name: 'clerk', model: 'script' }, input: 'Do it.', initiator: { id: 'ann' } };
    const run = await countersign.startRun({ runId: 'built', taskQueue: 'built', spec });
    expect(await run.result()).toMatchObject({ status: 'completed', output: 'Done.' });
    worker.terminate();
    expect(await worker.ended).toBe(0);
    const own = ['replay', '--live', '--query', `WorkflowId = 'built'`, '--address', address, '--json'];
    expect(command(...own)).toMatchObject({ status: 0, document: { replayed: 1, failed: 0 } });
  } finally {
    await worker.kill();
  }
});

test('`countersign replay` of it takes the recorded histories: a run may wait under one build and go on under the other', () => {
  expect(command('replay', '--json')).toMatchObject({ status: 0, stderr: '', document: { failed: 0 } });
});

test('it knows its version', () => {
  expect(spawnSync(process.execPath, [main, '--version'], { encoding: 'utf8' }).stdout).toMatch(
    /^\d+\.\d+\.\d+(-rc\.\d+)?\n$/,
  );
});
