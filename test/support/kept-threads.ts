/**
 * Keeps the thread of a worker that has ended for the next worker of the process, also in the next test file: to load
 * the SDK anew costs a third of a second of a processor.
 *
 * 1. The next worker has the thread begin anew, with its own bundle in a fresh context. Nothing of workflow code goes
 *    from one worker to the next, also where a test restarts its worker.
 * 2. A thread that failed, or of which something is still awaited, ends.
 */
import type { Worker as Thread } from 'node:worker_threads';
import { ThreadedVMWorkflowCreator, WorkerThreadClient } from '@temporalio/worker/lib/workflow/threaded-vm.js';
import { keepsStackTraces } from '../../workers/bundle.ts';
import { endIfSilent, initOf, makeThread, PATIENCE, replaceThreads } from '../../workers/workflow-threads.ts';

/** Threads that no worker has. A thread is of a kind for good: with the SDK's hook on promises, or without. */
export interface KeptThreads {
  take(kind: string): Thread | undefined;
  keep(kind: string, thread: Thread): Promise<void>;
}

declare global {
  /** Of the process: `environment.config.mjs` gives it to each test file. Elsewhere there is none. */
  var keptThreads: KeptThreads | undefined;
}

/** Makes workers that start from now on take and leave kept threads. */
export function keepThreads(): void {
  const kept = globalThis.keptThreads;
  if (kept === undefined) return;
  // The product replaces the same method, once.
  replaceThreads();
  ThreadedVMWorkflowCreator.create = async (options) => {
    const { workflowBundle, logger, patchActivationCallback, threadPoolSize } = options;
    const kind = keepsStackTraces(workflowBundle.code) ? 'hooked' : 'plain';
    const threads = Array.from(
      { length: threadPoolSize },
      () => kept.take(kind) ?? withoutListeners(makeThread(options).thread),
    );
    const clients = threads.map((thread) => {
      const keep = async (): Promise<void> => await kept.keep(kind, withoutListeners(thread));
      return new KeptClient(keep, thread, logger, patchActivationCallback);
    });
    try {
      await Promise.all(clients.map(async (client) => await client.send(initOf(options))));
    } catch (error) {
      await Promise.all(threads.map(async (thread) => await thread.terminate()));
      throw error;
    }
    for (const [index, client] of clients.entries())
      // Sound: as many threads as clients.
      endIfSilent({ thread: threads[index] as Thread, client }, PATIENCE, logger);
    return new ThreadedVMWorkflowCreator(clients);
  };
}

/** Other listeners are those of Node.js, without which a thread is not heard again. */
function withoutListeners(thread: Thread): Thread {
  for (const event of ['message', 'error', 'exit']) thread.removeAllListeners(event);
  return thread;
}

class KeptClient extends WorkerThreadClient {
  readonly #keep: () => Promise<void>;
  readonly #runs = new Set<string>();
  #unanswered = 0;
  #hasEnded = false;

  constructor(keep: () => Promise<void>, ...rest: ConstructorParameters<typeof WorkerThreadClient>) {
    super(...rest);
    this.#keep = keep;
    this.workerThread.once('exit', () => (this.#hasEnded = true));
  }

  override async send(input: Parameters<WorkerThreadClient['send']>[0]) {
    if (input.type === 'create-workflow') this.#runs.add(input.options.info.runId);
    this.#unanswered += 1;
    try {
      const answer = await super.send(input);
      if (input.type === 'dispose-workflow') this.#runs.delete(input.runId);
      return answer;
    } finally {
      this.#unanswered -= 1;
    }
  }

  /** Called by a worker that has ended. */
  override async destroy(): Promise<void> {
    if (this.#hasEnded) return;
    try {
      if (this.#unanswered > 0) throw new Error('the worker did not wait for its thread');
      for (const runId of this.#runs) await this.send({ type: 'dispose-workflow', runId });
      await this.send({ type: 'destroy' });
    } catch {
      // Also where a run could not be made, and so cannot be disposed of.
      await super.destroy();
      return;
    }
    // This client, and what else of the test file listens, is told that its thread has ended, and lets go of it.
    this.workerThread.emit('exit', 0);
    await this.#keep();
  }
}
