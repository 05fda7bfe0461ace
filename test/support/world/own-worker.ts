/** Starts a worker by Temporal's library alone, for tests whose workflows or activities are not those of the product. */
import { NativeConnection, Worker, type WorkerOptions } from '@temporalio/worker';

export interface OwnWorker {
  /** Lets what it has taken end, and ends. */
  stop(): Promise<void>;
}

export async function startOwnWorker(address: string, options: Omit<WorkerOptions, 'connection'>): Promise<OwnWorker> {
  const connection = await NativeConnection.connect({ address });
  const worker = await Worker.create({ connection, ...options });
  const running = worker.run();
  return {
    stop: async () => {
      worker.shutdown();
      await running;
      await connection.close();
    },
  };
}
