/**
 * The record of a run that ends without a sink and without having continued as new is Temporal's history: nothing is
 * stored, nobody is left without an answer, and any worker reads all of it (INV-D3, docs/adr/0059).
 */
import { expect, test } from '@jest/globals';
import { WorkflowNotFoundError } from '@temporalio/common';
import { updateIdOf } from '../../client/engine/engine.ts';
import type { RunHandle } from '../../client/index.ts';
import { Stop } from '../../contracts/schemas/request.ts';
import { startRecordingServer } from '../support/servers/recording-server.ts';
import { commandsAt, documentOf } from '../support/cli.ts';
import { until } from '../support/until.ts';
import { useBank } from '../support/world/bank-world.ts';
import { executions, factsOf, refusalOf, storedLedger, transcript } from '../support/world/run-record.ts';
import { decideNext, openRequests, rolled, updateStage } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

const other = during(() => startRecordingServer());
const { world } = useBank(() => {
  const open = { url: other.url, credentials: { kind: 'none' as const }, repeatable: ['lookup'] };
  return { policy: { servers: { open: { default: 'allow' } } }, servers: { open } };
});

const PAY = { calls: [{ tool: 'bank/pay', arguments: { purpose: 'end' } }] };
const LOOKUP = { calls: [{ tool: 'open/lookup', arguments: { purpose: 'end' } }] };
const END = { text: 'done' };
const servers = [{ name: 'bank' }];

async function stored(run: RunHandle): Promise<number> {
  const scheduled = (await executions(world, run.runId)).flatMap(({ events }) =>
    events.map((event) => event.activityTaskScheduledEventAttributes?.activityType?.name),
  );
  return scheduled.filter((name) => name === 'storeSegment').length;
}

test('a run that ends where it began stores nothing, and a worker that never had it reads all of it', async () => {
  const run = await world.start([PAY, END], { servers });
  await decideNext(run, 'ann');
  const result = await run.result();
  expect(result).toMatchObject({ status: 'completed', output: 'done' });
  expect(result).not.toHaveProperty('segment');
  expect(await stored(run)).toBe(0);
  const [ledger, messages] = [await run.ledger(), await transcript(world, run)];
  expect(ledger).toHaveLength(result.ledgerLength);
  expect(ledger.at(-1)).toMatchObject({ hash: result.ledgerHead, fact: { kind: 'run.ended', status: 'completed' } });
  expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'assistant']);
  await world.restartWorkers();
  expect(await run.ledger()).toEqual(ledger);
  expect(await transcript(world, run)).toEqual(messages);
  const watched = [];
  for await (const entry of run.watch()) watched.push(entry);
  expect(watched).toEqual(ledger);
  expect(await run.state()).toMatchObject({ status: 'completed', ledgerFrom: 0, transcriptFrom: 0 });
});

test('the command line reads and checks it, calls of stretches included', async () => {
  const run = await world.start([LOOKUP, LOOKUP, PAY, LOOKUP, END], { servers: [{ name: 'open' }, { name: 'bank' }] });
  await decideNext(run, 'ann');
  await run.result();
  const ledger = await run.ledger();
  expect(factsOf(ledger, 'dispatched')).toHaveLength(4);
  const command = commandsAt(world.engine);
  expect(documentOf(await command(['ledger', run.runId, '--json']))).toMatchObject({ entries: ledger });
  expect(documentOf(await command(['verify-ledger', run.runId, '--json']))).toMatchObject({
    verdict: 'chained',
    ended: true,
    historyFrom: 0,
    faults: [],
  });
  expect((await command(['show', run.runId])).exitCode).toBe(0);
  expect((await command(['watch', run.runId])).exitCode).toBe(0);
});

test('a run that fails stores nothing either', async () => {
  const run = await world.start([{ text: 'Three.' }], {
    agent: { ...world.spec([{ text: 'Three.' }]).agent, output: { type: 'object' } },
  });
  expect(await refusalOf(run.result())).toMatchObject({ code: 'MODEL_OUTPUT_INVALID' });
  expect(await stored(run)).toBe(0);
  expect(await run.state()).toMatchObject({ status: 'failed' });
  expect((await run.ledger()).at(-1)?.fact).toMatchObject({ kind: 'run.ended', status: 'failed' });
});

test('a run that has continued as new stores its last part, as Temporal may forget the first', async () => {
  const run = await world.start([PAY, END], { servers });
  await openRequests(run);
  await rolled(world, run.runId);
  await decideNext(run, 'ann');
  expect(await run.result()).toMatchObject({ segment: { sha256: expect.stringMatching(/^[0-9a-f]{64}$/) } });
  expect(await stored(run)).toBe(2);
  expect(await storedLedger(world, run)).toEqual(await run.ledger());
});

test('who ends the run is answered in a task before the one that ends it (temporalio/temporal#6375)', async () => {
  const run = await world.start([PAY, END], { servers });
  await openRequests(run);
  await world.workers.stop();
  const stop = { by: 'ann', reason: 'enough' };
  const stopping = run.stop(stop);
  // The stop is in the first task that the new worker gets.
  const updateId = updateIdOf('stop', Stop.parse(stop));
  await until(async () => (await updateStage(world.client, run.runId, updateId)) === 'admitted', {
    what: 'the stop at the server',
  });
  await world.restartWorkers();
  expect(await stopping).toMatchObject({ runId: expect.any(String) });
  expect(await run.result()).toMatchObject({ status: 'stopped', because: 'enough' });
  const [{ events } = { events: [] }] = await executions(world, run.runId);
  const answeredAt = events.findIndex((event) => event.workflowExecutionUpdateCompletedEventAttributes);
  const lastTask = events.findLastIndex((event) => event.workflowTaskCompletedEventAttributes);
  expect(answeredAt).toBeGreaterThan(0);
  expect(lastTask).toBeGreaterThan(answeredAt);
  expect(factsOf(await run.ledger(), 'run.ended')).toMatchObject([{ status: 'stopped' }]);
  expect(await stored(run)).toBe(0);
});

test('where no worker runs, or retention is over, the refusal says what to do', async () => {
  // A run that the world does not know: it is gone when the world replays its own.
  const runId = 'forgotten';
  await world.countersign.startRun({ runId, spec: world.spec([END]), taskQueue: world.config.taskQueue });
  const run = world.countersign.run(runId);
  await run.result();
  await world.workers.stop();
  const hurried = world.hurried(2_000).run(run.runId);
  expect(await refusalOf(hurried.ledger())).toMatchObject({ code: 'ENGINE_UNAVAILABLE' });
  await world.restartWorkers();
  await world.client.workflowService.deleteWorkflowExecution({
    namespace: world.client.options.namespace,
    workflowExecution: { workflowId: run.runId },
  });
  const handle = world.client.workflow.getHandle(runId);
  const isGone = async () =>
    await handle.describe().then(
      () => undefined,
      (error: unknown) => error instanceof WorkflowNotFoundError || undefined,
    );
  await until(isGone, { what: 'the end of the history', withinMs: 90_000 });
  expect(await refusalOf(run.ledger())).toMatchObject({
    code: 'RUN_NOT_FOUND',
    message: expect.stringMatching(/retention.*ledger/),
  });
}, 120_000);
