/** A queue that serves one server alone: Temporal holds its limits, and serves what waits by priority, and tenant by tenant. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import { defined } from '../../contracts/defined.ts';
import { startEngine, type TestEngine } from '../support/engine.ts';
import { type CallExchange, type RawServer, startRawServer } from '../support/servers/raw-server.ts';
import { until } from '../support/until.ts';
import { executions, factsOf, outcomes } from '../support/world/run-record.ts';
import { decisionOn, openRequests, startWorld, type World } from '../support/world/world.ts';

let engine: TestEngine;
let server: RawServer;
let world: World;
const open: CallExchange[] = [];
/** Who was served, in order, as their arguments say. */
const order: string[] = [];
let most = 0;

beforeAll(async () => {
  // One partition: with several each has an order of its own.
  engine = await startEngine({
    dynamicConfig: [
      'matching.useNewMatcher=true',
      'matching.enableFairness=true',
      'matching.numTaskqueueReadPartitions=1',
      'matching.numTaskqueueWritePartitions=1',
    ],
  });
  server = await startRawServer({
    era: 'modern',
    pages: [[{ name: 'do', description: 'Does it.', inputSchema: { type: 'object' } }]],
    onCall: (exchange) => {
      exchange.execute();
      open.push(exchange);
      most = Math.max(most, open.length);
      // Sound: the tests call it with an object.
      order.push(String((exchange.params['arguments'] as { who: string }).who));
    },
  });
  world = await startWorld({
    engine,
    config: {
      policy: { strategy: 'always', approvers: { ids: ['ann'], groups: [] } },
      fairness: { highest: 1, tenants: { loud: { weight: 1 } } },
      servers: {
        desk: { url: server.url, taskQueue: 'desk', credentials: { kind: 'none' }, limits: { concurrency: 1 } },
      },
    },
  });
});
afterAll(async () => {
  answer();
  await world.stop();
  await server.close();
  await engine.stop();
});

function answer(): void {
  for (const exchange of open.splice(0)) exchange.result({ content: [{ type: 'text', text: 'done' }] });
}

async function start(who: string, count: number, priority?: number): Promise<RunHandle> {
  const calls = Array.from({ length: count }, () => ({ tool: 'desk/do', arguments: { who } }));
  const run = await world.start([{ calls }, { text: 'done' }], {
    initiator: { id: 'ann', tenant: who },
    ...defined({ priority }),
  });
  return run;
}

/** Until so many calls of a run were handed to Temporal. */
async function queued(run: RunHandle, count: number): Promise<void> {
  await until(
    async () => {
      const [execution] = await executions(world, run.runId);
      const scheduled = (execution?.history.events ?? []).filter(
        (event) => event.activityTaskScheduledEventAttributes?.activityType?.name === 'callTool',
      );
      return scheduled.length === count;
    },
    { what: `${count} queued calls of ${run.runId}` },
  );
}

/** Lets all its calls go. */
async function approved(run: RunHandle, count: number): Promise<void> {
  for (const request of await openRequests(run, count)) await run.decide(decisionOn(request, 'ann'));
  await queued(run, count);
}

async function served(...runs: readonly RunHandle[]): Promise<void> {
  const over = Promise.all(runs.map((run) => run.result()));
  let isOver = false;
  void over.finally(() => (isOver = true));
  await until(
    () => {
      answer();
      return isOver;
    },
    { what: 'the end of all runs', withinMs: 90_000 },
  );
}

test('a queue of its own: one at a time, by slots; nothing is held back, and nothing is lost', async () => {
  const run = await start('alone', 6);
  await approved(run, 6);
  await served(run);
  expect(most).toBe(1);
  expect(factsOf(await run.ledger(), 'held')).toEqual([]);
  expect(new Set(Object.values(await outcomes(run)))).toEqual(new Set(['succeeded']));
});

test("every activity that may queue carries its run's priority, and its tenant as the run was admitted", async () => {
  const run = await start('quiet', 1, 2);
  await approved(run, 1);
  await served(run);
  const [execution] = await executions(world, run.runId);
  const queuedAs = (execution?.history.events ?? []).flatMap(({ activityTaskScheduledEventAttributes: activity }) =>
    activity ? [[activity.activityType?.name, activity.priority?.priorityKey, activity.priority?.fairnessKey]] : [],
  );
  for (const name of ['discoverTools', 'stretch', 'callTool']) expect(queuedAs).toContainEqual([name, 2, 'quiet']);
});

test('a tenant with one call does not wait for all calls of a tenant with many; who has priority goes first', async () => {
  // All have listed their tools: from here on nothing but calls takes the slot.
  const first = await start('first', 1);
  const loud = await start('loud', 12);
  const quiet = await start('quiet', 1);
  const urgent = await start('urgent', 1, 1);
  for (const [run, count] of [
    [first, 1],
    [loud, 12],
    [quiet, 1],
    [urgent, 1],
  ] as const)
    await openRequests(run, count);
  const from = order.length;
  await approved(first, 1);
  await until(() => open.length === 1, { what: 'the slot taken' });
  await approved(loud, 12);
  await approved(quiet, 1);
  await approved(urgent, 1);
  await served(first, loud, quiet, urgent);
  const after = order.slice(from + 1);
  expect(after.toSorted()).toEqual([...Array.from({ length: 12 }, () => 'loud'), 'quiet', 'urgent']);
  // One of the loud may be on its way already when they come.
  expect(after.indexOf('urgent')).toBeLessThanOrEqual(1);
  expect(after.indexOf('quiet')).toBeLessThanOrEqual(4);
});
