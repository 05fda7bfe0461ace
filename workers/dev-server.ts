/**
 * Runs the embedded engine: Temporal's development server as a child process, on loopback only, with what a run needs
 * (search attributes) and without the 50 ms tick per task of the defaults. It ends with the process that started it.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import { delimiter, join } from 'node:path';
import { CountersignError } from '../contracts/errors.ts';
import { SEARCH_ATTRIBUTES } from '../contracts/names.ts';
import type { Environment } from './config/load.ts';
import { connectClient } from './connection.ts';

interface DevServerOptions {
  /** Path of the Temporal CLI. */
  readonly executable: string;
  /** SQLite file; in memory if absent. */
  readonly dbFilename?: string;
  readonly port?: number;
  readonly uiPort?: number;
  readonly ui?: boolean;
  /** Where Temporal UI has encrypted payloads decrypted (`countersign codec-server`). */
  readonly uiCodecEndpoint?: string;
  readonly namespace?: string;
  /** `name=value`, beside our own. */
  readonly dynamicConfig?: readonly string[];
  /** Ctrl-C on a terminal does not reach the server: its starter ends it, after its workers. */
  readonly ownGroup?: boolean;
}

export interface DevServer {
  readonly address: string;
  readonly uiUrl: string | undefined;
  readonly namespace: string;
  readonly pid: number;
  /** Settles when the process is gone, whoever ended it. */
  readonly exited: Promise<void>;
  stop(signal?: NodeJS.Signals): Promise<void>;
}

const ATTRIBUTE_TYPES = { KEYWORD: 'Keyword', INT: 'Int', DATETIME: 'Datetime', KEYWORD_LIST: 'KeywordList' } as const;

/** Starts that are tried: the server chooses further ports itself, which others may take before it listens on them. */
const MOST_STARTS = 3;
const START_MS = 30_000;
/** Characters of the server's output that are kept. */
const MOST_SAID = 4_000;

export async function startDevServer(options: DevServerOptions): Promise<DevServer> {
  for (let start = 1; ; start += 1) {
    const started = await launch(options);
    if (started.kind === 'running') return started.server;
    if (start < MOST_STARTS && lostAPort(started.errors, options)) continue;
    const message = `The Temporal dev server did not start on ${started.address}. ${started.errors}`.trim();
    throw new CountersignError('ENGINE_UNAVAILABLE', message, {}, { cause: started.cause });
  }
}

/** Returns false if the starter named the port: another try would not help. */
export function lostAPort(errors: string, { port, uiPort }: Pick<DevServerOptions, 'port' | 'uiPort'>): boolean {
  const taken = [...errors.matchAll(/:(\d+): bind: address already in use/g)].map(([, found]) => Number(found));
  return taken.length > 0 && !taken.some((one) => one === port || one === uiPort);
}

type Launched =
  | { readonly kind: 'running'; readonly server: DevServer }
  | { readonly kind: 'failed'; readonly address: string; readonly errors: string; readonly cause: unknown };

async function launch(options: DevServerOptions): Promise<Launched> {
  const port = options.port ?? (await freePort());
  const uiPort = options.uiPort ?? (await freePort());
  const namespace = options.namespace ?? 'default';
  const args = argumentsFor(options, { ip: '127.0.0.1', port, namespace, 'metrics-port': await freePort() }, uiPort);
  const child = spawn(options.executable, args, {
    stdio: ['ignore', 'ignore', 'pipe'],
    detached: options.ownGroup === true,
  });
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => {
    // The first output is kept: when the server dies, the reason comes before pages of its stack.
    errors = (errors + chunk.toString()).slice(0, MOST_SAID);
  });
  const exited = new Promise<void>((resolve) => {
    child.once('exit', () => resolve());
    child.once('error', (error) => {
      errors += error.message;
      resolve();
    });
  });
  const endWithParent = (): void => void child.kill('SIGKILL');
  process.once('exit', endWithParent);
  void exited.then(() => process.off('exit', endWithParent));
  const address = `127.0.0.1:${port}`;
  try {
    await ready(child, address, namespace);
  } catch (error) {
    const { signalCode } = child;
    await end(child, 'SIGKILL');
    const why = signalCode === null ? '' : `It was ended by ${signalCode} (the machine may be short of memory). `;
    return { kind: 'failed', address, errors: `${why}${errors}`, cause: error };
  }
  const server: DevServer = {
    address,
    uiUrl: options.ui === false ? undefined : `http://127.0.0.1:${uiPort}`,
    namespace,
    // Sound: a process that answered has a pid.
    pid: child.pid as number,
    exited,
    stop: (signal = 'SIGTERM') => end(child, signal),
  };
  return { kind: 'running', server };
}

/** @param given options of the server's command line */
function argumentsFor(
  { ui, uiCodecEndpoint, dbFilename, dynamicConfig = [] }: DevServerOptions,
  given: Readonly<Record<string, string | number>>,
  uiPort: number,
): string[] {
  const settings = [
    'history.transferProcessorMaxPollRPS=2000',
    'history.timerProcessorMaxPollRPS=2000',
    'system.enableActivityEagerExecution=true',
    ...dynamicConfig,
  ];
  return [
    'server',
    'start-dev',
    ...Object.entries({ ...given, 'log-level': 'error' }).flatMap(([name, value]) => [`--${name}`, String(value)]),
    ...(ui === false ? ['--headless'] : ['--ui-port', String(uiPort)]),
    ...(uiCodecEndpoint === undefined ? [] : ['--ui-codec-endpoint', uiCodecEndpoint]),
    ...(dbFilename === undefined ? [] : ['--db-filename', dbFilename]),
    ...settings.flatMap((value) => ['--dynamic-config-value', value]),
    ...Object.values(SEARCH_ATTRIBUTES).flatMap(({ name, type }) => [
      '--search-attribute',
      `${name}=${ATTRIBUTE_TYPES[type]}`,
    ]),
  ];
}

async function ready(child: ChildProcess, address: string, namespace: string): Promise<void> {
  const until = Date.now() + START_MS;
  for (;;) {
    if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined)
      throw new Error(`it exited with ${child.exitCode ?? child.signalCode}`);
    try {
      const connection = await connectClient({ address, connectTimeout: 1_000 });
      try {
        await connection.workflowService.describeNamespace({ namespace });
        return;
      } finally {
        await connection.close();
      }
    } catch (error) {
      if (Date.now() > until) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const exited = once(child, 'exit');
  child.kill(signal);
  const hard = setTimeout(() => child.kill('SIGKILL'), 10_000);
  await exited;
  clearTimeout(hard);
}

const EXECUTABLE = process.platform === 'win32' ? 'temporal.exe' : 'temporal';

/**
 * Finds the Temporal CLI, which contains the development server. In a clone `scripts/temporal-cli.mjs` builds it where
 * it is missing.
 * @throws CountersignError `ENGINE_UNAVAILABLE` if there is none
 */
export function findTemporalCli(env: Environment): string {
  const given = env['TEMPORAL_CLI_PATH'];
  if (given !== undefined && given !== '') {
    if (existsSync(given)) return given;
    const message = `TEMPORAL_CLI_PATH names ${given}, which is not there. Correct it, or unset it.`;
    throw new CountersignError('ENGINE_UNAVAILABLE', message);
  }
  const folders = (env['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '');
  const found = folders.map((folder) => join(folder, EXECUTABLE)).find((path) => existsSync(path));
  if (found !== undefined) return found;
  throw new CountersignError(
    'ENGINE_UNAVAILABLE',
    'The Temporal CLI is needed and is not on PATH. Install it (https://docs.temporal.io/cli), or set TEMPORAL_CLI_PATH. In a clone, countersign dev builds one.',
  );
}

/** A loopback port that nobody listened on a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('no port was given');
  return address.port;
}
