/**
 * Starts a service with real parts only: workers in this process on a Temporal dev server, and the client
 * library. Models are scripts; the test starts the tool servers.
 */
import { join } from 'node:path';
import type { Client } from '@temporalio/client';
import { createDirectoryStore } from '../../../activities/artifacts/directory.ts';
import type { ArtifactStore } from '../../../activities/artifacts/port.ts';
import { Countersign, type CountersignOptions, type RunHandle, type StartRunOptions } from '../../../client/index.ts';
import { Config, type ConfigInput } from '../../../contracts/schemas/config.ts';
import type { ApprovalRequest } from '../../../contracts/schemas/request.ts';
import type { RunSpecInput } from '../../../contracts/schemas/run-spec.ts';
import { Script } from '../../../contracts/schemas/script.ts';
import type { WorkflowBundle } from '../../../workers/bundle.ts';
import { createDataConverter } from '../../../workers/codec.ts';
import type { WorkerRole } from '../../../workers/config/load.ts';
import { startWorkers, type Workers } from '../../../workers/worker.ts';
import { LOOPBACK } from '../egress.ts';
import { startEngine, type TestEngine } from '../engine.ts';
import { sharedBundle } from '../shared-bundle.ts';
import { withZone } from '../signing/people.ts';
import { until } from '../until.ts';
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
  start(steps: Steps, over?: Partial<RunSpecInput>, options?: Partial<StartRunOptions>): Promise<RunHandle>;
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
}

let started = 0;

export async function startWorld(options: WorldOptions): Promise<World> {
  const engine = options.engine ?? (await startEngine());
  const config = Config.parse({
    ...withZone(options.config),
    egress: { ...LOOPBACK, ...options.config.egress },
    worker: { shutdownGraceSeconds: 1, ...options.config.worker },
  });
  const loaded = { config, baseDirectory: engine.directory, path: options.path };
  const bundle = options.bundle ?? (await sharedBundle());
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
    start: async (steps, over, given = {}) => {
      const spec = world.spec(steps, over);
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
      }
    },
  };
  return world;
}

/** Waits until this many requests of a run are open, and returns them. */
export async function openRequests(run: RunHandle, count = 1): Promise<readonly ApprovalRequest[]> {
  return await until(
    async () => {
      const open = (await run.requests()).filter(({ status }) => status === 'open');
      return open.length >= count ? open : undefined;
    },
    { what: `${count} open requests of ${run.runId}` },
  );
}

/** Waits until a call has been asked, and returns its request, whatever became of it since. */
export async function requestFor(run: RunHandle, callId: string): Promise<ApprovalRequest> {
  return await until(async () => (await run.requests()).find((request) => request.callId === callId), {
    what: `a request for ${callId} of ${run.runId}`,
  });
}

let decisions = 0;

/** Makes a decision on a request, as its approver would. */
export function decisionOn(request: ApprovalRequest, approver: string, kind: 'approve' | 'reject' = 'approve') {
  decisions += 1;
  const base = {
    decisionId: `decision-${process.pid}-${decisions}`,
    callId: request.callId,
    digest: request.digest,
    runId: request.runId,
    approver: { id: approver, groups: [] },
  };
  return kind === 'approve' ? { kind, ...base } : { kind, ...base, reason: 'not now' };
}
