// A query waits for a worker that is gone; an event comes; another worker takes the query before the event's task.
import { ask, judge, later, say, startRun, startWorker } from './bench.mjs';

const loseFirst = await startWorker();
const { run } = await startRun();
await loseFirst();
const loseSecond = await startWorker();
// Temporal hands the query on after 3 s, and the task of the event 1.5 s later.
const answer = ask(run);
await later(1_500);
await run.signal('event');
say({ answer: await answer });
await judge(run, loseSecond);
