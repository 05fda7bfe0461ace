/** One Temporal dev server for a test file, with what the file needs to look at it. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, type Connection } from '@temporalio/client';
import type { DataConverter } from '@temporalio/common';
import { DefaultLogger, makeTelemetryFilterString, Runtime } from '@temporalio/worker';
import { connectClient } from '../../workers/connection.ts';
import { type DevServer, startDevServer } from '../../workers/dev-server.ts';
import { askingAgain } from '../../workers/refused-queries.ts';

/**
 * Temporal looks for timers that are due once a second, and lets an execution follow another one within a second only after a pause:
 * for load, where many runs share a server. Tests have one to themselves, and wait for nothing else.
 */
const IMPATIENT = ['history.timerProcessorMaxTimeShift="5ms"', 'history.workflowIdReuseMinimalInterval="0s"'];

export interface TestEngine {
  readonly server: DevServer;
  readonly directory: string;
  connect(dataConverter?: DataConverter): Promise<Client>;
  stop(): Promise<void>;
}

export async function startEngine({
  persistent = false,
  ui = false,
  patient = false,
  dynamicConfig = [],
}: {
  persistent?: boolean;
  ui?: boolean;
  /** As it is in production. */
  patient?: boolean;
  dynamicConfig?: readonly string[];
} = {}): Promise<TestEngine> {
  // Tests kill servers and race updates: what the SDK warns of then is what they are about.
  const filter = makeTelemetryFilterString({ core: 'ERROR', other: 'ERROR' });
  Runtime.install({ logger: new DefaultLogger('ERROR'), telemetryOptions: { logging: { filter } } });
  const directory = await mkdtemp(join(tmpdir(), 'countersign-test-'));
  const executable = process.env['TEMPORAL_CLI_PATH'];
  if (executable === undefined) throw new Error('TEMPORAL_CLI_PATH is not set: run the tests through `npm test`');
  const server = await startDevServer({
    executable,
    ui,
    dynamicConfig: [...(patient ? [] : IMPATIENT), ...dynamicConfig],
    ...(persistent ? { dbFilename: join(directory, 'temporal.db') } : {}),
  });
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
        // As the workers' own do.
        interceptors: { workflow: [askingAgain()] },
        ...(dataConverter === undefined ? {} : { dataConverter }),
      });
    },
    stop: async () => {
      await Promise.all(connections.map((connection) => connection.close()));
      await server.stop();
      await Runtime.instance().shutdown();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** As Temporal UI asks: a query that is refused is not asked again. */
export function plainClient({ connection, options }: Client): Client {
  return new Client({ connection, namespace: options.namespace });
}
