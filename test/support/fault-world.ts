/**
 * Starts a service whose workers are processes of their own, on a Temporal server that can be killed. Models
 * are scripts in the configuration file; the test starts the tool servers.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Client } from '@temporalio/client';
import { stringify } from 'yaml';
import { createDirectoryStore } from '../../activities/artifacts/directory.ts';
import type { ArtifactStore } from '../../activities/artifacts/port.ts';
import { Countersign, type CountersignOptions, type RunHandle, type StartRunOptions } from '../../client/index.ts';
import type { Config, ConfigInput } from '../../contracts/schemas/config.ts';
import type { RunSpecInput } from '../../contracts/schemas/run-spec.ts';
import type { WorkflowBundle } from '../../workers/bundle.ts';
import { createDataConverter } from '../../workers/codec.ts';
import { loadConfig } from '../../workers/config/load.ts';
import { LOOPBACK } from './egress.ts';
import { type FaultEngine, startFaultEngine } from './fault-engine.ts';
import { sharedBundle } from './shared-bundle.ts';
import { startWorkerProcess, type WorkerProcess, type WorkerProcessOptions } from './worker-process.ts';

export interface FaultWorld {
  readonly engine: FaultEngine;
  readonly client: Client;
  readonly countersign: Countersign;
  readonly config: Config;
  readonly configFile: string;
  readonly bundle: WorkflowBundle;
  readonly artifacts: ArtifactStore;
  /** Ids of all runs started with `start`. */
  readonly runs: readonly string[];
  startWorker(options?: Pick<WorkerProcessOptions, 'role' | 'shipped'>): Promise<WorkerProcess>;
  /** Starts a run of this model, by default with all configured servers. */
  start(model: string, over?: Partial<RunSpecInput>, options?: Partial<StartRunOptions>): Promise<RunHandle>;
  /** Kills the remaining workers. */
  stop(): Promise<void>;
}

export interface FaultWorldOptions {
  readonly config: ConfigInput;
  /** Files beside `countersign.yaml`, such as keys. */
  readonly files?: Readonly<Record<string, string>>;
  /** Values for `${NAME}` in the configuration. */
  readonly env?: Readonly<Record<string, string>>;
  readonly client?: Partial<CountersignOptions>;
  /** A server shared with another world of the file, which stops it. Each world needs a task queue of its own. */
  readonly engine?: FaultEngine;
  readonly bundle?: WorkflowBundle;
}

let started = 0;

export async function startFaultWorld(options: FaultWorldOptions): Promise<FaultWorld> {
  const { env = {}, files = {} } = options;
  const engine = options.engine ?? (await startFaultEngine());
  const inFolder = (name: string): string => join(engine.directory, name);
  const configFile = inFolder(`${options.config.taskQueue ?? 'countersign'}.yaml`);
  const bundleFile = inFolder('bundle.json');
  const bundle = options.bundle ?? (await sharedBundle());
  await writeFile(configFile, stringify({ ...options.config, egress: { ...LOOPBACK, ...options.config.egress } }));
  await writeFile(bundleFile, JSON.stringify(bundle));
  for (const [name, text] of Object.entries(files)) await writeFile(inFolder(name), text);
  const { config } = await loadConfig(configFile, env);
  const { address, namespace } = engine.server;
  const client = await engine.connect(createDataConverter(config));
  const artifacts = createDirectoryStore(inFolder(config.artifacts.directory));
  const countersign = new Countersign({ client, artifacts, ...options.client });
  const runs: string[] = [];
  const workers: WorkerProcess[] = [];
  return {
    engine,
    client,
    countersign,
    config,
    configFile,
    bundle,
    artifacts,
    runs,
    startWorker: async (own = {}) => {
      const worker = await startWorkerProcess({ configFile, bundleFile, address, namespace, env, ...own });
      workers.push(worker);
      return worker;
    },
    start: async (model, over = {}, given = {}) => {
      const servers = Object.keys(config.servers).map((name) => ({ name }));
      const spec: RunSpecInput = {
        agent: { name: 'clerk', model },
        input: 'Do it.',
        initiator: { id: 'ann' },
        servers,
        ...over,
      };
      const runId = given.runId ?? `${model}-${(started += 1)}`;
      const run = await countersign.startRun({ taskQueue: config.taskQueue, ...given, runId, spec });
      runs.push(runId);
      return run;
    },
    stop: async () => {
      await Promise.all(workers.map((worker) => worker.kill()));
      if (options.engine === undefined) await engine.stop();
    },
  };
}
