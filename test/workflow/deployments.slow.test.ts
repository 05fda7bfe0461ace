/**
 * Runs move between builds of a worker deployment, and none is lost or doubled (docs/adr/0083). Build A and build B are
 * workers of one bundle under two build ids: what Temporal does depends on the ids alone. B has the id of this code, so
 * that the command may replay for it.
 */
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { Deployment, type DeploymentStatus, type Drained, type RunHandle } from '../../client/index.ts';
import type { WorkflowBundle } from '../../workers/bundle.ts';
import { startWorkers, type Workers } from '../../workers/worker.ts';
import { commandsAt, type CommandResult, documentOf } from '../support/cli.ts';
import { ADMINISTRATORS, connected } from '../support/scenes/catalogs.ts';
import type { RecordingServer } from '../support/servers/recording-server.ts';
import { sharedBundle } from '../support/shared-bundle.ts';
import { until } from '../support/until.ts';
import { startBank } from '../support/world/bank-world.ts';
import { startOwnWorker } from '../support/world/own-worker.ts';
import { codeOf } from '../support/world/run-record.ts';
import { decideNext, openRequests, startWorld, type World } from '../support/world/world.ts';

const A = 'build-a';
const NAME = 'agents';

let bank: RecordingServer;
let world: World;
let bundle: WorkflowBundle;
let onB: Workers | undefined;
let command: ReturnType<typeof commandsAt>;

beforeAll(async () => {
  bundle = await sharedBundle();
  const config = {
    worker: { deployment: { name: NAME } },
    catalog: { administrators: ADMINISTRATORS },
    policy: { servers: { bank: { tools: { slow: 'allow' } } } },
  } as const;
  ({ bank, world } = await startBank(config, { names: ['bank', 'tracker'], bundle: { ...bundle, buildId: A } }));
  command = commandsAt(world.engine);
}, 60_000);
afterAll(async () => {
  await onB?.stop();
  await world.stop();
}, 60_000);

const deploy = async (...args: readonly string[]): Promise<CommandResult> =>
  await command(['deploy', ...args, '--deployment', NAME, '--json']);
const done = async <T = Record<string, unknown>>(...args: readonly string[]): Promise<T> =>
  documentOf<T>(await deploy(...args));
const refused = async (...args: readonly string[]): Promise<{ code: string; exitCode: number }> => {
  const { err, exitCode } = await deploy(...args);
  // Sound: the form of errors with --json.
  const { error } = JSON.parse(err) as { error: { code: string } };
  return { code: error.code, exitCode };
};

/** The part of a rollback that is about build B. */
function leftB(remaining: unknown = expect.any(Number)): unknown {
  return [expect.objectContaining({ build: bundle.buildId, remaining })];
}

async function startB(): Promise<Workers> {
  const { config, engine } = world;
  const { address, namespace } = engine.server;
  const loaded = { config, baseDirectory: engine.directory, path: undefined };
  return await startWorkers({ loaded, connectionOptions: { address }, namespace, bundle, role: 'all' });
}

/** Starts a run that waits for an approval. */
async function waiting(purpose: string): Promise<RunHandle> {
  const run = await world.start([{ calls: [{ tool: 'bank/pay', arguments: { purpose } }] }, { text: 'done' }]);
  await openRequests(run);
  return run;
}

async function severalWaiting(purpose: string, count: number): Promise<readonly RunHandle[]> {
  return await Promise.all(Array.from({ length: count }, (_, index) => waiting(`${purpose}-${index}`)));
}

/** Returns the build that did the last workflow task, and whether an override names another. */
async function standing(workflowId: string) {
  const { connection, options } = world.client;
  const { workflowExecutionInfo } = await connection.workflowService.describeWorkflowExecution({
    namespace: options.namespace,
    execution: { workflowId },
  });
  const { deploymentVersion, versioningOverride } = workflowExecutionInfo?.versioningInfo ?? {};
  return { build: deploymentVersion?.buildId, overridden: Boolean(versioningOverride) };
}

/** Decides the one request of a run, and checks that its call was made once. */
async function decided(run: RunHandle, purpose: string): Promise<string | null | undefined> {
  await decideNext(run, 'ann');
  expect(await run.result()).toMatchObject({ status: 'completed', calls: 1 });
  expect(bank.callsFor(purpose)).toHaveLength(1);
  return (await standing(run.runId)).build;
}

async function openRuns(build: string): Promise<number | undefined> {
  const { builds } = await done<DeploymentStatus>('status');
  return builds.find((each) => each.build === build)?.runs;
}

/** Temporal counts runs from its lists, which follow a moment later. */
async function opensRuns(build: string, runs: number): Promise<void> {
  await until(async () => (await openRuns(build)) === runs, { what: `${runs} open runs on ${build}` });
}

test('a deployment that no worker has named is not known, nor one without a name', async () => {
  expect(await command(['deploy', 'status', '--deployment', 'nobody', '--json'])).toMatchObject({ exitCode: 4 });
  expect(await command(['deploy', 'status', '--json'])).toMatchObject({ exitCode: 2 });
});

test('workers of a deployment get no new run before one of their builds is current; promoting twice is promoting once', async () => {
  await until(async () => (await done<DeploymentStatus>('status')).builds.length === 1, { what: 'the first worker' });
  expect(await refused('promote', 'none')).toEqual({ code: 'BUILD_UNKNOWN', exitCode: 4 });
  expect(await refused('drain', A)).toEqual({ code: 'DRAIN_REFUSED', exitCode: 3 });
  const run = await world.start([{ text: 'done' }]);
  expect(await done<DeploymentStatus>('status')).toMatchObject({ builds: [{ build: A, state: 'inactive', runs: 0 }] });
  // A worker that has just begun to poll is not seen at once.
  const promoted = await until(async () => await done('promote', A), { what: 'workers of build A' });
  expect(promoted).toEqual({ deployment: NAME, changed: true, current: A });
  expect(await done('promote', A)).toEqual({ deployment: NAME, changed: false, current: A });
  expect(await run.result()).toMatchObject({ status: 'completed' });
});

test('runs begin on A until B is promoted, a ramp aside, and those that wait are decided where they began', async () => {
  const early = await waiting('early');
  onB = await startB();
  await until(async () => (await done<DeploymentStatus>('status')).builds.length === 2, { what: 'build B' });
  expect(await standing((await waiting('beside')).runId)).toEqual({ build: A, overridden: false });

  const ramped = await until(async () => await done('ramp', bundle.buildId, '--percent', '100'), {
    what: 'its workers',
  });
  expect(ramped).toMatchObject({
    changed: true,
    current: A,
    ramping: { build: bundle.buildId, percent: 100 },
  });
  expect(await done('ramp', bundle.buildId, '--percent', '100')).toMatchObject({ changed: false });
  expect(await standing((await waiting('ramped')).runId)).toMatchObject({ build: bundle.buildId });
  expect(await refused('drain', bundle.buildId)).toEqual({ code: 'DRAIN_REFUSED', exitCode: 3 });
  expect(await refused('ramp', A, '--percent', '5')).toEqual({ code: 'BUILD_CURRENT', exitCode: 5 });

  // A rollback ends the ramp, and a second one does not leave A.
  expect(await done('rollback')).toMatchObject({ changed: true, current: A, left: leftB(1) });
  expect(await done('rollback')).toMatchObject({ changed: false, current: A, left: leftB(1), isEarliest: true });
  // A promotion of the build that is current ends one, too.
  expect(await done('ramp', bundle.buildId, '--percent', '50')).toMatchObject({ changed: true });
  const ended = { build: bundle.buildId, percent: 50 };
  expect(await done('promote', A)).toEqual({ deployment: NAME, changed: true, current: A, ended });
  expect(await standing((await waiting('after')).runId)).toMatchObject({ build: A });

  expect(await done('promote', bundle.buildId)).toMatchObject({ changed: true, current: bundle.buildId });
  expect(await standing((await waiting('new')).runId)).toMatchObject({ build: bundle.buildId });
  expect(await standing(early.runId)).toEqual({ build: A, overridden: false });
  expect([A, bundle.buildId]).toContain(await decided(early, 'early'));
  await opensRuns(A, 2);
});

test('drain moves all that waits on A to B, catalogs too, by options where Temporal leaves them on A; none is lost or doubled', async () => {
  await done('rollback');
  const catalog = world.countersign.catalog('tracker');
  await connected(catalog, bank.url);
  const runs = await severalWaiting('drained', 6);
  const ticket = await world.client.workflow.start('callTicket', { workflowId: 'ticket', taskQueue: 'countersign' });
  await done('promote', bundle.buildId);

  const plain = await deploy('drain', A, '--within', '60');
  expect([0, 3]).toContain(plain.exitCode);
  if (plain.exitCode === 3) {
    expect(plain.err).toContain('--move');
    // Few went ahead in vain, and they wait as before.
    const rolled = (await Promise.all(runs.map((run) => world.client.workflow.getHandle(run.runId).describe()))).filter(
      ({ raw }) => raw.workflowExecutionInfo?.firstRunId !== raw.workflowExecutionInfo?.execution?.runId,
    );
    expect(rolled.length).toBeLessThanOrEqual(2);
    expect(await openRuns(A)).toBeGreaterThan(0);
    const moved = await done<Drained>('drain', A, '--move', '--batch', '3');
    expect(moved).toMatchObject({ left: 0, kept: [] });
    expect(moved.asked).toBeGreaterThanOrEqual(runs.length);
  }
  await opensRuns(A, 0);
  expect(await done('drain', A)).toMatchObject({ asked: 0, left: 0 });
  for (const [index, run] of runs.entries()) {
    expect(await standing(run.runId)).toEqual({ build: bundle.buildId, overridden: false });
    expect(await decided(run, `drained-${index}`)).toBe(bundle.buildId);
  }
  expect(await catalog.snapshot()).toMatchObject({ status: 'connected' });
  // A ticket belongs to no build, and ends where it is told to.
  await ticket.signal('delivered');
  await ticket.result();
  expect(await standing('ticket')).toMatchObject({ build: bundle.buildId });
}, 240_000);

test('a run in the middle of a call moves too, and so do runs whose build has no worker any more; each call is made once', async () => {
  const run = await world.start([{ calls: [{ tool: 'bank/slow', arguments: { purpose: 'busy' } }] }, { text: 'done' }]);
  await bank.held('busy');
  expect(await done('rollback')).toMatchObject({ changed: true, current: A, left: leftB() });
  expect(await done('rollback')).toMatchObject({ changed: false, current: A, left: leftB(), isEarliest: true });
  const drained = await done<Drained>('drain', bundle.buildId, '--move', '--replayed');
  expect(drained).toMatchObject({ left: 0, kept: [] });
  expect(await standing(run.runId)).toMatchObject({ build: A });
  bank.release('busy');
  expect(await run.result()).toMatchObject({ status: 'completed', calls: 1 });
  expect(bank.callsFor('busy')).toHaveLength(1);

  await done('promote', bundle.buildId);
  const stopped = await waiting('stopped');
  await done('rollback');
  await onB?.stop();
  onB = undefined;
  expect(await done('drain', bundle.buildId, '--move', '--replayed')).toMatchObject({ left: 0 });
  expect(await decided(stopped, 'stopped')).toBe(A);
}, 120_000);

test('a move that nobody took up is withdrawn as the drain ends: the run stays where it was, and goes on there after a rollback', async () => {
  onB = await startB();
  const run = await waiting('withdrawn');
  await done('promote', bundle.buildId);
  await onB.stop();
  onB = undefined;
  // This code is B's, which replays the run; but no worker of B takes it.
  expect((await deploy('drain', A, '--move', '--within', '1')).exitCode).toBe(6);
  expect(await standing(run.runId)).toEqual({ build: A, overridden: false });
  expect(await done('rollback')).toMatchObject({ changed: true, current: A, left: leftB() });
  expect(await standing(run.runId)).toMatchObject({ overridden: false });
  expect(await decided(run, 'withdrawn')).toBe(A);
}, 120_000);

test('a command of other code replays nothing for the current build', async () => {
  onB = await startB();
  const run = await world.start([{ calls: [{ tool: 'bank/pay', arguments: { purpose: 'other' } }] }, { text: 'done' }]);
  await openRequests(run);
  await done('promote', bundle.buildId);
  const late = await waiting('late');
  await done('rollback');
  expect(await refused('drain', bundle.buildId, '--move')).toEqual({ code: 'DRAIN_REFUSED', exitCode: 3 });
  await decided(run, 'other');
  await decided(late, 'late');
}, 120_000);

test('two who change a deployment at once do not undo each other, and a build that serves other queues gets no runs', async () => {
  const deployment = new Deployment({ client: world.client, name: NAME });
  let percent = 0;
  // Two that happen to come one after the other both count.
  const ends = await until(
    async () => {
      const both = [1, 2].map(async () => await deployment.ramp(bundle.buildId, (percent += 1)));
      const found = await Promise.all(both.map(async (each) => await codeOf(each).catch(() => 'done')));
      return found.includes('done') && new Set(found).size === 2 ? found : undefined;
    },
    { what: 'two changes at one moment' },
  );
  expect(ends.toSorted()).toEqual(['DEPLOYMENT_CHANGED', 'done']);
  await done('ramp', bundle.buildId, '--percent', '0');

  const elsewhere = await startOwnWorker(world.engine.server.address, {
    namespace: world.engine.server.namespace,
    taskQueue: 'elsewhere',
    workflowBundle: { code: bundle.code },
    workerDeploymentOptions: {
      version: { deploymentName: NAME, buildId: 'build-c' },
      useWorkerVersioning: true,
      defaultVersioningBehavior: 'PINNED',
    },
  });
  await until(async () => (await done<DeploymentStatus>('status')).builds.length === 3, { what: 'build C' });
  expect(await refused('promote', 'build-c')).toEqual({ code: 'BUILD_UNSERVED', exitCode: 6 });
  await elsewhere.stop();
}, 60_000);

test('40 runs move in batches of 8: never are more between two builds, each moves, and those that are decided are decided once', async () => {
  onB ??= await startB();
  await until(async () => await done('promote', A), { what: 'build A' });
  const runs: RunHandle[] = [];
  for (let batch = 0; batch < 2; batch += 1) runs.push(...(await severalWaiting(`many-${batch}`, 20)));
  await until(async () => await done('promote', bundle.buildId), { what: 'build B' });

  const { workflowService } = world.client.connection;
  const update = workflowService.updateWorkflowExecutionOptions.bind(workflowService);
  const between = new Set<string>();
  let most = 0;
  const watched = jest.spyOn(workflowService, 'updateWorkflowExecutionOptions');
  watched.mockImplementation(async (request) => {
    const answer = await update(request);
    const { workflowExecution: execution, workflowExecutionOptions: options } = request;
    if (!options?.versioningOverride) return answer;
    between.add(execution?.workflowId ?? '');
    for (const workflowId of between) if (!(await standing(workflowId)).overridden) between.delete(workflowId);
    most = Math.max(most, between.size);
    return answer;
  });
  const deployment = new Deployment({ client: world.client, name: NAME });
  const mayMove = async () => await Promise.resolve(undefined);
  const drained = await deployment.drain(A, { batch: 8, mayMove, withinMs: 60_000 });
  watched.mockRestore();
  expect(drained).toMatchObject({ left: 0, kept: [] });
  expect(drained.asked).toBeGreaterThanOrEqual(runs.length);
  expect(most).toBeLessThanOrEqual(8);
  // Else nothing was shown.
  expect(most).toBeGreaterThan(1);
  await opensRuns(A, 0);
  for (const [index, run] of runs.entries()) {
    if (index % 20 === 0) expect(await decided(run, `many-${index / 20}-0`)).toBe(bundle.buildId);
  }
}, 180_000);

test('runs of workers without versions move to the build that is promoted, and stay with it', async () => {
  const { engine } = world;
  const plain = await startWorld({ engine, config: { taskQueue: 'plain', servers: world.config.servers }, bundle });
  const run = await plain.start(
    [{ calls: [{ tool: 'bank/pay', arguments: { purpose: 'plain' } }] }, { text: 'done' }],
    {
      servers: [{ name: 'bank' }],
    },
  );
  await openRequests(run);
  const config = { ...plain.config, worker: { ...plain.config.worker, deployment: { name: 'later' } } };
  const { address, namespace } = engine.server;
  const loaded = { config, baseDirectory: engine.directory, path: undefined };
  const versioned = await startWorkers({ loaded, connectionOptions: { address }, namespace, bundle, role: 'all' });
  const later = new Deployment({ client: world.client, name: 'later' });
  await until(async () => await later.promote(bundle.buildId), { what: 'the first build of a deployment' });
  await plain.workers.stop();
  expect(await decided(run, 'plain')).toBe(bundle.buildId);
  plain.workers = versioned;
  await plain.stop();
}, 60_000);
