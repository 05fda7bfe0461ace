/**
 * Makes the threads in which workflows run, without two things that the SDK does there and has no options for. The
 * method that makes its threads is replaced, once in a process (docs/adr/0061, docs/adr/0064).
 *
 * 1. The SDK limits each call by the `timeout` of `node:vm`, which starts a system thread for it: a third of the thread
 *    in a profile. When the limit strikes, Node.js may abort the process (docs/adr/0057). Workflow code here holds no
 *    user code, and every loop of it is bounded; a thread that is silent all the same is ended, and the worker with it.
 * 2. The SDK hooks each promise of a run for the query `__stack_trace`: about half of what a replay costs. A thread
 *    keeps the hook only for a bundle that `withStackTraces` made.
 */
import { Worker as Thread } from 'node:worker_threads';
import type { Logger } from '@temporalio/worker';
import {
  ThreadedVMWorkflowCreator,
  type ThreadedVMWorkflowCreatorOptions,
  WorkerThreadClient,
} from '@temporalio/worker/lib/workflow/threaded-vm.js';
import { keepsStackTraces } from './bundle.ts';

/** How often a thread is looked at, and for how many looks in a row it may have work without an answer: a minute. */
export const PATIENCE = { lookMs: 5_000, looks: 12 };

export interface MadeThread {
  readonly thread: Pick<Thread, 'terminate' | 'once'>;
  readonly client: Pick<WorkerThreadClient, 'send'>;
}

let isReplaced = false;

/** Call it before a worker is made; later calls change nothing. */
export function replaceThreads(patience = PATIENCE): void {
  if (isReplaced) return;
  isReplaced = true;
  ThreadedVMWorkflowCreator.create = async (options) => {
    const made = Array.from({ length: options.threadPoolSize }, () => makeThread(options));
    try {
      await Promise.all(made.map(async ({ client }) => await client.send(initOf(options))));
    } catch (error) {
      await Promise.all(made.map(async ({ thread }) => await thread.terminate()));
      throw error;
    }
    for (const each of made) endIfSilent(each, patience, options.logger);
    return new ThreadedVMWorkflowCreator(made.map(({ client }) => client));
  };
}

export function makeThread({ workflowBundle, logger, patchActivationCallback }: ThreadedVMWorkflowCreatorOptions) {
  const thread = new Thread(entryOf(keepsStackTraces(workflowBundle.code)));
  return { thread, client: new WorkerThreadClient(thread, logger, patchActivationCallback) };
}

/** The SDK's own program of such a thread. It is found from here, since text has no place of its own. */
function entryOf(isHooked: boolean): URL {
  const sdk = (name: string): string => `load('@temporalio/worker/lib/workflow/${name}.js')`;
  const program = [
    `import { createRequire } from 'node:module';`,
    `const load = createRequire(${JSON.stringify(import.meta.url)});`,
    isHooked ? '' : `${sdk('vm-shared')}.globalHandlers.setPromiseHook = () => {};`,
    `${sdk('workflow-worker-thread')};`,
  ].join('\n');
  return new URL(`data:text/javascript,${encodeURIComponent(program)}`);
}

export function initOf(options: ThreadedVMWorkflowCreatorOptions): Parameters<WorkerThreadClient['send']>[0] {
  const { workflowBundle, reuseV8Context, registeredActivityNames, patchActivationCallback } = options;
  return {
    type: 'init',
    workflowBundle,
    // Sound: the thread hands the field on to `node:vm`, which takes `undefined` for no limit.
    isolateExecutionTimeoutMs: undefined as unknown as number,
    reuseV8Context,
    registeredActivityNames,
    hasPatchActivationCallback: patchActivationCallback !== undefined,
  };
}

/** Ends a thread that has work and gives no answer in so many looks. */
export function endIfSilent(
  { thread, client }: MadeThread,
  { lookMs, looks }: typeof PATIENCE,
  log: Pick<Logger, 'error'>,
): void {
  const send = client.send.bind(client);
  /** Runs of the messages without an answer, oldest first: a thread takes one message at a time. */
  const unanswered = new Set<{ readonly runId: string }>();
  let silentFor = 0;
  client.send = async (input) => {
    const asked = { runId: 'runId' in input ? input.runId : 'none' };
    unanswered.add(asked);
    try {
      return await send(input);
    } finally {
      unanswered.delete(asked);
      silentFor = 0;
    }
  };
  // Looks are counted, not time: a process that was stopped for a while has not looked meanwhile.
  const look = setInterval(() => {
    silentFor = unanswered.size === 0 ? 0 : silentFor + 1;
    if (silentFor < looks) return;
    clearInterval(look);
    const seconds = (looks * lookMs) / 1_000;
    const [asked] = unanswered;
    log.error(
      `A workflow thread has not answered for ${seconds} s. The worker ends. This is a fault in workflow code: please report it with the history of this Temporal run.`,
      { temporalRunId: asked?.runId },
    );
    void thread.terminate();
  }, lookMs);
  look.unref();
  thread.once('exit', () => clearInterval(look));
}
