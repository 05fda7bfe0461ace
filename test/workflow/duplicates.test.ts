/** A decision that comes twice, or against another one, still settles one request once (B-12, D-4, F16, F17). */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { type RecordingServer, startRecordingServer } from '../support/recording-server.ts';
import { executions, factsOf, ledgerShows, outcomes, refusalOf } from '../support/run-record.ts';
import { until } from '../support/until.ts';
import { decisionOn, openRequests, startWorld, type World } from '../support/world.ts';

let bank: RecordingServer;
let world: World;

beforeAll(async () => {
  bank = await startRecordingServer();
  const approvers = { ids: ['ann', 'bob'], groups: ['auditors'] };
  const policy = { approvers, servers: { bank: { tools: { lookup: 'allow' } } } } as const;
  world = await startWorld({ config: { policy, servers: { bank: { url: bank.url, credentials: { kind: 'none' } } } } });
});
afterAll(async () => {
  await world.stop();
  await bank.close();
});

const pay = (purpose: string, amount = 1) => ({ tool: 'bank/pay', arguments: { purpose, amount } });
const END = { text: 'done' };

async function asking(
  purpose: string,
  count = 1,
): Promise<{ run: RunHandle; requests: readonly ApprovalRequest[]; first: ApprovalRequest }> {
  const run = await world.start([{ calls: Array.from({ length: count }, (_, index) => pay(purpose, index + 1)) }, END]);
  const requests = await openRequests(run, count);
  const [first] = requests;
  if (first === undefined) throw new Error('no request');
  return { run, requests, first };
}

/** Straight to Temporal, as any namespace writer may. */
async function sendRaw(run: RunHandle, input: unknown): Promise<string> {
  try {
    await world.client.workflow.getHandle(run.runId).executeUpdate('decide', { args: [input] });
    return 'accepted';
  } catch (error) {
    return codedFailureIn(error)?.code ?? String(error);
  }
}

describe('a decision sent twice runs its call once and no other (B-12, D-4, F16)', () => {
  /** Two gated calls of one tool in two turns, as in the peers' hazard script. */
  async function twoGates(purpose: string): Promise<{ run: RunHandle; first: ApprovalRequest }> {
    const run = await world.start([{ calls: [pay(purpose, 1)] }, { calls: [pay(purpose, 3)] }, END]);
    const [first] = await openRequests(run);
    if (first === undefined) throw new Error('no request');
    return { run, first };
  }

  async function expectOnce(run: RunHandle, purpose: string): Promise<void> {
    await ledgerShows(run, 'request.opened', 't2.c0');
    const [next] = await openRequests(run);
    expect(next).toMatchObject({ callId: 't2.c0', status: 'open' });
    expect(bank.callsFor(purpose).map(({ arguments: args }) => args['amount'])).toEqual([1]);
    expect(factsOf(await run.ledger(), 'decision.accepted')).toHaveLength(1);
    expect(factsOf(await run.ledger(), 'dispatched')).toHaveLength(1);
  }

  test('later, with the same id: the first answer again', async () => {
    const { run, first } = await twoGates('late-same');
    const decision = decisionOn(first, 'ann');
    const ack = await run.decide(decision);
    await ledgerShows(run, 'request.opened', 't2.c0');
    expect(await run.decide(decision)).toEqual(ack);
    await expectOnce(run, 'late-same');
  });

  test('later, with another id or by another person: refused, the next gate untouched', async () => {
    const { run, first } = await twoGates('late-other');
    await run.decide(decisionOn(first, 'ann'));
    await ledgerShows(run, 'request.opened', 't2.c0');
    expect(await refusalOf(run.decide(decisionOn(first, 'ann')))).toMatchObject({ code: 'ALREADY_DECIDED' });
    expect(await refusalOf(run.decide(decisionOn(first, 'bob')))).toMatchObject({ code: 'ALREADY_DECIDED' });
    // The same words moved to the next gate are not about it.
    expect(await refusalOf(run.decide({ ...decisionOn(first, 'ann'), callId: 't2.c0' }))).toMatchObject({
      code: 'DIGEST_MISMATCH',
    });
    await expectOnce(run, 'late-other');
  });

  test('at once, with the same id: both get the one answer', async () => {
    const { run, first } = await twoGates('both-same');
    const decision = decisionOn(first, 'ann');
    const [one, other] = await Promise.all([run.decide(decision), run.decide(decision)]);
    expect(one).toEqual(other);
    await expectOnce(run, 'both-same');
  });

  test('at once, by two people: one counts, the other hears who', async () => {
    const { run, first } = await twoGates('both-other');
    const answers = await Promise.allSettled([
      run.decide(decisionOn(first, 'ann')),
      run.decide(decisionOn(first, 'bob')),
    ]);
    const [won] = answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []));
    const lost = answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason as unknown] : []));
    expect(lost).toMatchObject([{ code: 'ALREADY_DECIDED', facts: { decidedBy: won?.decidedBy } }]);
    await expectOnce(run, 'both-other');
  });

  test('an id that was used for another decision is refused', async () => {
    const { run, first, requests } = await asking('reused', 2);
    const decision = decisionOn(first, 'ann');
    await run.decide(decision);
    const [, second] = requests;
    if (second === undefined) throw new Error('two requests');
    // Under an update id of its own, or Temporal would give the first answer to whatever it is.
    expect(await sendRaw(run, { ...decisionOn(second, 'ann'), decisionId: decision.decisionId })).toBe(
      'DECISION_INVALID',
    );
    await ledgerShows(run, 'outcome', first.callId);
    expect(bank.callsFor('reused')).toHaveLength(1);
  });

  test('after continue-as-new: the first answer, and nothing runs again (INV-D3)', async () => {
    const { run, first } = await asking('rolled', 2);
    const decision = decisionOn(first, 'ann');
    const ack = await run.decide(decision);
    await ledgerShows(run, 'outcome', first.callId);
    await world.client.workflow.getHandle(run.runId).signal('nudge');
    await until(async () => ((await run.state()).runId === first.runId ? undefined : true), {
      what: 'the next execution',
    });
    expect(await run.decide(decision)).toEqual(ack);
    expect(await refusalOf(run.decide(decisionOn(first, 'bob')))).toMatchObject({
      code: 'ALREADY_DECIDED',
      facts: { decidedBy: 'ann' },
    });
    // What was shown before the roll can be decided after it.
    const [waiting] = await openRequests(run);
    expect(waiting?.runId).not.toBe(first.runId);
    if (waiting === undefined) throw new Error('no request');
    await run.decide(decisionOn(waiting, 'bob'));
    await run.result();
    expect(bank.callsFor('rolled')).toHaveLength(2);
    expect(await executions(world, run.runId)).toHaveLength(2);
  });
});

describe('decisions that race (F17)', () => {
  test('of two that contradict each other in one workflow task one wins, and the other is told', async () => {
    const { run, first } = await asking('conflict');
    await world.workers.stop();
    const answers = Promise.allSettled([
      run.decide(decisionOn(first, 'ann')),
      run.decide(decisionOn(first, 'bob', 'reject')),
    ]);
    await world.restartWorkers();
    const settled = await answers;
    const won = settled.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []));
    const lost = settled.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason as unknown] : []));
    expect(won).toHaveLength(1);
    expect(lost).toMatchObject([{ code: 'ALREADY_DECIDED', facts: { decidedBy: won[0]?.decidedBy } }]);
    await run.result();
    const approved = won[0]?.status === 'approved';
    expect(await outcomes(run)).toEqual({ 't1.c0': approved ? 'succeeded' : 'rejected' });
    expect(bank.callsFor('conflict')).toHaveLength(approved ? 1 : 0);
    expect(factsOf(await run.ledger(), 'decision.accepted')).toHaveLength(1);
  });

  test('a decision and the deadline in one workflow task: expired, in state, ledger and at the server (F19)', async () => {
    const policy = { servers: { bank: { tools: { pay: { action: 'ask' as const, deadlineSeconds: 10 } } } } };
    const run = await world.start([{ calls: [pay('instant')] }, END], { policy });
    const [request] = await openRequests(run);
    if (request === undefined) throw new Error('no request');
    const handle = world.client.workflow.getHandle(run.runId);
    await world.workers.stop();
    await handle.signal('decide', { ...decisionOn(request, 'ann'), decisionId: 'in-the-last-moment' });
    // Temporal writes down that the timer fired, although nobody is there to hear of it.
    const fired = async () => {
      const { events } = await handle.fetchHistory();
      return events?.some(({ timerFiredEventAttributes: timer }) => timer !== undefined && timer !== null) === true
        ? true
        : undefined;
    };
    await until(fired, { what: 'the deadline', withinMs: 45_000 });
    await world.restartWorkers();
    await run.result();
    expect(await outcomes(run)).toEqual({ 't1.c0': 'expired' });
    const ledger = await run.ledger();
    expect(factsOf(ledger, 'decision.refused')).toMatchObject([
      { decisionId: 'in-the-last-moment', code: 'DECISION_EXPIRED' },
    ]);
    expect(factsOf(ledger, 'decision.accepted')).toEqual([]);
    expect(bank.callsFor('instant')).toEqual([]);
  });

  test('in a flood of sixty, exactly one is accepted for each call', async () => {
    const { run, requests } = await asking('flood', 3);
    const senders = Array.from({ length: 60 }, (_, index) => {
      // Sound: the index is below the number of requests.
      const request = requests[index % requests.length] as ApprovalRequest;
      return decisionOn(request, index % 2 === 0 ? 'ann' : 'bob', index % 5 === 0 ? 'reject' : 'approve');
    });
    const answers = await Promise.allSettled(senders.map((decision) => run.decide(decision)));
    await run.result();
    const accepted = factsOf(await run.ledger(), 'decision.accepted');
    expect(accepted.map(({ callId }) => callId).toSorted()).toEqual(['t1.c0', 't1.c1', 't1.c2']);
    const won = answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value.decisionId] : []));
    expect(won.toSorted()).toEqual(accepted.map(({ decisionId }) => decisionId).toSorted());
    const codes = answers.flatMap((answer) =>
      answer.status === 'rejected' ? [(answer.reason as { code: string }).code] : [],
    );
    expect(codes.filter((code) => code !== 'ALREADY_DECIDED' && code !== 'RUN_CLOSED')).toEqual([]);
    expect(bank.callsFor('flood')).toHaveLength(accepted.filter(({ decision }) => decision === 'approve').length);
  });
});
