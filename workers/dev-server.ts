/**
 * Runs the embedded engine: Temporal's development server as a child process, on loopback only, with what a run needs
 * (search attributes) and without the 50 ms tick per task of the defaults. It ends with the process that started it.
 */
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import { delimiter, join } from 'node:path';
import { CountersignError } from '../contracts/errors.ts';
import { SEARCH_ATTRIBUTES } from '../contracts/names.ts';
import { NotStarted, startChild } from './child-server.ts';
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
  /** Its starter ends the server, after its workers. */
  readonly ownGroup?: boolean;
}

export type DevServer = Awaited<ReturnType<typeof launch>>;

const ATTRIBUTE_TYPES = { KEYWORD: 'Keyword', INT: 'Int', DATETIME: 'Datetime', KEYWORD_LIST: 'KeywordList' } as const;

/** Starts that are tried: the server chooses further ports itself, which others may take before it listens on them. */
const MOST_STARTS = 3;

export async function startDevServer(options: DevServerOptions): Promise<DevServer> {
  for (let start = 1; ; start += 1) {
    const port = options.port ?? (await freePort());
    try {
      return await launch(options, port);
    } catch (error) {
      if (!(error instanceof NotStarted)) throw error;
      if (start < MOST_STARTS && lostAPort(error.message, options)) continue;
      const message = `The Temporal dev server did not start on 127.0.0.1:${port}. ${error.message}`.trim();
      throw new CountersignError('ENGINE_UNAVAILABLE', message, {}, { cause: error });
    }
  }
}

/** Returns false if the starter named the port: another try would not help. */
export function lostAPort(errors: string, { port, uiPort }: Pick<DevServerOptions, 'port' | 'uiPort'>): boolean {
  const taken = [...errors.matchAll(/:(\d+): bind: address already in use/g)].map(([, found]) => Number(found));
  return taken.length > 0 && !taken.some((one) => one === port || one === uiPort);
}

async function launch(options: DevServerOptions, port: number) {
  const { executable, ui, namespace = 'default', ownGroup = false } = options;
  const uiPort = options.uiPort ?? (await freePort());
  const address = `127.0.0.1:${port}`;
  const child = await startChild({
    command: executable,
    args: argumentsFor(options, { ip: '127.0.0.1', port, namespace, 'metrics-port': await freePort() }, uiPort),
    ownGroup,
    ask: async () => {
      const connection = await connectClient({ address, connectTimeout: 1_000 });
      try {
        await connection.workflowService.describeNamespace({ namespace });
      } finally {
        await connection.close();
      }
    },
  });
  return { ...child, address, namespace, uiUrl: ui === false ? undefined : `http://127.0.0.1:${uiPort}` };
}

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
