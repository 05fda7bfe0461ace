/**
 * The workers of one process as one: they run together and end together.
 *
 * 1. Where one fails, the others are shut down, so that calls under way on them get their grace time.
 * 2. The first failure is the one that is reported. Connections are closed after the last worker: one that is in use does not
 *    close, and its complaint would hide the reason.
 */
import type { Worker } from '@temporalio/worker';

/** Those that were asked to end. */
const ending = new WeakSet<object>();

type Member = Pick<Worker, 'run' | 'shutdown' | 'getState'>;

interface Closable {
  close(): Promise<void>;
}

/** Settles when every worker has ended and every connection is closed; rejects with the first failure of a worker. */
export async function runCrew(workers: readonly Member[], connections: readonly Closable[]): Promise<void> {
  const running = workers.map(runToEnd);
  try {
    await Promise.all(running);
  } catch (error) {
    shutDown(workers);
    throw error;
  } finally {
    await Promise.allSettled(running);
    await closeAll(connections);
  }
}

/** Asks those that run to take no new work and end. */
export function shutDown(workers: readonly Member[]): void {
  for (const worker of workers) {
    if (worker.getState() !== 'RUNNING') continue;
    ending.add(worker);
    worker.shutdown();
  }
}

/** Never fails: whoever closes has an answer or an error that says more. */
export async function closeAll(connections: readonly Closable[]): Promise<void> {
  await Promise.allSettled(connections.map((connection) => connection.close()));
}

async function runToEnd(worker: Member): Promise<void> {
  try {
    await worker.run();
  } catch (error) {
    // The SDK hands its native worker back while a last poll still holds it (seen with 1.23.0, at shutdown only): all tasks
    // are done by then, or given up after their grace time, and a process that ends must not report a failure for it. A worker
    // that failed of itself is another matter.
    const isLateHandBack =
      error instanceof Error && error.name === 'IllegalStateError' && /still in use/.test(error.message);
    if (!isLateHandBack || (worker.getState() === 'FAILED' && !ending.has(worker))) throw error;
  }
}
