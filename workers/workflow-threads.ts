/**
 * Takes the time limit from each call into a workflow thread, and ends a thread that no longer answers
 * (docs/adr/0064).
 *
 * 1. The SDK limits each call by the `timeout` of `node:vm`, which starts a system thread for it. Each
 *    activation makes three or more: in a profile they took a third of the thread. When the limit strikes, Node.js
 *    may abort the process (docs/adr/0057).
 * 2. The SDK has no option without a limit, so the method that makes its threads is replaced, once in a process.
 * 3. Workflow code here holds no user code, and every loop of it is bounded. A thread that is silent all the same is
 *    ended. The SDK then ends the worker with an error, and the process goes the way of any failed worker.
 */
import type { Worker as Thread } from 'node:worker_threads';
import type { Logger } from '@temporalio/worker';
import { ThreadedVMWorkflowCreator, type WorkerThreadClient } from '@temporalio/worker/lib/workflow/threaded-vm.js';

/** How often a thread is looked at, and for how many looks in a row it may have work without an answer: a minute. */
const PATIENCE = { lookMs: 5_000, looks: 12 };

type Creator = Pick<typeof ThreadedVMWorkflowCreator, 'create'>;

/** What the SDK does not show of a creator and its clients. */
interface Inside {
  readonly workerThreadClients: readonly (WorkerThreadClient & { readonly workerThread: Thread })[];
}

const replaced = new WeakSet<Creator>();

/** Call it before a worker or a replayer is made; later calls change nothing. */
export function untimeThreads(creators: Creator = ThreadedVMWorkflowCreator, patience = PATIENCE): void {
  if (replaced.has(creators)) return;
  replaced.add(creators);
  const create = creators.create.bind(creators);
  creators.create = async (options) => {
    // Sound: the thread hands the field on to `node:vm`, which takes `undefined` for no limit.
    const creator = await create({ ...options, isolateExecutionTimeoutMs: undefined as unknown as number });
    // Sound: the fields are there, and protected. The test of this file fails if they are not.
    for (const client of (creator as unknown as Inside).workerThreadClients)
      endIfSilent(client, patience, options.logger);
    return creator;
  };
}

function endIfSilent(
  client: Inside['workerThreadClients'][number],
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
    void client.workerThread.terminate();
  }, lookMs);
  look.unref();
  client.workerThread.once('exit', () => clearInterval(look));
}
