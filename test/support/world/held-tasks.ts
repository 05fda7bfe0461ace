/**
 * Loaded into a worker process before it starts, so that a test can freeze it with tasks in its hands.
 * From SIGWINCH on, the process takes tasks from Temporal and does nothing with them. The worker is otherwise real.
 *
 * 1. The process says on stdout which Temporal run each held task belongs to.
 */
import { Worker } from '@temporalio/worker';

/** The part of the SDK's worker that polls its native part for the next task. */
interface Polling {
  readonly nativeWorker: { pollWorkflowActivation(): Promise<Buffer> };
}

/** An activation begins with the Temporal run id (`coresdk.workflow_activation.WorkflowActivation`). */
const RUN_ID = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/;

/** Set for workers that are to hold tasks. Others take as many at once as the configuration says. */
const HOLDS = process.env['HOLDS_TASKS'] !== undefined;
/** More than the runs of a test: each may hold a query and a task. */
const AT_ONCE = 100;

let isThrottling = false;
// SIGWINCH has no other use here; SIGUSR2 makes the SDK end its workers.
process.on('SIGWINCH', () => {
  isThrottling = true;
  process.stdout.write('holds tasks from now on\n');
});

const create = Worker.create.bind(Worker);
Worker.create = async (options) => {
  const worker = await create(HOLDS ? { ...options, maxConcurrentWorkflowTaskExecutions: AT_ONCE } : options);
  if (!HOLDS) return worker;
  // Sound: the field is of the SDK and declared protected; the version is pinned.
  const { nativeWorker } = worker as unknown as Polling;
  const poll = nativeWorker.pollWorkflowActivation;
  nativeWorker.pollWorkflowActivation = async () => {
    for (;;) {
      const task = await poll();
      if (!isThrottling) return task;
      process.stdout.write(`holds a task of ${RUN_ID.exec(task.toString('latin1'))?.[0]}\n`);
    }
  };
  return worker;
};
