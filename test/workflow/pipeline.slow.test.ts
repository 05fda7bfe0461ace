/**
 * The steps of deploy/pipeline/github-actions.yml, as they stand there, on a real server: a build that does not do well
 * is left again, and one that does takes new runs and those that wait. The build is the same code both times, so that
 * the commands may replay for it; the first workers of it have a fault that no replay with the code finds.
 */
import { access, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Deployment, type DeploymentStatus, type RunHandle } from '../../client/index.ts';
import type { WorkflowBundle } from '../../workers/bundle.ts';
import { startWorkers, type Workers } from '../../workers/worker.ts';
import { playPipeline, type PlayedStep } from '../support/package/played-pipeline.ts';
import type { RecordingServer } from '../support/servers/recording-server.ts';
import { sharedBundle } from '../support/shared-bundle.ts';
import { Hopeless, until } from '../support/until.ts';
import { startBank } from '../support/world/bank-world.ts';
import { decideNext, openRequests, type World } from '../support/world/world.ts';

const OLD = 'build-old';
const NAME = 'agents';

let bank: RecordingServer;
let world: World;
let bundle: WorkflowBundle;
let deployment: Deployment;
let newer: Workers | undefined;

beforeAll(async () => {
  bundle = await sharedBundle();
  const config = { worker: { deployment: { name: NAME } } } as const;
  ({ bank, world } = await startBank(config, { bundle: { ...bundle, buildId: OLD } }));
  deployment = new Deployment({ client: world.client, name: NAME });
  await writeFile(join(world.engine.directory, 'countersign.yaml'), JSON.stringify(config));
  await until(async () => await deployment.promote(OLD), { what: 'workers of the build' });
}, 60_000);
afterAll(async () => {
  await newer?.stop();
  await world.stop();
}, 60_000);

/** Plays the file beside workers that start when it asks for them, and a run that begins once it sends new ones there. */
async function played(code: string): Promise<{ readonly steps: readonly PlayedStep[]; readonly during: RunHandle }> {
  const { config, engine } = world;
  const { address, namespace } = engine.server;
  const wanted = join(engine.directory, `wanted-${bundle.code.length - code.length}`);
  const playing = playPipeline('pipeline/github-actions.yml', {
    folder: engine.directory,
    vars: { TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE: namespace, START_WORKERS: `touch ${wanted}` },
    env: { SHARE: '100', WATCH_SECONDS: code === bundle.code ? '5' : '60' },
  });
  let ended: readonly PlayedStep[] | undefined;
  void playing.then((steps) => void (ended = steps));
  const meanwhile = async <T>(probe: () => Promise<T | undefined>, what: string): Promise<T> =>
    await until(
      async () => {
        if (ended !== undefined) throw new Hopeless(`the pipeline ended before ${what}: ${JSON.stringify(ended)}`);
        return await probe();
      },
      { what, withinMs: 120_000 },
    );
  await meanwhile(async () => access(wanted).then(() => true), 'the wish for workers');
  const loaded = { config, baseDirectory: engine.directory, path: undefined };
  const build = { ...bundle, code };
  newer = await startWorkers({ loaded, connectionOptions: { address }, namespace, bundle: build, role: 'all' });
  await meanwhile(async () => (await deployment.status()).ramping, 'a share of new runs');
  const during = await world.start([
    { calls: [{ tool: 'bank/pay', arguments: { purpose: code === bundle.code ? 'well' : 'badly' } }] },
    { text: 'done' },
  ]);
  const steps = await playing;
  return { steps, during };
}

function statuses(steps: readonly PlayedStep[]): Readonly<Record<string, string>> {
  return Object.fromEntries(steps.map(({ name, status }) => [name, status]));
}

async function runsOf(build: string): Promise<number | undefined> {
  const { builds }: DeploymentStatus = await deployment.status();
  return builds.find((each) => each.build === build)?.runs;
}

/** Starts a run that waits for an approval. */
async function waiting(purpose: string): Promise<RunHandle> {
  const run = await world.start([{ calls: [{ tool: 'bank/pay', arguments: { purpose } }] }, { text: 'done' }]);
  await openRequests(run);
  return run;
}

async function decided(run: RunHandle): Promise<void> {
  await decideNext(run, 'ann');
  expect(await run.result()).toMatchObject({ status: 'completed', calls: 1 });
}

const PASSED_UNTIL_THE_WATCH = {
  Build: 'passed',
  'Replay what waits with the new code': 'passed',
  'Name the builds': 'passed',
  'Start workers of the new build': 'passed',
  'Send it a share of new runs': 'passed',
};

test('a build on which runs are stuck is watched for, left again, and its runs go on with the build before', async () => {
  const before = await waiting('before');
  const broken = bundle.code.replace(/function agentRun\([^)]*\) \{/, '$& throw new Error("a fault of this build");');
  expect(broken).not.toBe(bundle.code);
  const { steps, during } = await played(broken);
  expect(statuses(steps)).toEqual({
    ...PASSED_UNTIL_THE_WATCH,
    'Watch it': 'failed',
    'Send it all new runs': 'skipped',
    'Watch it again': 'skipped',
    'Move the runs that wait': 'skipped',
    'Watch the runs that moved': 'skipped',
    'Go back': 'passed',
  });
  expect(steps.find(({ name }) => name === 'Watch it')?.said).toContain(during.runId);
  const { current, ramping } = await deployment.status();
  expect([current, ramping]).toEqual([OLD, undefined]);
  await newer?.stop();
  newer = undefined;
  await openRequests(during);
  for (const run of [before, during]) await decided(run);
  expect(bank.callsFor('badly')).toHaveLength(1);
}, 300_000);

test('a build that does well takes all new runs and those that wait, and nothing is gone back to', async () => {
  const before = await waiting('drained');
  const { steps, during } = await played(bundle.code);
  expect(steps.filter(({ status }) => status === 'failed')).toEqual([]);
  expect(statuses(steps)).toEqual({
    ...PASSED_UNTIL_THE_WATCH,
    'Watch it': 'passed',
    'Send it all new runs': 'passed',
    'Watch it again': 'passed',
    'Move the runs that wait': 'passed',
    'Watch the runs that moved': 'passed',
    'Go back': 'skipped',
  });
  const { current, ramping } = await deployment.status();
  expect([current, ramping]).toEqual([bundle.buildId, undefined]);
  expect(await runsOf(OLD)).toBe(0);
  await openRequests(during);
  for (const run of [before, during]) await decided(run);
  expect(bank.callsFor('drained')).toHaveLength(1);
}, 300_000);
