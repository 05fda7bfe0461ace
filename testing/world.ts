/**
 * A whole service in a test's own process: Temporal's development server, a worker, models that follow a script, and
 * MCP servers whose tools are functions. Only the Temporal CLI must be there (`TEMPORAL_CLI_PATH`, or PATH).
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from '@temporalio/client';
import { IllegalStateError } from '@temporalio/common';
import { DefaultLogger, makeTelemetryFilterString, Runtime } from '@temporalio/worker';
import { Countersign, type RunHandle, type StartRunOptions } from '../client/index.ts';
import { defined } from '../contracts/defined.ts';
import { CountersignError } from '../contracts/errors.ts';
import { Config, type ConfigInput } from '../contracts/schemas/config.ts';
import { parseAs } from '../contracts/schemas/parse.ts';
import type { ApprovalRequest } from '../contracts/schemas/request.ts';
import type { RunSpecInput } from '../contracts/schemas/run-spec.ts';
import { Script } from '../contracts/schemas/script.ts';
import type { WorkflowBundle } from '../workers/bundle.ts';
import { createDataConverter } from '../workers/codec.ts';
import { checkConfig } from '../workers/config/checks.ts';
import { connectClient } from '../workers/connection.ts';
import { findTemporalCli, startDevServer } from '../workers/dev-server.ts';
import { startWorkers } from '../workers/worker.ts';
import { keepZoneKey, type Part, readerOf, stopAll } from './parts.ts';
import { type ScriptedServer, type ScriptedTool, startScriptedServer } from './scripted-server.ts';

/** Steps of the model: its words and calls. */
export type Steps = (typeof Script)['_zod']['input']['steps'];

type ServerInput = NonNullable<ConfigInput['servers']>[string];

/** Settings as in `countersign.yaml`; the world itself knows where its `servers` are. */
export type WorldConfig = Omit<ConfigInput, 'servers'> & {
  readonly servers?: Readonly<Record<string, Omit<ServerInput, 'url'> & { readonly url?: string }>>;
};

/** Anything of a run spec; of its agent only what a test is about, such as `output`. */
export type WorldSpec = Omit<Partial<RunSpecInput>, 'agent'> & { readonly agent?: Partial<RunSpecInput['agent']> };

/** An approver by id, or with groups. */
export type WorldApprover = string | { readonly id: string; readonly groups?: readonly string[] };

export interface TestWorldOptions {
  /** Server → tool → what it does. Runs name a server as a configured one. */
  readonly servers?: Readonly<Record<string, Readonly<Record<string, ScriptedTool>>>>;
  /** Anything else of a `countersign.yaml`, such as `policy`, or how a server gets its token. */
  readonly config?: WorldConfig;
  /** Workflows of your own beside those of runs, made by `bundleWorkflows` of `countersign/worker`. */
  readonly bundle?: WorkflowBundle;
}

export interface TestWorld {
  readonly countersign: Countersign;
  /** A client of the same Temporal, for workflows of your own. */
  readonly client: Client;
  /** `HOST:PORT` of Temporal. */
  readonly address: string;
  readonly namespace: string;
  /** Calls that the servers got, by name. */
  readonly servers: Readonly<Record<string, ScriptedServer>>;
  /**
   * Starts a run whose model follows these steps, unless `spec.agent` names another one; it may use every server, and
   * ann has started it.
   * @param authorizations tokens by server, for servers with `credentials: { kind: 'given' }`; they are sealed
   */
  start(steps: Steps, spec?: WorldSpec, options?: Pick<StartRunOptions, 'authorizations'>): Promise<RunHandle>;
  /** Waits until this many requests are open (1), for 30 s at most; rejects once the run is over (`RUN_CLOSED`). */
  openRequests(run: RunHandle, count?: number): Promise<readonly ApprovalRequest[]>;
  /** Waits until a request is open, and approves it as this person. */
  approveNext(run: RunHandle, approver: WorldApprover): Promise<ApprovalRequest>;
  /** Stops every part, also where one fails; rejects with the first failure. */
  stop(): Promise<void>;
}

/** The server looks for due timers once a second by default, and delays runs that follow each other. */
const IMPATIENT = ['history.timerProcessorMaxTimeShift="5ms"', 'history.workflowIdReuseMinimalInterval="0s"'];
const OPEN_MS = 30_000;
const POLL_MS = 25;

/**
 * @throws CountersignError `ENGINE_UNAVAILABLE` if there is no Temporal CLI; `CONFIG_INVALID` and
 * `AUTHORIZATION_IN_HEADERS` as a worker does
 */
export async function startTestWorld({
  servers: scripted = {},
  config: given = {},
  bundle,
}: TestWorldOptions = {}): Promise<TestWorld> {
  const started: Part[] = [];
  const stop = async (): Promise<void> => await stopAll(started);
  try {
    const executable = findTemporalCli(process.env);
    installQuietRuntime();
    const directory = await mkdtemp(join(tmpdir(), 'countersign-world-'));
    started.push({ stop: async () => await rm(directory, { recursive: true, force: true }) });
    const servers: Record<string, ScriptedServer> = {};
    for (const [name, tools] of Object.entries(scripted)) {
      servers[name] = await startScriptedServer(tools);
      started.push(servers[name]);
    }
    const zone = await keepZoneKey(directory);
    const config = configOf(given, servers, zone.grants);
    const engine = await startDevServer({ executable, ui: false, dynamicConfig: IMPATIENT });
    // A store in memory needs no orderly end.
    started.push({ stop: async () => await engine.stop('SIGKILL') });
    const { address, namespace } = engine;
    const loaded = { config, baseDirectory: directory, path: undefined };
    const workers = await startWorkers({ loaded, connectionOptions: { address }, namespace, ...defined({ bundle }) });
    // A worker that failed has said so to its runs, and the test to its author.
    workers.stopped.catch(() => undefined);
    started.push({ stop: async () => await workers.stop() });
    const connection = await connectClient({ address });
    started.push({ stop: async () => await connection.close() });
    const client = new Client({ connection, namespace, dataConverter: createDataConverter(config) });
    const artifacts = readerOf(config, directory);
    const sealed = Object.entries(servers).map(([name, { url }]) => [name, { url, key: zone.publicJwk }] as const);
    const countersign = new Countersign({
      client,
      artifacts,
      taskQueue: config.taskQueue,
      servers: Object.fromEntries(sealed),
    });
    return worldOf({ countersign, client, address, namespace, servers, stop }, config);
  } catch (error) {
    // Why the world did not start says more than what did not stop.
    await stop().catch(() => undefined);
    throw error;
  }
}

const WHAT = 'configuration of the test world';

function configOf(
  given: WorldConfig,
  servers: Readonly<Record<string, ScriptedServer>>,
  grants: NonNullable<ConfigInput['grants']>,
): Config {
  const named: Record<string, ServerInput> = {};
  for (const [name, { url }] of Object.entries(servers))
    named[name] = { credentials: { kind: 'none' }, ...given.servers?.[name], url };
  const input = {
    grants,
    ...given,
    servers: { ...given.servers, ...named },
    egress: { allowLoopback: true, ...given.egress },
    worker: { shutdownGraceSeconds: 1, ...given.worker },
  };
  const config = parseAs(Config, input, 'CONFIG_INVALID', WHAT);
  // A configuration with which no worker would start is none for tests either.
  checkConfig(config, WHAT);
  return config;
}

type Parts = Pick<TestWorld, 'countersign' | 'client' | 'address' | 'namespace' | 'servers' | 'stop'>;

function worldOf(parts: Parts, config: Config): TestWorld {
  let runs = 0;
  const openRequests = async (run: RunHandle, count = 1): Promise<readonly ApprovalRequest[]> => {
    for (const end = Date.now() + OPEN_MS; ; await pause(POLL_MS)) {
      const open = (await run.requests()).filter(({ status }) => status === 'open');
      if (open.length >= count) return open;
      await assertGoesOn(parts.client, run);
      if (Date.now() <= end) continue;
      const message = `Run ${run.runId} has ${open.length} open requests after ${OPEN_MS / 1_000} s, and ${count} were waited for.`;
      throw new CountersignError('RESULT_UNCERTAIN', message);
    }
  };
  return {
    ...parts,
    start: async (steps, over = {}, options = {}) => {
      runs += 1;
      const model = `script-${runs}`;
      // Models are looked up for each step, so that each run may have its own script.
      config.models[model] = { provider: 'scripted', script: parseAs(Script, { steps }, 'USAGE', 'script of the run') };
      const spec = specOf(model, Object.keys(config.servers), over);
      return await parts.countersign.startRun({ runId: `run-${runs}`, spec, ...options });
    },
    openRequests,
    approveNext: async (run, approver) => {
      const [request] = await openRequests(run);
      if (request === undefined) throw new CountersignError('INTERNAL', 'No request, although one was counted.');
      const { callId, generation, digest, runId } = request;
      const { id, groups = [] } = typeof approver === 'string' ? { id: approver } : approver;
      const decisionId = `${id}-${callId}.${generation}`;
      await run.decide({ kind: 'approve', decisionId, callId, digest, runId, approver: { id, groups: [...groups] } });
      return request;
    },
  };
}

/** Nobody outside knows the name of a script's model: an agent that leaves the model out keeps it. */
export function specOf(model: string, servers: readonly string[], over: WorldSpec): RunSpecInput {
  const agent = { name: 'test', model, ...over.agent };
  const named = servers.map((name) => ({ name }));
  return { input: 'Do it.', initiator: { id: 'ann' }, servers: named, ...over, agent };
}

/**
 * A run that is over asks nobody any more, and a test that waited on would only run out of time.
 * @throws CountersignError `RUN_CLOSED`, or with the code that ended the run
 */
export async function assertGoesOn(
  client: Pick<Client, 'workflow'>,
  run: Pick<RunHandle, 'runId' | 'result'>,
): Promise<void> {
  const { status } = await client.workflow.getHandle(run.runId).describe();
  if (status.name === 'RUNNING' || status.name === 'PAUSED') return;
  const { status: how } = await run.result();
  const message = `Run ${run.runId} is over (${how}), and too few of its requests are open. Its ledger says what became of its calls: await run.ledger().`;
  throw new CountersignError('RUN_CLOSED', message, { runId: run.runId });
}

/** Keeps Temporal's information lines out of a test's output, unless the process has a runtime already. */
function installQuietRuntime(): void {
  const filter = makeTelemetryFilterString({ core: 'ERROR', other: 'ERROR' });
  try {
    Runtime.install({ logger: new DefaultLogger('ERROR'), telemetryOptions: { logging: { filter } } });
  } catch (error) {
    if (!(error instanceof IllegalStateError)) throw error;
  }
}
