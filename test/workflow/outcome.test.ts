/** A call that was sent and whose answer was lost: a person says what became of it, and nothing is sent again before (INV-X1, F6–F9). */
import { describe, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import { UPDATES } from '../../contracts/names.ts';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import { resultOf } from '../../domain/views/model-text.ts';
import { factsOf, outcomesAtEnd, refusalOf, results, traceOf, transcript } from '../support/world/run-record.ts';
import { lostCall, resolutionOf } from '../support/scenes/lost-answers.ts';
import { until } from '../support/until.ts';
import { decideNext, decisionOn, openRequests } from '../support/world/world.ts';
import { useBank } from '../support/world/bank-world.ts';

const both = { ids: ['ann', 'bob'] };
const policy: ConfigInput['policy'] = {
  approvers: both,
  servers: {
    open: { default: 'allow' },
    four: { tools: { slow: { action: 'ask', approvers: { ...both, need: 2 } } } },
  },
};
const { bank, world } = useBank({ policy }, { names: ['bank', 'open', 'four'] });

const slow = (server: string, purpose: string) => ({ tool: `${server}/slow`, arguments: { purpose } });
const END = { text: 'done' };
/** A server that says nothing for a second has lost the call. */
const limits = { callTimeoutSeconds: 1 };

async function lost(server: 'bank' | 'open' | 'four', purpose: string, over = {}): Promise<RunHandle> {
  const run = await world.start([{ calls: [slow(server, purpose)] }, END], { limits, ...over });
  if (server === 'bank') {
    await decideNext(run, 'ann');
  }
  if (server === 'four') {
    const [request] = await openRequests(run);
    await run.decide(decisionOn(request, 'ann'));
    await run.decide(decisionOn(request, 'bob'));
  }
  return run;
}

async function told(run: RunHandle): Promise<string> {
  const [result] = await results(world, run);
  if (result === undefined) throw new Error('no result');
  return resultOf(result).text;
}

test('is asked about with what is known, of whom policy names, and is not sent meanwhile', async () => {
  const run = await lost('open', 'known');
  const request = await lostCall(run);
  expect(request).toMatchObject({
    status: 'open',
    tool: 'slow',
    generation: 1,
    about: {
      kind: 'outcome',
      attempt: 1,
      message: expect.stringContaining('may or may not have run'),
      token: { strategy: 'none' },
    },
    approvers: { allOf: [{ layer: 'organisation', ids: ['ann', 'bob'] }] },
  });
  expect(Date.parse(request.about?.kind === 'outcome' ? (request.about.sentAt ?? '') : '')).toBeLessThanOrEqual(
    Date.parse(request.openedAt),
  );
  expect(await run.state()).toMatchObject({ status: 'waiting', pending: 1 });
  expect(factsOf(await run.ledger(), 'request.opened')).toMatchObject([{ about: { kind: 'outcome' } }]);
  const waiting = await until(
    async () => (await world.countersign.waiting()).find(({ runId }) => runId === run.runId),
    { what: 'the run in the inbox' },
  );
  expect(waiting.pending.requests).toMatchObject([{ callId: 't1.c0', about: 'outcome' }]);
  expect(bank.callsFor('known')).toHaveLength(1);
  await run.resolveOutcome(resolutionOf(request, 'bob', { kind: 'failed', message: 'nothing there' }));
  await run.result();
});

test('is not shown as done: its activity fails, and what the worker knows is known all the same', async () => {
  const run = await lost('open', 'red');
  const request = await lostCall(run);
  const { events } = await world.client.workflow.getHandle(run.runId).fetchHistory();
  const failed = (events ?? []).flatMap(({ activityTaskFailedEventAttributes: each }) => each?.failure ?? []);
  expect(failed).toMatchObject([
    {
      message: 'What became of call t1.c0 is not known; it may have run.',
      applicationFailureInfo: { type: 'OUTCOME_UNKNOWN', nonRetryable: true },
    },
  ]);
  expect(request.about).toMatchObject({ kind: 'outcome', sentAt: expect.any(String), token: { strategy: 'none' } });
  await run.resolveOutcome(resolutionOf(request, 'bob', { kind: 'failed', message: 'nothing there' }));
  await run.result();
});

test('is asked about where the tool is not repeatable any more when the run would send it again by itself (INV-X1)', async () => {
  const { open: server } = world.config.servers;
  if (server === undefined) throw new Error('no server');
  server.repeatable = ['slow'];
  const run = await lost('open', 'taken back');
  await until(async () => bank.callsFor('taken back').length === 1);
  server.repeatable = [];
  const { about } = await lostCall(run);
  expect(about).toMatchObject({ kind: 'outcome', message: expect.stringContaining('not called repeatable any more') });
  expect(bank.callsFor('taken back')).toHaveLength(1);
  await run.stop({ by: 'ann', reason: 'seen' });
  await run.result();
});

describe('the answer', () => {
  test('retry sends it once more, with the same idempotency key, and its result is the tool’s', async () => {
    const run = await lost('open', 'retry');
    const request = await lostCall(run);
    bank.release('retry');
    const ack = await run.resolveOutcome(resolutionOf(request, 'ann', { kind: 'retry' }));
    expect(ack).toMatchObject({ callId: 't1.c0', answer: 'retry', decidedBy: 'ann' });
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded' });
    const keys = bank.callsFor('retry').map(({ headers }) => headers['idempotency-key']);
    expect(keys).toHaveLength(2);
    const [key, ...others] = new Set(keys);
    expect(key).toMatch(new RegExp(`^${run.runId}/t1\\.c0/[0-9a-f]{16}$`));
    expect(others).toEqual([]);
    const ledger = await run.ledger();
    expect(factsOf(ledger, 'dispatched')).toMatchObject([{ attempt: 1 }, { attempt: 2 }]);
    expect(factsOf(ledger, 'outcome.resolved')).toMatchObject([{ answer: 'retry', approver: { id: 'ann' } }]);
    expect((await results(world, run))[0]?.outcome).not.toHaveProperty('recordedBy');
  });

  test('retry of a call that was approved keeps its consent: nobody is asked for that again', async () => {
    const run = await lost('bank', 'consented');
    const request = await lostCall(run, 't1.c0', 2);
    expect(request.generation).toBe(2);
    bank.release('consented');
    await run.resolveOutcome(resolutionOf(request, 'bob', { kind: 'retry' }));
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded' });
    expect(factsOf(await run.ledger(), 'decision.accepted')).toHaveLength(1);
    expect(bank.callsFor('consented')).toHaveLength(2);
  });

  test('retry of a call that is lost again asks again, under another digest', async () => {
    const run = await lost('open', 'twice');
    const first = await lostCall(run);
    await run.resolveOutcome(resolutionOf(first, 'ann', { kind: 'retry' }));
    const second = await lostCall(run, 't1.c0', 2);
    expect(second).toMatchObject({ generation: 2, about: { attempt: 2 } });
    expect(second.digest).not.toBe(first.digest);
    // What was said of the first is no answer to the second.
    const stale = resolutionOf(first, 'bob', { kind: 'retry' });
    expect(await refusalOf(run.resolveOutcome(stale))).toMatchObject({ code: 'DIGEST_MISMATCH' });
    await run.resolveOutcome(resolutionOf(second, 'ann', { kind: 'failed', message: 'nothing there' }));
    await run.result();
    expect(bank.callsFor('twice')).toHaveLength(2);
  });

  test('succeeded is told to the model as the words of whoever said it, and nothing is sent (INV-X2)', async () => {
    const run = await lost('open', 'done');
    await run.resolveOutcome(resolutionOf(await lostCall(run), 'ann', { kind: 'succeeded', result: 'It is note 7.' }));
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded' });
    expect((await results(world, run))[0]?.outcome).toMatchObject({ kind: 'succeeded', recordedBy: 'ann' });
    expect(await told(run)).toContain('ann has found out what became of it: it succeeded');
    expect(await told(run)).toContain('It is note 7.');
    expect(bank.callsFor('done')).toHaveLength(1);
    expect(await run.requests()).toEqual([]);
  });

  test('failed is told as final', async () => {
    const run = await lost('open', 'gone');
    await run.resolveOutcome(
      resolutionOf(await lostCall(run), 'ann', { kind: 'failed', message: 'No note is there.' }),
    );
    await run.result();
    expect((await results(world, run))[0]?.outcome).toMatchObject({ kind: 'failed', recordedBy: 'ann' });
    expect(await told(run)).toContain('do not repeat');
    expect(bank.callsFor('gone')).toHaveLength(1);
  });

  test('retry by one of two who must agree asks both for consent, and says that it may have run', async () => {
    const run = await lost('four', 'eyes');
    await run.resolveOutcome(resolutionOf(await lostCall(run, 't1.c0', 2), 'ann', { kind: 'retry' }));
    const [request] = await openRequests(run);
    expect(request).toMatchObject({
      generation: 3,
      asItIs: true,
      reopenedBecause: expect.stringContaining('It may have run'),
    });
    expect(request).not.toHaveProperty('about');
    expect(bank.callsFor('eyes')).toHaveLength(1);
    bank.release('eyes');
    await run.decide(decisionOn(request, 'ann'));
    await run.decide(decisionOn(request, 'bob'));
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded' });
    expect(bank.callsFor('eyes')).toHaveLength(2);
  });
});

describe('changes nothing and leaves no trace (INV-G2)', () => {
  async function sendRaw(run: RunHandle, update: string, input: unknown): Promise<string> {
    return await world.client.workflow
      .getHandle(run.runId)
      .executeUpdate<unknown, [unknown]>(update, { args: [input] })
      .then(
        () => 'accepted',
        (error: unknown) => codedFailureIn(error)?.code ?? String(error),
      );
  }

  test('an answer of a stranger, of another digest, of the wrong kind, or of no shape', async () => {
    const run = await lost('open', 'refused');
    const request = await lostCall(run);
    const before = await traceOf(world, run.runId);
    const fresh = () => resolutionOf(request, 'ann', { kind: 'retry' });
    const send = async (input: unknown) => await sendRaw(run, UPDATES.resolveOutcome, input);
    expect(await send({ ...fresh(), approver: { id: 'mallory', groups: [] } })).toBe('APPROVER_NOT_ENTITLED');
    expect(await send({ ...fresh(), digest: 'f'.repeat(64) })).toBe('DIGEST_MISMATCH');
    expect(await send({ ...fresh(), callId: 't1.c7' })).toBe('CALL_UNKNOWN');
    expect(await send({ ...fresh(), kind: 'again' })).toBe('DECISION_INVALID');
    expect(await send({ ...fresh(), result: 'x' })).toBe('DECISION_INVALID');
    expect(await send({ ...fresh(), kind: 'succeeded', result: '' })).toBe('DECISION_INVALID');
    for (const kind of ['approve', 'reject'] as const)
      expect(await sendRaw(run, UPDATES.decide, decisionOn(request, 'ann', kind))).toBe('DECISION_NOT_PERMITTED');
    expect(await traceOf(world, run.runId)).toEqual(before);
    expect(bank.callsFor('refused')).toHaveLength(1);
    await run.resolveOutcome(resolutionOf(request, 'ann', { kind: 'failed', message: 'x' }));
    await run.result();
  });

  test('an answer to a request for consent', async () => {
    const run = await world.start([{ calls: [slow('bank', 'consent')] }, END], { limits });
    const [request] = await openRequests(run);
    const answer = resolutionOf(request, 'ann', { kind: 'succeeded', result: 'x' });
    expect(await sendRaw(run, UPDATES.resolveOutcome, answer)).toBe('DECISION_NOT_PERMITTED');
    await run.decide(decisionOn(request, 'ann', 'reject'));
    await run.result();
  });

  test('a decision by signal: it is a refusal in the ledger', async () => {
    const run = await lost('open', 'signal');
    const request = await lostCall(run);
    await world.client.workflow.getHandle(run.runId).signal('decide', decisionOn(request, 'ann'));
    await run.resolveOutcome(resolutionOf(request, 'ann', { kind: 'failed', message: 'x' }));
    await run.result();
    expect(factsOf(await run.ledger(), 'decision.refused')).toMatchObject([{ code: 'DECISION_NOT_PERMITTED' }]);
    expect(bank.callsFor('signal')).toHaveLength(1);
  });
});

test('a run whose policy records it asks nobody: the outcome is unknown at once', async () => {
  const run = await lost('open', 'record', { policy: { unknownOutcomes: 'record' } });
  expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'unknown' });
  expect(factsOf(await run.ledger(), 'request.opened')).toEqual([]);
  expect((await transcript(world, run)).length).toBeGreaterThan(0);
});
