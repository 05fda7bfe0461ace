/** Starts one Temporal dev server for a test file, or takes one that is there. */
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, type Connection } from '@temporalio/client';
import type { DataConverter } from '@temporalio/common';
import { msToTs } from '@temporalio/common/lib/time.js';
import { DefaultLogger, makeTelemetryFilterString, Runtime } from '@temporalio/worker';
import { defined } from '../../contracts/defined.ts';
import { askingAgain, connectClient } from '../../workers/connection.ts';
import { type DevServer, startDevServer } from '../../workers/dev-server.ts';
import { setUpNamespace } from '../../workers/setup.ts';
import { until } from './until.ts';

/**
 * Settings that remove two pauses of the dev server. It looks for due timers once a second, and delays an execution
 * that follows another within a second.
 * Both pauses help servers that many runs share; a test has a server to itself.
 */
const IMPATIENT = ['history.timerProcessorMaxTimeShift="5ms"', 'history.workflowIdReuseMinimalInterval="0s"'];

export interface TestEngine {
  readonly server: DevServer;
  readonly directory: string;
  connect(dataConverter?: DataConverter): Promise<Client>;
  stop(): Promise<void>;
}

/**
 * Address of a Temporal service to use in place of a dev server of our own: for trying another version of it by hand.
 * Tests that stop the server or set it up in their own way cannot do with it.
 */
const EXISTING = 'COUNTERSIGN_TEST_TEMPORAL';

/** Makes a namespace for the test file. */
async function existingServer(address: string): Promise<DevServer> {
  const namespace = `test-${randomUUID()}`;
  const connection = await connectClient({ address });
  const workflowExecutionRetentionPeriod = msToTs('1 day');
  await connection.workflowService.registerNamespace({ namespace, workflowExecutionRetentionPeriod });
  // A service reads its list of namespaces every ten seconds.
  await until(async () => (await setUpNamespace(connection, namespace)).added.length === 0, { what: 'the namespace' });
  await connection.close();
  const exited = new Promise<void>(() => undefined);
  return { address, namespace, uiUrl: undefined, pid: process.pid, exited, stop: async () => undefined };
}

export async function startEngine({
  persistent = false,
  ui = false,
  patient = false,
  uiPort,
  uiCodecEndpoint,
  dynamicConfig = [],
}: {
  persistent?: boolean;
  ui?: boolean;
  /** Keeps the production settings. */
  patient?: boolean;
  uiPort?: number;
  uiCodecEndpoint?: string;
  dynamicConfig?: readonly string[];
} = {}): Promise<TestEngine> {
  // Tests kill servers and race updates, so warnings of the SDK about that are expected.
  const filter = makeTelemetryFilterString({ core: 'ERROR', other: 'ERROR' });
  Runtime.install({ logger: new DefaultLogger('ERROR'), telemetryOptions: { logging: { filter } } });
  const directory = await mkdtemp(join(tmpdir(), 'countersign-test-'));
  const { TEMPORAL_CLI_PATH: executable, [EXISTING]: existing } = process.env;
  if (executable === undefined) throw new Error('TEMPORAL_CLI_PATH is not set: run the tests through `npm test`');
  const server =
    existing === undefined
      ? await startDevServer({
          executable,
          ui,
          ...defined({ uiPort, uiCodecEndpoint }),
          dynamicConfig: [...(patient ? [] : IMPATIENT), ...dynamicConfig],
          ...(persistent ? { dbFilename: join(directory, 'temporal.db') } : {}),
        })
      : await existingServer(existing);
  const connections: Connection[] = [];
  return {
    server,
    directory,
    connect: async (dataConverter) => {
      const connection = await connectClient({ address: server.address });
      connections.push(connection);
      return new Client({
        connection,
        namespace: server.namespace,
        // The workers' own clients have the same interceptor.
        interceptors: { workflow: [askingAgain()] },
        ...defined({ dataConverter }),
      });
    },
    stop: async () => {
      await Promise.all(connections.map((connection) => connection.close()));
      // A store in memory needs no orderly end, which takes the server a second.
      await server.stop(persistent ? 'SIGTERM' : 'SIGKILL');
      await Runtime.instance().shutdown();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** Makes a client like Temporal UI's, which does not repeat a refused query. */
export function plainClient({ connection, options }: Client): Client {
  return new Client({ connection, namespace: options.namespace });
}
