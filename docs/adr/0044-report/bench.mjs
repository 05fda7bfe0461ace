// What both programs do alike: worker processes that can be killed, a run, and the verdict on its history.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Client, Connection } from '@temporalio/client';
import { DefaultLogger, Runtime, Worker } from '@temporalio/worker';

Runtime.install({ logger: new DefaultLogger('ERROR') });

const address = process.env.TEMPORAL_ADDRESS ?? '127.0.0.1:7233';
const workflowsPath = fileURLToPath(new URL('workflow.mjs', import.meta.url));
const taskQueue = `noting-${process.pid}`;

export const connection = await Connection.connect({ address });
const client = new Client({ connection });
export const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);
export const later = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export async function startWorker() {
  const child = fork(fileURLToPath(new URL('worker.mjs', import.meta.url)), [address, taskQueue, workflowsPath]);
  await once(child, 'message');
  return async () => {
    child.kill('SIGKILL');
    await once(child, 'exit');
  };
}

/** A run that a worker has in memory: its second task went to that worker's own queue. */
export async function startRun() {
  const run = await client.workflow.start('noting', { workflowId: `noting-${process.pid}`, taskQueue });
  await run.executeUpdate('touch');
  await run.signal('event');
  const sticky = await run.fetchHistory().then(async function found({ events }) {
    const own = events
      .map((event) => event.workflowTaskScheduledEventAttributes?.taskQueue)
      .filter((queue) => queue?.kind === 2);
    return own.at(-1) ?? (await later(100), found(await run.fetchHistory()));
  });
  await later(500);
  return { run, sticky };
}

export async function ask(run) {
  return await connection.withDeadline(Date.now() + 30_000, () => run.query('notes'));
}

/** Ends the run, and compares what it returned with what a worker makes of its history that has never seen it. */
export async function judge(run, loseWorker) {
  await run.executeUpdate('end');
  const recorded = await run.result();
  await loseWorker();
  const loseAnother = await startWorker();
  const replayed = await ask(run);
  await loseAnother();
  const failure = await Worker.runReplayHistory({ workflowsPath }, await run.fetchHistory()).then(() => 'none', String);
  const isSound = JSON.stringify(recorded) === JSON.stringify(replayed) && failure === 'none';
  say({ recorded, replayed, failure, verdict: isSound ? 'sound' : 'damaged' });
  await connection.close();
}
