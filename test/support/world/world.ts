/**
 * Starts a service with real parts only: workers in this process on a Temporal dev server, and the client
 * library. Models are scripts; the test starts the tool servers.
 */
import { join } from 'node:path';
import type { Client } from '@temporalio/client';
import { createDirectoryStore } from '../../../activities/artifacts/directory.ts';
import type { ArtifactStore } from '../../../activities/artifacts/port.ts';
import { Countersign, type CountersignOptions, type RunHandle, type StartRunOptions } from '../../../client/index.ts';
import { defined } from '../../../contracts/defined.ts';
import { Config, type ConfigInput } from '../../../contracts/schemas/config.ts';
import type { ApprovalRequest } from '../../../contracts/schemas/request.ts';
import type { RunSpecInput } from '../../../contracts/schemas/run-spec.ts';
import { Script } from '../../../contracts/schemas/script.ts';
import { bundleWorkflows, type WorkflowBundle } from '../../../workers/bundle.ts';
import { createDataConverter } from '../../../workers/codec.ts';
import type { WorkerRole } from '../../../workers/config/load.ts';
import { startWorkers, type Workers } from '../../../workers/worker.ts';
import { LOOPBACK } from '../egress.ts';
import { startEngine, type TestEngine } from '../engine.ts';
import { keepThreads } from '../kept-threads.ts';
import { bundleTraced, sharedBundle } from '../shared-bundle.ts';
import { keepZoneKey, type ZoneKey } from '../signing/keys.ts';
import { type TestKey, withZone, writeTrust } from '../signing/people.ts';
import { until } from '../until.ts';
import { during } from './during.ts';
import { replayAtEnd } from './run-record.ts';

type Steps = readonly (typeof Script)['_zod']['input']['steps'][number][];

export interface World {
  readonly engine: TestEngine;
  readonly client: Client;
  readonly countersign: Countersign;
  readonly config: Config;
  readonly bundle: WorkflowBundle;
  readonly artifacts: ArtifactStore;
  /** Ids of all runs started with `start`. */
  readonly runs: readonly string[];
  workers: Workers;
  restartWorkers(): Promise<void>;
  /** Makes a spec whose model follows these steps. */
  spec(steps: Steps, over?: Partial<RunSpecInput>): RunSpecInput;
  /** Starts a run whose model follows these steps. */
  start(steps: Steps, over?: Partial<StartRunOptions['spec']>, options?: Partial<StartRunOptions>): Promise<RunHandle>;
  /** Makes a client with this deadline. */
  hurried(deadlineMs: number): Countersign;
  readonly replaysAtEnd: true;
  /**
   * Replays what was not replayed before, and stops.
   * @throws if there was never anything to replay (INV-D1)
   */
  stop(): Promise<void>;
}

export interface WorldOptions {
  readonly config: ConfigInput;
  readonly client?: Partial<CountersignOptions>;
  /** A server shared with another world of the file, which stops it. */
  readonly engine?: TestEngine;
  readonly bundle?: WorkflowBundle;
  readonly role?: WorkerRole;
  /** Path of the configuration file whose policy the workers follow. */
  readonly path?: string;
  /** Key to which grants are sealed: workers have its private half. */
  readonly zone?: ZoneKey;
  /** Trust mode `signed`: the keys that are trusted until the test writes others. */
  readonly trusted?: readonly TestKey[];
  /** Servers that end with the world. */
  readonly beside?: readonly { close(): Promise<unknown> }[];
}

keepThreads();

let started = 0;

export async function startWorld(options: WorldOptions): Promise<World> {
  const engine = options.engine ?? (await startEngine());
  const { zone, trusted, beside = [] } = options;
  const grants = zone && (await keepZoneKey(engine.directory, zone)).grants;
  const trust = trusted && ({ mode: 'signed', jwks: 'trust.jwks' } as const);
  if (trusted !== undefined) await writeTrust(join(engine.directory, 'trust.jwks'), ...trusted);
  const config = Config.parse({
    ...withZone({ ...defined({ grants, trust }), ...options.config }),
    egress: { ...LOOPBACK, ...options.config.egress },
    worker: { shutdownGraceSeconds: 1, ...options.config.worker },
  });
  const loaded = { config, baseDirectory: engine.directory, path: options.path };
  const isTraced = (options.config?.tracing ?? 'off') !== 'off';
  const bundle = options.bundle ?? (await sharedBundle(isTraced ? bundleTraced : bundleWorkflows));
  const { address, namespace } = engine.server;
  const launch = () =>
    startWorkers({ loaded, connectionOptions: { address }, namespace, bundle, role: options.role ?? 'all' });
  const client = await engine.connect(createDataConverter(config));
  const artifacts = createDirectoryStore(join(engine.directory, config.artifacts.directory));
  const countersign = new Countersign({ client, artifacts, taskQueue: config.taskQueue, ...options.client });
  const runs: string[] = [];
  const world: World = {
    engine,
    client,
    config,
    bundle,
    artifacts,
    runs,
    countersign,
    workers: await launch(),
    restartWorkers: async () => {
      await world.workers.stop();
      world.workers = await launch();
    },
    spec: (steps, over = {}) => {
      const model = `script-${(started += 1)}`;
      // The script is read for every run, so that a test may bring its own.
      config.models[model] = { provider: 'scripted', script: Script.parse({ steps }) };
      const servers = Object.keys(config.servers).map((name) => ({ name }));
      return { agent: { name: 'clerk', model }, input: 'Do it.', initiator: { id: 'ann' }, servers, ...over };
    },
    start: async (steps, { servers, ...over } = {}, given = {}) => {
      const spec = { ...world.spec(steps, over), ...defined({ servers }) };
      const runId = given.runId ?? `run-${started}`;
      runs.push(runId);
      return await countersign.startRun({ taskQueue: config.taskQueue, ...given, runId, spec });
    },
    hurried: (deadlineMs) =>
      new Countersign({ client, artifacts, taskQueue: config.taskQueue, ...options.client, deadlineMs }),
    replaysAtEnd: true,
    stop: async () => {
      try {
        await world.workers.stop();
        await replayAtEnd(world);
      } finally {
        if (options.engine === undefined) await engine.stop();
        await Promise.all(beside.map((server) => server.close()));
      }
    },
  };
  return world;
}

/**
 * Has a world during the tests of a file or group.
 * @param options a function, where they name what is made before it
 */
export function useWorld(
  options: WorldOptions | (() => WorldOptions | Promise<WorldOptions>),
  withinMs?: number,
): World {
  const start = async () => await startWorld(typeof options === 'function' ? await options() : options);
  return during(start, withinMs);
}

/** Has a server during the tests of a file or group, for several worlds. */
export function useEngine(options?: Parameters<typeof startEngine>[0]): TestEngine {
  return during(() => startEngine(options));
}

/** At least so many. */
type Several<Count extends number, T, Found extends readonly T[] = readonly []> = number extends Count
  ? readonly T[]
  : Found['length'] extends Count
    ? readonly [...Found, ...T[]]
    : Several<Count, T, readonly [...Found, T]>;

/** Waits until this many requests of a run are open, and returns all that are. */
export async function openRequests<Count extends number = 1>(
  run: RunHandle,
  count?: Count,
): Promise<Several<Count, ApprovalRequest>> {
  const wanted = count ?? 1;
  const open = await until(
    async () => {
      const found = (await run.requests()).filter(({ status }) => status === 'open');
      return found.length >= wanted && found;
    },
    { what: `${wanted} open requests of ${run.runId}` },
  );
  // Sound: they have been counted.
  return open as readonly ApprovalRequest[] as Several<Count, ApprovalRequest>;
}

/** Waits until a run has such a request, open or not. */
export async function requestThat(
  run: RunHandle,
  fits: (request: ApprovalRequest) => boolean,
  what: string,
  withinMs?: number,
): Promise<ApprovalRequest> {
  const options = { what: `${what} of ${run.runId}`, ...defined({ withinMs }) };
  return await until(async () => (await run.requests()).find(fits), options);
}

/** Waits until a request is open in another execution than this one's. */
export async function requestAfter(run: RunHandle, earlier: Pick<ApprovalRequest, 'runId'>): Promise<ApprovalRequest> {
  return await requestThat(
    run,
    ({ runId, status }) => runId !== earlier.runId && status === 'open',
    'a request in the next execution',
  );
}

/** Waits until a request is open, decides it, and returns it. */
export async function decideNext(
  run: RunHandle,
  approver: string,
  kind: 'approve' | 'reject' = 'approve',
): Promise<ApprovalRequest> {
  const [request] = await openRequests(run);
  await run.decide(decisionOn(request, approver, kind));
  return request;
}

/** Nudges a run or a catalog, and waits until it has continued as new. */
export async function rolled({ client }: Pick<World, 'client'>, workflowId: string): Promise<void> {
  const handle = client.workflow.getHandle(workflowId);
  const { runId } = await handle.describe();
  await handle.signal('nudge');
  await until(async () => (await handle.describe()).runId !== runId, { what: `the next execution of ${workflowId}` });
}

/** Temporal has an admitted update; a worker has taken an accepted one. */
const STAGES = ['unspecified', 'admitted', 'accepted', 'completed'] as const;

/** Says how far Temporal is with an update (temporal.api.enums.v1.UpdateWorkflowExecutionLifecycleStage). */
export async function updateStage(
  { connection, options }: Client,
  workflowId: string,
  updateId: string,
): Promise<(typeof STAGES)[number] | undefined> {
  const { stage } = await connection.workflowService.pollWorkflowExecutionUpdate({
    namespace: options.namespace,
    updateRef: { workflowExecution: { workflowId }, updateId },
  });
  return STAGES[stage];
}

/** Waits until a call has been asked, and returns its request, whatever became of it since. */
export async function requestFor(run: RunHandle, callId: string): Promise<ApprovalRequest> {
  return await requestThat(run, (request) => request.callId === callId, `a request for ${callId}`);
}

let answers = 0;

/** Makes a person's answer to a request, under a decision id of its own. */
export function answerOf<Said extends object>(request: ApprovalRequest, approver: string, said: Said) {
  answers += 1;
  const { callId, digest, runId } = request;
  const decisionId = `answer-${process.pid}-${answers}`;
  return { decisionId, callId, digest, runId, approver: { id: approver, groups: [] }, ...said };
}

/** Makes a decision on a request, as its approver would. */
export function decisionOn(request: ApprovalRequest, approver: string, kind: 'approve' | 'reject' = 'approve') {
  return kind === 'approve'
    ? answerOf(request, approver, { kind })
    : answerOf(request, approver, { kind, reason: 'not now' });
}
