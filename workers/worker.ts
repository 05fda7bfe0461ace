/**
 * Starts the workers of one process, by role, and runs them as one group that starts and ends together.
 *
 * 1. A worker starts only if the namespace is set up, so that no run fails on its first upsert.
 * 2. Memory bounds the cached runs and the work done at once (`memory.ts`).
 * 3. If one worker fails, the others are shut down, so that calls under way on them get their grace time. The first
 *    failure is the one that is reported. Connections are closed after the last worker: one in use does not close, and
 *    its complaint would hide the reason.
 * 4. What else may fail at the start comes before the first worker is made: the SDK takes back only workers that have
 *    run, so one that is made and never runs keeps its thread, and the process alive.
 */
import { type Client, Client as TemporalClient, type Connection } from '@temporalio/client';
import {
  NativeConnection,
  type NativeConnectionOptions,
  Runtime,
  Worker,
  type WorkerOptions,
} from '@temporalio/worker';
import { defined } from '../contracts/defined.ts';
import { CountersignError } from '../contracts/errors.ts';
import type { Config } from '../contracts/schemas/config.ts';
import { isFields } from '../domain/shapes/inputs.ts';
import { keepDiary, type Log, nameSubject } from './log.ts';
import { assertMadeHere, ownBundle, withStackTraces, type WorkflowBundle } from './bundle.ts';
import { createDataConverter, createWorkerDataConverter } from './codec.ts';
import { failingWhereLost } from '../activities/gate/call-tool.ts';
import { openArtifacts, openTrust, runSideActivities, toolSideActivities } from './composition.ts';
import { followPolicyFile, type Told, withLivePolicy } from './config/live-policy.ts';
import { type LoadedConfig, queuesOf, type WorkerRole } from './config/load.ts';
import { zoneKeysOf } from './config/secrets.ts';
import { askingAgain, connectClient, countRefused, type EngineWait, onceThere } from './connection.ts';
import { startHealth } from './health.ts';
import { queueOptions, tellPayloads } from './metrics.ts';
import { limitHeap, memoryOf, type Sizes, sizesFor } from './memory.ts';
import { assertSetUp, identityOf, packageVersion } from './setup.ts';
import { replaceThreads } from './workflow-threads.ts';
import { createZoneInterceptor, ZoneCodec } from './zone.ts';

export interface WorkersOptions {
  readonly loaded: LoadedConfig;
  /** Options of `NativeConnection.connect`, for instance from `@temporalio/envconfig`. */
  readonly connectionOptions: NativeConnectionOptions;
  readonly namespace: string;
  readonly role?: WorkerRole;
  /** Made by `bundleWorkflows`. If absent and needed, it is that of `ownBundle`. */
  readonly bundle?: WorkflowBundle;
  /** The worker's name in Temporal; default is process id and host name. */
  readonly identity?: string;
  /** Waits for Temporal if it does not answer yet; without this option a failure is reported at once. */
  readonly wait?: EngineWait;
  readonly log?: Log | undefined;
}

export interface Workers {
  /** Settles when every worker has stopped; rejects when one fails, after the others have stopped too. */
  readonly stopped: Promise<void>;
  readonly taskQueues: readonly string[];
  /** Build id of the workflow bundle, which role `tools` does without. */
  readonly buildId: string | undefined;
  stop(why?: string): Promise<void>;
}

/** @throws CountersignError `USAGE` without a configuration or a connection, … */
export async function startWorkers(asked: WorkersOptions): Promise<Workers> {
  assertGiven(asked);
  const { loaded, connectionOptions, namespace, role = 'all', wait, log } = asked;
  const taskQueues = queuesOf(loaded.config, role);
  assertZone(loaded.config);
  const connections: Closable[] = [];
  try {
    const { connection, clientConnection } = await onceThere(
      wait,
      async (mostMs) => await connected(connectionOptions, namespace, mostMs),
    );
    connections.push(connection, clientConnection);
    const { bundle, origin } = await bundleFor(role, asked.bundle, loaded.config.tracing);
    const memory = memoryOf(loaded.config.worker);
    const sizes = sizesFor(memory, loaded.config.worker, taskQueues.length);
    if (bundle !== undefined) limitHeap(sizes.workflowHeapMiB);
    const named = defined({ identity: asked.identity });
    const client = new TemporalClient({
      connection: clientConnection,
      namespace,
      ...named,
      dataConverter: createDataConverter(loaded.config),
      interceptors: { workflow: [askingAgain()] },
    });
    const base = { ...(await commonOptions(loaded.config, sizes)), ...named, connection, namespace };
    const options = await optionsByQueue(
      followPolicy(loaded, connections, Runtime.instance().logger),
      role,
      taskQueues,
      bundle,
      client,
      sizes,
      connections,
    );
    replaceThreads();
    let workers: readonly Worker[] = [];
    const health = await startHealth(loaded, role, () => workers.length > 0 && workers.every(isRunning));
    if (health !== undefined) connections.push(health);
    workers = await Promise.all(options.map((own) => Worker.create({ ...base, ...own })));
    const address = connectionOptions.address ?? 'localhost:7233';
    const build = { buildId: bundle?.buildId, bundle: origin, version: packageVersion() };
    const memoryMiB = Math.round(memory / 1_048_576);
    const diary = keepDiary(log, { role, taskQueues, namespace, address, ...build, memoryMiB, ...sizes });
    const stopped = diary.followed(runCrew(workers, connections));
    const stop = async (why = 'asked to stop'): Promise<void> => {
      diary.stops(why);
      shutDown(workers);
      await stopped;
    };
    return { stopped, taskQueues, buildId: bundle?.buildId, stop };
  } catch (error) {
    await closeAll(connections);
    throw error;
  }
}

/** A caller without types may give nothing. */
function assertGiven(asked: unknown): void {
  const { loaded, connectionOptions, namespace } = isFields(asked) ? asked : {};
  const isThere = {
    loaded: isFields(loaded) && isFields(loaded['config']),
    connectionOptions: isFields(connectionOptions),
    namespace: typeof namespace === 'string',
  };
  const missing = Object.entries(isThere).find(([, is]) => !is)?.[0];
  if (missing === undefined) return;
  const message = `${missing} is missing. Give all three: startWorkers({ loaded: await loadConfig(), ...locateEngine() }).`;
  throw new CountersignError('USAGE', message, { path: missing });
}

/** Only the run's queue carries workflows. */
async function bundleFor(
  role: WorkerRole,
  given: WorkflowBundle | undefined,
  tracing: Config['tracing'],
): Promise<{ readonly bundle?: WorkflowBundle; readonly origin?: string }> {
  if (role === 'tools') return {};
  if (given !== undefined) {
    assertMadeHere(given);
    return { bundle: given, origin: 'given' };
  }
  const { origin, ...bundle } = await ownBundle(tracing);
  return { bundle, origin };
}

const CONNECT_MS = 10_000;

/** Connects to a service that answers, with a namespace that is set up. */
async function connected(
  options: NativeConnectionOptions,
  namespace: string,
  mostMs = CONNECT_MS,
): Promise<{ readonly connection: NativeConnection; readonly clientConnection: Connection }> {
  // The client connects first: its errors have codes.
  const clientConnection = await connectClient({ ...options, connectTimeout: mostMs });
  try {
    const asked = async (): Promise<void> => await assertSetUp(clientConnection, namespace, options.address);
    await clientConnection.withDeadline(Date.now() + mostMs, asked);
    return { connection: await NativeConnection.connect(options), clientConnection };
  } catch (error) {
    await closeAll([clientConnection]);
    throw error;
  }
}

/** Follows the policy of the file, as it is at each call; without a file the given policy stays. */
export function followPolicy(loaded: LoadedConfig, closed: Closable[], told: Told): LoadedConfig {
  const { config, path, environment = process.env } = loaded;
  if (path === undefined) return loaded;
  const live = followPolicyFile({ config, path }, environment, told);
  closed.push({ close: async () => live.stop() });
  return withLivePolicy(loaded, live);
}

async function optionsByQueue(
  loaded: LoadedConfig,
  role: WorkerRole,
  taskQueues: readonly string[],
  bundle: WorkflowBundle | undefined,
  client: Client,
  { maxConcurrentActivities }: Sizes,
  closed: Closable[],
): Promise<WorkerOptions[]> {
  const { connection, options } = client;
  const artifacts = await openArtifacts(loaded, async () => await identityOf(connection, options.namespace));
  const signing = await openTrust(loaded, artifacts, client);
  const toolSide = role === 'runs' ? undefined : await toolSideActivities(loaded, artifacts, client, signing, closed);
  // A worker of both roles makes calls between model steps; one of role `runs` has nothing to make them with.
  const runSide = role === 'tools' ? undefined : await runSideActivities(loaded, artifacts, client, signing, toolSide);
  // A stretch goes on after a lost answer and records it, so only activities of one call fail.
  const tools = toolSide && {
    ...toolSide,
    callTool: failingWhereLost(toolSide.callTool),
    resumeCall: failingWhereLost(toolSide.resumeCall),
  };
  const proof = signing === undefined ? [] : [createZoneInterceptor(signing)];
  const tracing = loaded.config.tracing === 'off' ? [] : [(await import('./tracing.ts')).traced];
  const around = { interceptors: { activity: [...tracing, nameSubject(), ...proof] } };
  // Servers without a queue of their own are called from the run's queue, by the worker that serves both sides.
  return taskQueues.map((taskQueue) => {
    if (bundle === undefined || taskQueue !== loaded.config.taskQueue) {
      const limits = queueOptions(loaded.config, taskQueue, maxConcurrentActivities);
      return { taskQueue, activities: { ...tools }, ...limits, ...around };
    }
    const code = loaded.config.worker.stackTraces ? withStackTraces(bundle.code) : bundle.code;
    const activities = { ...runSide, ...tools };
    return { taskQueue, workflowBundle: { code }, ...buildOf(loaded.config, bundle), activities, ...around };
  });
}

/**
 * The build id is recorded in histories, which say who did a task (`workers/replay/diagnosis.ts`). Only with the name
 * of a deployment do runs stay with their build (docs/adr/0083). Queues of servers have no versions: what calls a tool
 * for a run need not be of its build.
 */
function buildOf({ worker: { deployment } }: Config, { buildId }: WorkflowBundle): Partial<WorkerOptions> {
  if (deployment === undefined) return { buildId };
  const version = { deploymentName: deployment.name, buildId };
  return { workerDeploymentOptions: { version, useWorkerVersioning: true, defaultVersioningBehavior: 'PINNED' } };
}

/** Refuses a worker without zone keys: nothing it writes would be believed (docs/adr/0047). */
function assertZone({ trust }: Config): void {
  if (trust.mode !== 'signed' || trust.zone.keys.length > 0) return;
  const message =
    'Workers in trust mode signed prove what they write by trust.zone.keys, which names no key. Make one (countersign keys zone new), and give the same keys to all workers and to nobody else.';
  throw new CountersignError('CONFIG_INVALID', message, { path: 'trust.zone.keys' });
}

export async function commonOptions(config: Config, sizes: Sizes): Promise<Partial<WorkerOptions>> {
  const { worker } = config;
  const tell = tellPayloads(Runtime.instance());
  return {
    dataConverter: createWorkerDataConverter(config, new ZoneCodec(zoneKeysOf(config), tell), tell),
    // Without it the interceptors of the bundle make no spans, and activities have none.
    plugins: config.tracing === 'off' ? [] : [(await import('./tracing.ts')).createTracing(config.tracing)],
    sinks: countRefused(Runtime.instance()),
    maxCachedWorkflows: sizes.maxCachedWorkflows,
    maxConcurrentWorkflowTaskExecutions: sizes.maxConcurrentWorkflowTaskExecutions,
    maxConcurrentActivityTaskExecutions: sizes.maxConcurrentActivities,
    shutdownGraceTime: worker.shutdownGraceSeconds * 1_000,
    shutdownForceTime: (worker.shutdownGraceSeconds + 15) * 1_000,
    // Short, so that the first decision after a worker's death does not wait ten seconds for it.
    stickyQueueScheduleToStartTimeout: worker.stickyQueueTimeoutMs,
    // A heartbeat is sent at most this often; if this worker is lost, another one knows of a call only what the last
    // heartbeat said.
    maxHeartbeatThrottleInterval: '1s',
    defaultHeartbeatThrottleInterval: '1s',
  };
}

const ending = new WeakSet<object>();

type Member = Pick<Worker, 'run' | 'shutdown' | 'getState'>;

interface Closable {
  close(): Promise<void>;
}

export async function runCrew(workers: readonly Member[], connections: readonly Closable[]): Promise<void> {
  const running = workers.map(runToEnd);
  try {
    await Promise.all(running);
  } catch (error) {
    shutDown(workers);
    throw error;
  } finally {
    await Promise.allSettled(running);
    await closeAll(connections);
  }
}

function isRunning(worker: Member): boolean {
  return worker.getState() === 'RUNNING';
}

export function shutDown(workers: readonly Member[]): void {
  for (const worker of workers) {
    if (!isRunning(worker)) continue;
    ending.add(worker);
    worker.shutdown();
  }
}

/** Never fails: the caller has an answer or an error that says more. */
async function closeAll(connections: readonly Closable[]): Promise<void> {
  await Promise.allSettled(connections.map((connection) => connection.close()));
}

async function runToEnd(worker: Member): Promise<void> {
  try {
    await worker.run();
  } catch (error) {
    // The SDK hands its native worker back while a last poll still holds it (seen with 1.23.0, at shutdown only). All
    // tasks are done by then, or given up after their grace time, so an ending process must not report this as a
    // failure. A worker that failed of itself is another matter.
    const isLateHandBack =
      error instanceof Error && error.name === 'IllegalStateError' && /still in use/.test(error.message);
    if (!isLateHandBack || (worker.getState() === 'FAILED' && !ending.has(worker))) throw error;
  }
}
