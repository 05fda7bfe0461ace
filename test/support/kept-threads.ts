/**
 * Keeps the thread of a worker that has ended for the next worker of the process, also in the next test file. To start
 * a thread costs half a second of a processor: it loads the SDK and the bundle. A worker that came back would have the
 * same, since a workflow shares nothing with the workflows before it in its thread.
 *
 * 1. All runs leave a thread before it is kept.
 * 2. A thread is kept only for a worker with the same bundle and the same names of activities.
 */
import type { Worker as Thread } from 'node:worker_threads';
import {
  ThreadedVMWorkflowCreator,
  type ThreadedVMWorkflowCreatorOptions,
  WorkerThreadClient,
} from '@temporalio/worker/lib/workflow/threaded-vm.js';
import { endIfSilent, initOf, makeThread, PATIENCE, replaceThreads } from '../../workers/workflow-threads.ts';

/** What a thread was started with, and the thread. */
export interface KeptThread {
  readonly thread: Thread;
  readonly made: readonly string[];
}

declare global {
  /** Of the process: `environment.config.mjs` gives it to each test file. */
  var keptThreads: KeptThread[];
}

/** Most that a process keeps: more workers at once are rare, and each thread has some hundred megabytes. */
const KEPT = 2;

/** Makes workers that start from now on take and leave kept threads. */
export function keepThreads(): void {
  // The product replaces the same method, once.
  replaceThreads();
  ThreadedVMWorkflowCreator.create = async (options) => {
    const clients = await Promise.all(Array.from({ length: options.threadPoolSize }, () => clientOf(options)));
    return new ThreadedVMWorkflowCreator(clients);
  };
}

async function clientOf(options: ThreadedVMWorkflowCreatorOptions): Promise<WorkerThreadClient> {
  const { workflowBundle, reuseV8Context, registeredActivityNames, logger, patchActivationCallback } = options;
  const hasCallback = patchActivationCallback !== undefined;
  const made = [workflowBundle.code, `${reuseV8Context} ${hasCallback}`, ...[...registeredActivityNames].toSorted()];
  const at = keptThreads.findIndex((kept) => isSame(kept.made, made));
  const [kept] = at === -1 ? [] : keptThreads.splice(at, 1);
  const thread = kept?.thread ?? (await startThread(options));
  thread.ref();
  const client = new KeptClient(thread, made, logger, patchActivationCallback);
  endIfSilent({ thread, client }, PATIENCE, logger);
  return client;
}

function isSame(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((text, at) => text === other[at]);
}

async function startThread(options: ThreadedVMWorkflowCreatorOptions): Promise<Thread> {
  const { thread, client } = makeThread(options);
  await client.send(initOf(options));
  // The client of the worker takes over.
  return silence(thread);
}

/** Not those of Node.js itself, which start the port of a thread when the first of these comes. */
function silence(thread: Thread): Thread {
  for (const event of ['message', 'error', 'exit']) thread.removeAllListeners(event);
  return thread;
}

class KeptClient extends WorkerThreadClient {
  readonly #made: readonly string[];
  readonly #runs = new Set<string>();
  #hasEnded = false;

  constructor(thread: Thread, made: readonly string[], ...rest: LoggerAndCallback) {
    super(thread, ...rest);
    this.#made = made;
    thread.once('exit', () => (this.#hasEnded = true));
  }

  override async send(input: Parameters<WorkerThreadClient['send']>[0]) {
    if (input.type === 'create-workflow') this.#runs.add(input.options.info.runId);
    if (input.type === 'dispose-workflow') this.#runs.delete(input.runId);
    return await super.send(input);
  }

  /** Called by a worker that has ended. */
  override async destroy(): Promise<void> {
    if (this.#hasEnded) return;
    try {
      for (const runId of this.#runs) await this.send({ type: 'dispose-workflow', runId });
    } catch {
      // A run that could not be made, or one that does not end: the thread is nobody's any more.
      await super.destroy();
      return;
    }
    const thread = this.workerThread;
    // This client, and what else listens, is told that its thread has ended, and so leaves its test file with it.
    thread.emit('exit', 0);
    silence(thread).unref();
    keptThreads.push({ thread, made: this.#made });
    while (keptThreads.length > KEPT) await keptThreads.shift()?.thread.terminate();
  }
}

type LoggerAndCallback =
  ConstructorParameters<typeof WorkerThreadClient> extends [unknown, ...infer Rest] ? Rest : never;
