/** What becomes of the question what a call did: time, stop, races, sendings twice, continue-as-new, reset (INV-X1, INV-D3, INV-G2). */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import { lostCall, resolutionOf } from '../support/scenes/lost-answers.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import { executions, factsOf, outcomes, refusalOf, results } from '../support/world/run-record.ts';
import { resetRun } from '../support/world/reset.ts';
import { until } from '../support/until.ts';
import { startWorld, type World } from '../support/world/world.ts';

let bank: RecordingServer;
let world: World;

beforeAll(async () => {
  bank = await startRecordingServer();
  const servers = { open: { url: bank.url, credentials: { kind: 'none' } } } as const;
  world = await startWorld({
    config: { policy: { approvers: { ids: ['ann', 'bob'] }, servers: { open: { default: 'allow' } } }, servers },
  });
});
afterAll(async () => {
  await world.stop();
  await bank.close();
});

const END = { text: 'done' };
const limits = { callTimeoutSeconds: 1 };

async function lost(purpose: string, over = {}): Promise<RunHandle> {
  const call = { tool: 'open/slow', arguments: { purpose } };
  return await world.start([{ calls: [call] }, END], { limits, ...over });
}

async function expectUnknown(run: RunHandle, purpose: string, status: 'expired' | 'cancelled'): Promise<void> {
  await run.result().catch(() => undefined);
  expect(await outcomes(run)).toEqual({ 't1.c0': 'unknown' });
  expect(factsOf(await run.ledger(), 'request.closed')).toMatchObject([{ status }]);
  expect(bank.callsFor(purpose)).toHaveLength(1);
}

describe('ends unknown, and nothing is sent', () => {
  test('when nobody says anything before the deadline', async () => {
    const run = await lost('expired', { policy: { deadlineSeconds: 2 } });
    const request = await lostCall(run);
    await expectUnknown(run, 'expired', 'expired');
    const late = resolutionOf(request, 'ann', { kind: 'retry' });
    expect(await refusalOf(run.resolveOutcome(late))).toMatchObject({ code: 'RUN_CLOSED' });
  });

  test('when the run is stopped', async () => {
    const run = await lost('stopped');
    await lostCall(run);
    await run.stop({ by: 'ann', reason: 'enough' });
    await expectUnknown(run, 'stopped', 'cancelled');
  });

  test('when the run is cancelled', async () => {
    const run = await lost('cancelled');
    await lostCall(run);
    await run.cancel();
    await expectUnknown(run, 'cancelled', 'cancelled');
  });

  test('when the time of the run is over', async () => {
    const run = await lost('wall', { limits: { ...limits, wallClockSeconds: 5 } });
    await lostCall(run);
    await expectUnknown(run, 'wall', 'cancelled');
  });

  test('when a message interrupts', async () => {
    const run = await lost('interrupted');
    await lostCall(run);
    await run.say({ messageId: 'm1', text: 'Leave it.', from: 'ann', interrupt: true });
    await expectUnknown(run, 'interrupted', 'cancelled');
  });
});

describe('counts once', () => {
  test('of two answers at once one: the other is told who was first', async () => {
    const run = await lost('race');
    const request = await lostCall(run);
    const answers = await Promise.allSettled([
      run.resolveOutcome(resolutionOf(request, 'ann', { kind: 'succeeded', result: 'It is there.' })),
      run.resolveOutcome(resolutionOf(request, 'bob', { kind: 'failed', message: 'It is not there.' })),
    ]);
    await run.result();
    expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    const [resolved] = factsOf(await run.ledger(), 'outcome.resolved');
    expect(answers.find(({ status }) => status === 'rejected')).toMatchObject({
      reason: { code: expect.stringMatching(/^(ALREADY_DECIDED|REQUEST_NOT_OPEN|RUN_CLOSED)$/) },
    });
    expect(factsOf(await run.ledger(), 'outcome.resolved')).toHaveLength(1);
    expect((await results(world, run))[0]?.outcome).toMatchObject({ recordedBy: resolved?.approver.id });
  });

  test('sent again it gets its first answer, also in the next execution; another under its id is refused', async () => {
    const run = await lost('resent');
    const request = await lostCall(run);
    const again = resolutionOf(request, 'ann', { kind: 'retry' });
    const ack = await run.resolveOutcome(again);
    const second = await lostCall(run, 't1.c0', 2);
    expect(await run.resolveOutcome(again)).toEqual(ack);
    // Not by the id of Temporal's update: the run itself remembers.
    const raw = async (updateId: string) =>
      await world.client.workflow
        .getHandle(run.runId)
        .executeUpdate<unknown, [unknown]>('resolveOutcome', { args: [again], updateId });
    expect(await raw('other')).toEqual(ack);
    await nudged(run, second.runId);
    expect(await raw('another')).toEqual(ack);
    const other = { ...resolutionOf(second, 'ann', { kind: 'retry' }), decisionId: again.decisionId };
    const handle = world.client.workflow.getHandle(run.runId);
    await expect(handle.executeUpdate('resolveOutcome', { args: [other], updateId: 'x' })).rejects.toThrow();
    expect(bank.callsFor('resent')).toHaveLength(2);
    const [open] = (await run.requests()).filter(({ status }) => status === 'open');
    if (open === undefined) throw new Error('no request');
    await run.resolveOutcome(resolutionOf(open, 'ann', { kind: 'failed', message: 'x' }));
    await run.result();
    expect(factsOf(await run.ledger(), 'outcome.resolved')).toHaveLength(2);
  });
});

async function nudged(run: RunHandle, before: string): Promise<void> {
  await world.client.workflow.getHandle(run.runId).signal('nudge');
  await until(async () => ((await run.state()).runId === before ? undefined : true), { what: 'the next execution' });
}

test('waits on over continue-as-new: what was shown before counts, and the call keeps its key (INV-D3)', async () => {
  const run = await lost('rolled');
  const request = await lostCall(run);
  await nudged(run, request.runId);
  const [shown] = await run.requests();
  expect(shown).toMatchObject({ status: 'open', about: request.about, generation: 1, deadline: request.deadline });
  bank.release('rolled');
  await run.resolveOutcome(resolutionOf(request, 'ann', { kind: 'retry' }));
  await run.result();
  expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
  expect(new Set(bank.callsFor('rolled').map(({ headers }) => headers['idempotency-key'])).size).toBe(1);
  expect(await executions(world, run.runId)).toHaveLength(2);
});

test('a word of before a reset sends nothing: the same is asked again (INV-G2)', async () => {
  const run = await lost('reset');
  const request = await lostCall(run);
  await run.resolveOutcome(resolutionOf(request, 'ann', { kind: 'retry' }));
  await lostCall(run, 't1.c0', 2);
  expect(bank.callsFor('reset')).toHaveLength(2);
  // To before the word, which Temporal then delivers again.
  const runId = await resetRun(
    world.client,
    { workflowId: run.runId },
    ({ workflowExecutionUpdateAcceptedEventAttributes: accepted }) => Boolean(accepted),
  );
  const asked = await until(
    async () => (await run.requests()).find((each) => each.runId === runId && each.status === 'open'),
    { what: 'the same question again' },
  );
  expect(asked).toMatchObject({ about: request.about, generation: 1 });
  expect(asked.digest).not.toBe(request.digest);
  const stale = resolutionOf(request, 'ann', { kind: 'retry' });
  expect(await refusalOf(run.resolveOutcome(stale))).toMatchObject({ code: 'DECISION_STALE_RUN' });
  expect(bank.callsFor('reset')).toHaveLength(2);
  bank.release('reset');
  await run.resolveOutcome(resolutionOf(asked, 'ann', { kind: 'retry' }));
  await run.result();
  expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
  expect(bank.callsFor('reset')).toHaveLength(3);
});
