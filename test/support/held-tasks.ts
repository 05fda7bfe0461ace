/**
 * For a worker process that is to be frozen with tasks in its hands, loaded before it starts: from SIGUSR2 on it takes what Temporal gives it
 * and does nothing with it. All of the worker is real, save that its own code is never handed a task again.
 *
 * 1. It says on stdout of which Temporal run it holds something.
 */
import { Worker } from '@temporalio/worker';

/** Of the SDK's worker: what asks its native part for the next task. */
interface Polling {
  readonly nativeWorker: { pollWorkflowActivation(): Promise<Buffer> };
}

/** An activation begins with the Temporal run id (`coresdk.workflow_activation.WorkflowActivation`). */
const RUN_ID = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/;

/** More than tests have runs: each may hold a query and a task. */
const AT_ONCE = 100;

let isHolding = false;
process.on('SIGUSR2', () => {
  isHolding = true;
  process.stdout.write('holds tasks from now on\n');
});

const create = Worker.create.bind(Worker);
Worker.create = async (options) => {
  const worker = await create({ ...options, maxConcurrentWorkflowTaskExecutions: AT_ONCE });
  // Sound: the field is of the SDK and declared protected; the version is pinned.
  const { nativeWorker } = worker as unknown as Polling;
  const poll = nativeWorker.pollWorkflowActivation;
  nativeWorker.pollWorkflowActivation = async () => {
    for (;;) {
      const task = await poll();
      if (!isHolding) return task;
      process.stdout.write(`holds a task of ${RUN_ID.exec(task.toString('latin1'))?.[0]}\n`);
    }
  };
  return worker;
};
