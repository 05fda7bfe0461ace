/**
 * Starts a Temporal dev server on a SQLite file that can be killed, and restarted on the same port and file.
 */
import { join } from 'node:path';
import { type DevServer, startDevServer } from '../../workers/dev-server.ts';
import { startEngine, type TestEngine } from './engine.ts';

export interface FaultEngine extends TestEngine {
  readonly dbFilename: string;
  /** Sends SIGKILL: what is not in the file is lost. */
  kill(): Promise<void>;
  /** Restarts on the same port and file. */
  restart(): Promise<void>;
  /** Sends SIGTERM, so that the file is complete; the folder stays until `stop`. */
  close(): Promise<void>;
}

export async function startFaultEngine(): Promise<FaultEngine> {
  const engine = await startEngine({ persistent: true, patient: true });
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
      server = await startDevServer({ executable, ui: false, dbFilename, port });
    },
    close: () => server.stop(),
    stop: async () => {
      await server.stop();
      await engine.stop();
    },
  };
}
