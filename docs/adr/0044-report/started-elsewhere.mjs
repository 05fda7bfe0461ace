// The same, but a process that never answers has taken the task of the event before the query gets to the other worker.
import { ask, connection, judge, later, say, startRun, startWorker } from './bench.mjs';

const loseFirst = await startWorker();
const { run, sticky } = await startRun();
await loseFirst();
const loseSecond = await startWorker();
const answer = ask(run);
await later(500);
await run.signal('event');
for (;;) {
  const task = await connection.withDeadline(Date.now() + 20_000, () =>
    connection.workflowService.pollWorkflowTaskQueue({ namespace: 'default', taskQueue: sticky, identity: 'frozen' }),
  );
  if (task.workflowExecution && !task.query) break;
}
say({ answer: await answer });
// The task that was taken is given up after 10 s; the next one ends the run.
await judge(run, loseSecond);
