/**
 * Workers of one process, by role.
 *
 * 1. A worker starts only where the namespace is set up, so that no run fails on its first upsert.
 * 2. Cached runs are bounded by configuration; the sticky timeout is short, so that the first decision after a worker's
 *    death does not wait ten seconds for it.
 */
import { type Client, Client as TemporalClient } from '@temporalio/client';
import { NativeConnection, type NativeConnectionOptions, Worker, type WorkerOptions } from '@temporalio/worker';
import type { Config } from '../contracts/schemas/config.ts';
import { bundleWorkflows, type WorkflowBundle } from './bundle.ts';
import { connectClient } from './client-connection.ts';
import { createDataConverter } from './codec.ts';
import { openArtifacts, runSideActivities, toolSideActivities } from './composition.ts';
import type { LoadedConfig } from './config.ts';
import { assertSetUp } from './setup.ts';
import { createTracing } from './tracing.ts';

/** `runs`: workflows, models, policy. `tools`: the queues of configured servers. `all`: both in this process. */
export type WorkerRole = 'all' | 'runs' | 'tools';

export interface WorkersOptions {
  readonly loaded: LoadedConfig;
  /** As `NativeConnection.connect` takes them, for instance from `@temporalio/envconfig`. */
  readonly connectionOptions: NativeConnectionOptions;
  readonly namespace: string;
  readonly role?: WorkerRole;
  /** Made when absent. */
  readonly bundle?: WorkflowBundle;
  /** What Temporal records as the worker's name; default is process id and host name. */
  readonly identity?: string;
}

export interface Workers {
  /** Settles when every worker has stopped; rejects when one fails. */
  readonly stopped: Promise<void>;
  readonly buildId: string;
  stop(): Promise<void>;
}

export async function startWorkers({
  loaded,
  connectionOptions,
  namespace,
  role = 'all',
  bundle: given,
  identity,
}: WorkersOptions): Promise<Workers> {
  const connection = await NativeConnection.connect(connectionOptions);
  const clientConnection = await connectClient(connectionOptions);
  try {
    await assertSetUp(clientConnection, namespace);
    const dataConverter = createDataConverter(loaded.config);
    const bundle = given ?? (await bundleWorkflows());
    const named = identity === undefined ? {} : { identity };
    const base = {
      ...commonOptions(loaded.config),
      ...named,
      connection,
      namespace,
      dataConverter,
      plugins: [createTracing(loaded.config.tracing)],
    };
    const client = new TemporalClient({ connection: clientConnection, namespace, dataConverter });
    const options = await optionsByQueue(loaded, role, bundle, client);
    const workers = await Promise.all(options.map((own) => Worker.create({ ...base, ...own })));
    const stopped = runAll(workers, [connection, clientConnection]);
    return {
      stopped,
      buildId: bundle.buildId,
      stop: async () => {
        for (const worker of workers) if (worker.getState() === 'RUNNING') worker.shutdown();
        await stopped;
      },
    };
  } catch (error) {
    await connection.close();
    await clientConnection.close();
    throw error;
  }
}

async function runAll(workers: readonly Worker[], connections: readonly { close(): Promise<void> }[]): Promise<void> {
  try {
    await Promise.all(workers.map(runToEnd));
  } finally {
    await Promise.all(connections.map((connection) => connection.close()));
  }
}

async function runToEnd(worker: Worker): Promise<void> {
  try {
    await worker.run();
  } catch (error) {
    // The SDK hands its native worker back while a last poll still holds it (seen with 1.23.0, at shutdown only): all tasks
    // are done by then, and a process that ends must not report a failure for it.
    const isLateHandBack =
      error instanceof Error && error.name === 'IllegalStateError' && /still in use/.test(error.message);
    if (!isLateHandBack) throw error;
  }
}

type OwnOptions = Pick<WorkerOptions, 'taskQueue' | 'activities' | 'workflowBundle'>;

async function optionsByQueue(
  loaded: LoadedConfig,
  role: WorkerRole,
  bundle: WorkflowBundle,
  client: Client,
): Promise<OwnOptions[]> {
  const { config } = loaded;
  const artifacts = openArtifacts(loaded);
  const runSide = role === 'tools' ? {} : runSideActivities(loaded, artifacts, client);
  const toolSide = role === 'runs' ? {} : await toolSideActivities(loaded, artifacts);
  const queues = new Set(
    Object.values(config.servers).flatMap(({ taskQueue }) => (taskQueue === undefined ? [] : [taskQueue])),
  );
  queues.delete(config.taskQueue);
  const own: OwnOptions[] = [];
  // Servers without a queue of their own are called from the run's queue, by whoever serves it with both sides.
  if (role !== 'tools')
    own.push({
      taskQueue: config.taskQueue,
      workflowBundle: { code: bundle.code },
      activities: { ...runSide, ...toolSide },
    });
  if (role !== 'runs') own.push(...[...queues].map((taskQueue) => ({ taskQueue, activities: { ...toolSide } })));
  return own;
}

function commonOptions({ worker }: Config): Partial<WorkerOptions> {
  return {
    maxCachedWorkflows: worker.maxCachedWorkflows,
    maxConcurrentActivityTaskExecutions: worker.maxConcurrentActivities,
    shutdownGraceTime: worker.shutdownGraceSeconds * 1_000,
    shutdownForceTime: (worker.shutdownGraceSeconds + 15) * 1_000,
    stickyQueueScheduleToStartTimeout: worker.stickyQueueTimeoutMs,
    // A heartbeat is sent at most this often; the dispatch activity's heartbeat timeout is 30 s.
    maxHeartbeatThrottleInterval: '5s',
    defaultHeartbeatThrottleInterval: '5s',
  };
}
