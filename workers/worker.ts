/**
 * Workers of one process, by role.
 *
 * 1. A worker starts only where the namespace is set up, so that no run fails on its first upsert.
 * 2. Cached runs and what is done at once are bounded by memory (`memory.ts`); the sticky timeout is short, so that the first decision after a worker's
 *    death does not wait ten seconds for it.
 */
import { type Client, Client as TemporalClient } from '@temporalio/client';
import {
  NativeConnection,
  type NativeConnectionOptions,
  Runtime,
  Worker,
  type WorkerOptions,
} from '@temporalio/worker';
import type { Config } from '../contracts/schemas/config.ts';
import { nameSubject } from './activity-log.ts';
import { readBuiltBundle } from './built-bundle.ts';
import { bundleWorkflows, type WorkflowBundle } from './bundle.ts';
import { connectClient } from './client-connection.ts';
import { createDataConverter } from './codec.ts';
import { openArtifacts, runSideActivities, toolSideActivities } from './composition.ts';
import type { LoadedConfig } from './config.ts';
import { closeAll, runCrew, shutDown } from './crew.ts';
import { startHealth } from './health.ts';
import { LivePolicy, withLivePolicy } from './live-policy.ts';
import type { Log } from './log.ts';
import { limitHeap, memoryOf, type Sizes, sizesFor } from './memory.ts';
import { queuesOf, type WorkerRole } from './role.ts';
import { queueOptions } from './server-limits.ts';
import { assertSetUp, identityOf } from './setup.ts';
import { openTrust } from './trust.ts';
import { createTracing } from './tracing.ts';
import { packageVersion } from './version.ts';
import { Diary } from './worker-diary.ts';

export interface WorkersOptions {
  readonly loaded: LoadedConfig;
  /** As `NativeConnection.connect` takes them, for instance from `@temporalio/envconfig`. */
  readonly connectionOptions: NativeConnectionOptions;
  readonly namespace: string;
  readonly role?: WorkerRole;
  /** Where absent and needed, that of `npm run build`, or made. */
  readonly bundle?: WorkflowBundle;
  /** What Temporal records as the worker's name; default is process id and host name. */
  readonly identity?: string;
  /** Is told of start and stop. */
  readonly log?: Log | undefined;
}

export interface Workers {
  /** Settles when every worker has stopped; rejects when one fails, after the others have stopped too. */
  readonly stopped: Promise<void>;
  /** Those that are polled. */
  readonly taskQueues: readonly string[];
  /** Of the workflow bundle, which role `tools` does without. */
  readonly buildId: string | undefined;
  /** @param why stands in the log */
  stop(why?: string): Promise<void>;
}

export async function startWorkers({
  loaded,
  connectionOptions,
  namespace,
  role = 'all',
  bundle: given,
  identity,
  log,
}: WorkersOptions): Promise<Workers> {
  const taskQueues = queuesOf(loaded.config, role);
  const connections: { close(): Promise<void> }[] = [];
  try {
    const connection = await NativeConnection.connect(connectionOptions);
    connections.push(connection);
    const clientConnection = await connectClient(connectionOptions);
    connections.push(clientConnection);
    await assertSetUp(clientConnection, namespace);
    const dataConverter = createDataConverter(loaded.config);
    // Only the run's queue carries workflows.
    const built = role === 'tools' || given !== undefined ? undefined : await readBuiltBundle();
    const bundle = role === 'tools' ? undefined : (given ?? built ?? (await bundleWorkflows()));
    const named = identity === undefined ? {} : { identity };
    const memory = memoryOf(loaded.config.worker);
    const sizes = sizesFor(memory, loaded.config.worker, taskQueues.length);
    if (bundle !== undefined) limitHeap(sizes.workflowHeapMiB);
    const base = {
      ...commonOptions(loaded.config, sizes),
      ...named,
      connection,
      namespace,
      dataConverter,
      plugins: [createTracing(loaded.config.tracing)],
      interceptors: { activity: [nameSubject()] },
    };
    const client = new TemporalClient({ connection: clientConnection, namespace, dataConverter });
    const options = await optionsByQueue(followed(loaded, connections), role, taskQueues, bundle, client, sizes);
    const workers = await Promise.all(options.map((own) => Worker.create({ ...base, ...own })));
    const health = await startHealth(loaded, role, () => workers.every((worker) => worker.getState() === 'RUNNING'));
    if (health !== undefined) connections.push(health);
    const diary = new Diary(log, {
      role,
      taskQueues,
      namespace,
      address: connectionOptions.address ?? 'localhost:7233',
      buildId: bundle?.buildId,
      // `npm run build` leaves one beside the code, which saves seconds where it is of the same code.
      bundle: bundle && (bundle === given ? 'given' : bundle === built ? 'built' : 'made at start'),
      version: packageVersion(),
      memoryMiB: Math.round(memory / 1_048_576),
      ...sizes,
    });
    const stopped = diary.followed(runCrew(workers, connections));
    return {
      stopped,
      taskQueues,
      buildId: bundle?.buildId,
      stop: async (why = 'asked to stop') => {
        diary.stops(why);
        shutDown(workers);
        await stopped;
      },
    };
  } catch (error) {
    await closeAll(connections);
    throw error;
  }
}

/** Policy is that of the file, as it is at each call; without a file it is what was given. */
function followed(loaded: LoadedConfig, closed: { close(): Promise<void> }[]): LoadedConfig {
  const { config, path } = loaded;
  if (path === undefined) return loaded;
  const live = new LivePolicy({ config, path }, process.env, Runtime.instance().logger);
  closed.push({ close: async () => live.stop() });
  return withLivePolicy(loaded, live);
}

type OwnOptions = Pick<
  WorkerOptions,
  | 'taskQueue'
  | 'activities'
  | 'workflowBundle'
  | 'maxConcurrentActivityTaskExecutions'
  | 'maxTaskQueueActivitiesPerSecond'
>;

async function optionsByQueue(
  loaded: LoadedConfig,
  role: WorkerRole,
  taskQueues: readonly string[],
  bundle: WorkflowBundle | undefined,
  client: Client,
  { maxConcurrentActivities }: Sizes,
): Promise<OwnOptions[]> {
  const artifacts = await openArtifacts(
    loaded,
    async () => await identityOf(client.connection, client.options.namespace),
  );
  const signing = await openTrust(loaded, artifacts, client);
  const runSide = role === 'tools' ? {} : await runSideActivities(loaded, artifacts, client, signing);
  const toolSide = role === 'runs' ? {} : await toolSideActivities(loaded, artifacts, client, signing);
  // Servers without a queue of their own are called from the run's queue, by whoever serves it with both sides.
  return taskQueues.map((taskQueue) =>
    bundle !== undefined && taskQueue === loaded.config.taskQueue
      ? { taskQueue, workflowBundle: { code: bundle.code }, activities: { ...runSide, ...toolSide } }
      : { taskQueue, activities: { ...toolSide }, ...queueOptions(loaded.config, taskQueue, maxConcurrentActivities) },
  );
}

function commonOptions({ worker }: Config, sizes: Sizes): Partial<WorkerOptions> {
  return {
    maxCachedWorkflows: sizes.maxCachedWorkflows,
    maxConcurrentWorkflowTaskExecutions: sizes.maxConcurrentWorkflowTaskExecutions,
    maxConcurrentActivityTaskExecutions: sizes.maxConcurrentActivities,
    shutdownGraceTime: worker.shutdownGraceSeconds * 1_000,
    shutdownForceTime: (worker.shutdownGraceSeconds + 15) * 1_000,
    stickyQueueScheduleToStartTimeout: worker.stickyQueueTimeoutMs,
    // A heartbeat is sent at most this often; what it says of a call is what another worker can go by if this one is lost now.
    maxHeartbeatThrottleInterval: '1s',
    defaultHeartbeatThrottleInterval: '1s',
  };
}
