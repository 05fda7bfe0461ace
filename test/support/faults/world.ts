/**
 * Starts a service whose workers are processes of their own, on a Temporal server that can be killed. Models
 * are scripts in the configuration file; the test starts the tool servers.
 */
import { writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Client } from '@temporalio/client';
import { stringify } from 'yaml';
import { createDirectoryStore } from '../../../activities/artifacts/directory.ts';
import type { ArtifactStore } from '../../../activities/artifacts/port.ts';
import { Countersign, type CountersignOptions, type RunHandle, type StartRunOptions } from '../../../client/index.ts';
import type { Config, ConfigInput } from '../../../contracts/schemas/config.ts';
import type { RunSpecInput } from '../../../contracts/schemas/run-spec.ts';
import { bundleWorkflows, type MadeBundle, type WorkflowBundle } from '../../../workers/bundle.ts';
import { createDataConverter } from '../../../workers/codec.ts';
import { loadConfig } from '../../../workers/config/load.ts';
import { type DevServer, startDevServer } from '../../../workers/dev-server.ts';
import { LOOPBACK } from '../egress.ts';
import { startEngine, type TestEngine } from '../engine.ts';
import { sharedBundle } from '../shared-bundle.ts';
import { startWorkerProcess, type WorkerProcess, type WorkerProcessOptions } from '../world/worker-process.ts';

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
  startWorker(options?: Pick<WorkerProcessOptions, 'role' | 'shipped' | 'holds'>): Promise<WorkerProcess>;
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
  /** Servers that end with the world. */
  readonly beside?: readonly { close(): Promise<unknown> }[];
}

const SHORT_HEARTBEATS = fileURLToPath(new URL('short-heartbeats.ts', import.meta.url));

let started = 0;

export async function startFaultWorld(options: FaultWorldOptions): Promise<FaultWorld> {
  const { env = {}, files = {} } = options;
  const engine = options.engine ?? (await startFaultEngine());
  const inFolder = (name: string): string => join(engine.directory, name);
  const configFile = inFolder(`${options.config.taskQueue ?? 'countersign'}.yaml`);
  const bundleFile = inFolder('bundle.json');
  const bundle = options.bundle ?? (await sharedBundle(bundleWithShortHeartbeats));
  await writeFile(configFile, stringify({ ...options.config, egress: { ...LOOPBACK, ...options.config.egress } }));
  await writeFile(bundleFile, JSON.stringify(bundle));
  for (const [name, text] of Object.entries(files)) await writeFile(inFolder(name), text);
  const { config } = await loadConfig(configFile, env);
  const { address, namespace } = engine.server;
  const client = await engine.connect(createDataConverter(config));
  const artifacts = createDirectoryStore(inFolder(config.artifacts.directory));
  // A message may have to wait for the next worker.
  const countersign = new Countersign({ client, artifacts, deadlineMs: 60_000, ...options.client });
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
      await Promise.all((options.beside ?? []).map((server) => server.close()));
    },
  };
}

/** Makes the bundle of workers that tests kill. */
export async function bundleWithShortHeartbeats(): Promise<MadeBundle> {
  return await bundleWorkflows(undefined, [SHORT_HEARTBEATS]);
}

// Starts a Temporal dev server on a SQLite file that can be killed, and restarted on the same port and file.

export interface FaultEngine extends TestEngine {
  readonly dbFilename: string;
  /** Sends SIGKILL: what is not in the file is lost. */
  kill(): Promise<void>;
  /** Restarts on the same port and file. */
  restart(): Promise<void>;
  /** Sends SIGTERM, so that the file is complete; the folder stays until `stop`. */
  close(): Promise<void>;
}

export async function startFaultEngine(dynamicConfig: readonly string[] = []): Promise<FaultEngine> {
  const engine = await startEngine({ persistent: true, patient: true, dynamicConfig });
  const dbFilename = join(engine.directory, 'temporal.db');
  let server: DevServer = engine.server;
  return {
    ...engine,
    dbFilename,
    kill: () => server.stop('SIGKILL'),
    restart: async () => {
      const port = Number(new URL(`http://${engine.server.address}`).port);
      // Sound: `startEngine` has checked it.
      const executable = process.env['TEMPORAL_CLI_PATH'] as string;
      server = await startDevServer({ executable, ui: false, dbFilename, port, dynamicConfig });
    },
    close: () => server.stop(),
    stop: async () => {
      await server.stop();
      await engine.stop();
    },
  };
}

// Makes a TCP route to a server that a test can cut and restore: the server lives on, but cannot be reached.

export interface FaultRoute {
  /** URL of the server behind, with this route's own port. */
  readonly url: string;
  /** Refuses connections and resets the existing ones. */
  cut(): Promise<void>;
  mend(): Promise<void>;
  close(): Promise<void>;
}

export async function startFaultRoute(target: string): Promise<FaultRoute> {
  const to = new URL(target);
  const sockets = new Set<Socket>();
  const keep = (socket: Socket, other: Socket): void => {
    sockets.add(socket);
    socket.on('error', () => other.destroy());
    socket.on('close', () => {
      sockets.delete(socket);
      other.destroy();
    });
  };
  const listen = (port: number): Promise<Server> =>
    new Promise((resolve, reject) => {
      const server = createServer((inner) => {
        const outer = connect(Number(to.port), to.hostname);
        keep(inner, outer);
        keep(outer, inner);
        inner.pipe(outer).pipe(inner);
      });
      server.once('error', reject);
      server.listen(port, '127.0.0.1', () => resolve(server));
    });
  let server = await listen(0);
  // Sound: a server that listens on a port has an address with one.
  const { port } = server.address() as AddressInfo;
  const cut = async (): Promise<void> => {
    if (!server.listening) return;
    const closed = new Promise((resolve) => server.close(resolve));
    for (const socket of sockets) socket.resetAndDestroy();
    await closed;
  };
  return {
    url: `http://127.0.0.1:${port}${to.pathname}`,
    cut,
    mend: async () => {
      if (!server.listening) server = await listen(port);
    },
    close: cut,
  };
}
