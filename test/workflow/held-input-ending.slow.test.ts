/** A server that waits on an open connection, and a run that is ended, interrupted, handed on or reset meanwhile (INV-X1, INV-D3, F38). */
import { describe, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import type { CountersignError } from '../../contracts/errors.ts';
import {
  DONE,
  type Flight,
  LOST,
  refusalOfTold,
  tellRound,
  UNKNOWN,
  useHeldScene,
  wordOf,
} from '../support/scenes/held-input.ts';
import { answerTo, named, question } from '../support/scenes/input.ts';
import { until } from '../support/until.ts';
import { resetRun } from '../support/world/reset.ts';
import { executions, outcomes, outcomesAtEnd, refusalOf } from '../support/world/run-record.ts';

const scene = useHeldScene();

const END = { text: 'done' };
const steps = [{ calls: [{ tool: 'desk/do', arguments: { n: 1 } }] }, END];
const WITHDRAWN = { kind: 'ended', outcome: { kind: 'cancelled', reason: 'The server took it back.' } } as const;

async function held(over: object = {}): Promise<{ run: RunHandle; flight: Flight }> {
  const run = await scene.world.start(steps, over);
  const flight = await scene.flight(run);
  await tellRound(scene.world, flight);
  return { run, flight };
}

async function isClosed(flight: Flight): Promise<void> {
  await until(async () => (await wordOf(scene.world, flight)).kind === 'closed', {
    what: 'the end of the question',
  });
}

async function closings(run: RunHandle): Promise<readonly string[]> {
  return (await run.ledger()).flatMap(({ fact }) => (fact.kind === 'request.closed' ? [fact.status] : []));
}

describe('a run that ends', () => {
  test('stopped: nobody is asked any more, and the call in flight ends as it does', async () => {
    const { run, flight } = await held();
    const request = await question(run);
    await run.stop({ by: 'ann', reason: 'enough' });
    await isClosed(flight);
    expect(await refusalOf(run.provideInput(answerTo(request, named('Ann'))))).toMatchObject({
      code: 'REQUEST_NOT_OPEN',
    });
    expect(await refusalOfTold(tellRound(scene.world, flight, 2))).toBe('RUN_CLOSED');
    expect(flight.isCancelled()).toBe(false);
    flight.end(DONE);
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded' });
    expect(await closings(run)).toEqual(['cancelled']);
  });

  test('stopped, and calls in flight too: the dispatch hears that nobody waits for it', async () => {
    const { run, flight } = await held();
    await run.stop({ by: 'ann', reason: 'enough', inFlight: 'cancel' });
    await until(async () => flight.isCancelled(), { what: 'the cancellation' });
    flight.end(WITHDRAWN);
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'cancelled' });
    expect(await closings(run)).toEqual(['cancelled']);
  });

  test('out of time: as stopped', async () => {
    const { run, flight } = await held({ limits: { wallClockSeconds: 10 } });
    await isClosed(flight);
    flight.end(DONE);
    expect(await run.result()).toMatchObject({ status: 'limited', because: 'wallClockSeconds' });
    expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
  });

  test('cancelled by Temporal: what was sent keeps the outcome that its dispatch says', async () => {
    const { run, flight } = await held();
    await scene.world.client.workflow.getHandle(run.runId).cancel();
    await until(async () => flight.isCancelled(), { what: 'the cancellation' });
    await isClosed(flight);
    flight.end(DONE);
    await refusalOf(run.result());
    expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
  });
});

test('an interruption closes the question, and the call is waited for', async () => {
  const { run, flight } = await held();
  await run.say({ messageId: 'm-1', text: 'Something else.', from: 'ann', interrupt: true });
  await isClosed(flight);
  expect(await refusalOfTold(tellRound(scene.world, flight, 2))).toBe('REQUEST_NOT_OPEN');
  flight.end(DONE);
  expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded' });
});

test('INV-X1: while the answer of a lost worker is asked for, nobody asks people in its name; the call ends as unknown', async () => {
  const run = await scene.world.start(steps);
  const flight = await scene.flight(run);
  flight.end(LOST);
  const { end } = await scene.asksForAnswer(run);
  // The worker is not gone, or somebody speaks in its name.
  expect(await refusalOfTold(tellRound(scene.world, flight))).toBe('REQUEST_NOT_OPEN');
  end(UNKNOWN);
  const open = await until(async () => (await run.requests()).find(({ status }) => status === 'open'), {
    what: 'what became of it',
  });
  expect(open.about).toMatchObject({ kind: 'outcome' });
  await run.stop({ by: 'ann', reason: 'seen' });
  expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'unknown' });
  expect(await closings(run)).toEqual(['cancelled']);
});

test('INV-D3: the run does not continue as new while a server waits; once its call has ended, it does', async () => {
  const { world } = scene;
  const { run, flight } = await held();
  await world.client.workflow.getHandle(run.runId).signal('nudge');
  const request = await question(run);
  await run.provideInput(answerTo(request, named('Ann')));
  expect(await wordOf(world, flight)).toMatchObject({ kind: 'answered' });
  await tellRound(world, flight, 2);
  expect((await question(run, 2)).runId).toBe(request.runId);
  flight.end(DONE);
  await run.result();
  const [first, second] = await executions(world, run.runId);
  expect(first?.runId).toBe(request.runId);
  expect(second?.runId).not.toBe(request.runId);
  expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
});

test('F38: after a reset the question of the dispatch before is not answered: the call is asked about as one that may have run', async () => {
  const { world } = scene;
  const { run, flight } = await held();
  const before = await question(run);
  await resetRun(world.client, { workflowId: run.runId, runId: before.runId });
  // The dispatch before speaks to the run that it was scheduled by, which is no more.
  expect(await refusalOfTold(tellRound(world, flight, 2))).toBeDefined();
  const again = await until(
    async () => {
      const request = (await run.requests()).find(({ status }) => status === 'open');
      return request === undefined || request.runId === before.runId ? undefined : request;
    },
    { what: 'the question in the run that the reset made' },
  );
  expect(await refusalOf(run.provideInput(answerTo(before, named('Ann'))))).toMatchObject({
    code: 'DECISION_STALE_RUN',
  });
  // Temporal dispatches once more what was under way; a real dispatch sees by `runId` that it was revived, and says so.
  await until(async () => scene.flightsOf(run).length > 1, { what: 'the revived dispatch' });
  flight.end(DONE);
  const stale = { kind: 'reopen', code: 'DISPATCH_STALE_RUN', message: 'It may have been sent before.' } as const;
  scene.flightsOf(run).at(-1)?.end(stale);
  const asked = await until(
    async () => (await run.requests()).find(({ status, about }) => status === 'open' && about === undefined),
    { what: 'the call, asked about anew' },
  );
  expect(asked).toMatchObject({ runId: again.runId, reopenedBecause: expect.stringContaining('DISPATCH_STALE_RUN') });
  expect(asked.generation).toBeGreaterThan(again.generation);
  await run.stop({ by: 'ann', reason: 'seen' });
  await run.result();
  expect(await closings(run)).toEqual(['cancelled', 'cancelled']);
});

test('INV-G2: an answer that races the end of its call, a stop or an interruption is taken or refused, and the question closes once', async () => {
  const rivals: readonly ((run: RunHandle, flight: Flight) => unknown)[] = [
    (_, flight) => flight.end(DONE),
    (_, flight) => flight.lose(),
    async (run) => await run.stop({ by: 'ann', reason: 'enough' }),
    async (run) => await run.say({ messageId: 'm-1', text: 'No.', from: 'ann', interrupt: true }),
  ];
  const races = [...rivals, ...rivals].map(async (rival) => {
    const { run, flight } = await held();
    const answer = answerTo(await question(run), named('Ann'));
    const [said] = await Promise.allSettled([run.provideInput(answer), rival(run, flight)]);
    const facts = (await run.ledger()).map(({ fact }) => fact.kind);
    const closedBy = facts.filter((kind) => kind === 'input.provided' || kind === 'request.closed');
    const refused =
      said.status === 'rejected' // Sound: the client rejects with no other.
        ? (said.reason as CountersignError).code
        : undefined;
    // On a machine that is busy the client may not hear in time whether it was taken: once it was, or not at all.
    if (refused === 'RESULT_UNCERTAIN') expect(closedBy).toHaveLength(1);
    else expect(closedBy).toEqual([refused === undefined ? 'input.provided' : 'request.closed']);
    flight.end(DONE);
    await run.stop({ by: 'ann', reason: 'seen' }).catch(() => undefined);
    return (await run.result()).status;
  });
  const statuses = await Promise.all(races);
  expect(statuses.filter((status) => status !== 'completed' && status !== 'stopped')).toEqual([]);
});
