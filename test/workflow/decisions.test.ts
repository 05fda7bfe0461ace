/**
 * A decision settles exactly the request whose digest it echoes, once; everything else changes nothing (INV-G2).
 * One file, because one, several, repeated and contrary decisions are the same question.
 */
import { describe, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import { PENDING_MEMO } from '../../contracts/names.ts';
import type { ApprovalRequest, DecisionInput } from '../../contracts/schemas/request.ts';
import { requestDigest } from '../../domain/request/digest.ts';
import {
  codeOf,
  executions,
  factsOf,
  ledgerShows,
  outcomes,
  outcomesAtEnd,
  refusalOf,
  traceOf,
  transcript,
} from '../support/world/run-record.ts';
import { until } from '../support/until.ts';
import {
  decideNext,
  decisionOn,
  openRequests,
  requestAfter,
  requestFor,
  rolled,
  useEngine,
} from '../support/world/world.ts';
import { resetRun } from '../support/world/reset.ts';
import { useBank } from '../support/world/bank-world.ts';

const engine = useEngine();

const pay = (purpose: string, amount = 1) => ({ tool: 'bank/pay', arguments: { purpose, amount } });
const END = { text: 'done' };

describe('decisions of one person', () => {
  const approvers = { ids: ['ann', 'bob'], groups: ['auditors'] };
  const { bank, world } = useBank(
    { taskQueue: 'decisions', policy: { approvers, servers: { bank: { tools: { lookup: 'allow' } } } } },
    { engine },
  );

  async function asking(
    purpose: string,
    count = 1,
  ): Promise<{ run: RunHandle; requests: readonly ApprovalRequest[]; first: ApprovalRequest }> {
    const run = await world.start([
      { calls: Array.from({ length: count }, (_, index) => pay(purpose, index + 1)) },
      END,
    ]);
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

  describe('one decision', () => {
    describe('a refused decision has a code of its own and leaves no event in history (S2.3, S3.9, F18, F20)', () => {
      test('while the request waits', async () => {
        const { run, first } = await asking('refused');
        const { first: foreign } = await asking('foreign');
        const before = await traceOf(world, run.runId);
        const fresh = () => decisionOn(first, 'ann');
        const elsewhere = { ...fresh(), runId: 'another-temporal-run' };
        const target = {
          server: first.server,
          serverUrl: first.serverUrl,
          tool: first.tool,
          definitionHash: first.definitionHash,
        };
        const forged = requestDigest({ ...first, target, runId: elsewhere.runId });

        expect(await sendRaw(run, { ...fresh(), digest: 'f'.repeat(64) })).toBe('DIGEST_MISMATCH');
        // Of the same call of another run (B-1, D-5).
        expect(await sendRaw(run, { ...fresh(), digest: foreign.digest, runId: foreign.runId })).toBe(
          'DIGEST_MISMATCH',
        );
        // The digest is right for the run it names, and that run is none of this chain.
        expect(await sendRaw(run, { ...elsewhere, digest: forged })).toBe('DECISION_STALE_RUN');
        expect(await sendRaw(run, { ...fresh(), callId: 't1.c9' })).toBe('CALL_UNKNOWN');
        // A gate that is not there yet cannot be opened in advance.
        expect(await sendRaw(run, { ...fresh(), callId: 't2.c0' })).toBe('CALL_UNKNOWN');
        expect(await sendRaw(run, { ...fresh(), approver: { id: 'mallory', groups: [] } })).toBe(
          'APPROVER_NOT_ENTITLED',
        );
        expect(await sendRaw(run, { ...fresh(), approver: { id: 'mallory', groups: ['auditor'] } })).toBe(
          'APPROVER_NOT_ENTITLED',
        );
        expect(await traceOf(world, run.runId)).toEqual(before);
        expect(factsOf(await run.ledger(), 'decision.refused')).toEqual([]);
        expect(bank.callsFor('refused')).toEqual([]);
        expect(await sendRaw(run, { ...fresh(), approver: { id: 'eve', groups: ['auditors'] } })).toBe('accepted');
      });

      test('where its shape is wrong, with the path and nothing started', async () => {
        const { run, first } = await asking('shape');
        const before = await traceOf(world, run.runId);
        const good = decisionOn(first, 'ann');
        const bad: readonly unknown[] = [
          null,
          'approve',
          [good],
          { ...good, kind: 'maybe' },
          { ...good, digest: undefined },
          { ...good, approver: 'ann' },
          { ...good, approver: { id: 'ann', groups: [], admin: true } },
          { ...good, callId: 't1' },
          { ...good, tool: 'bank/close' },
          { ...good, kind: 'reject' },
          { ...good, kind: 'reject', reason: '' },
          { ...good, comment: 'x'.repeat(5_000) },
          { approved: true },
        ];
        for (const input of bad) expect([input, await sendRaw(run, input)]).toEqual([input, 'DECISION_INVALID']);
        // The shape of an edit, which no list permits here.
        expect(await sendRaw(run, { ...good, arguments: { amount: 1_000_000 } })).toBe('DECISION_NOT_PERMITTED');
        expect(await traceOf(world, run.runId)).toEqual(before);
        // The client library says it without asking Temporal.
        expect(await refusalOf(run.decide({ ...good, digest: 'short' }))).toMatchObject({
          code: 'DECISION_INVALID',
          facts: { path: 'digest' },
        });
      });

      test('after somebody else decided, with who it was', async () => {
        const { run, requests, first } = await asking('second', 2);
        await run.decide(decisionOn(first, 'ann'));
        await ledgerShows(run, 'outcome', first.callId);
        const before = await traceOf(world, run.runId);
        const second = await refusalOf(run.decide(decisionOn(first, 'bob', 'reject')));
        expect(second).toMatchObject({ code: 'ALREADY_DECIDED', facts: { decidedBy: 'ann', callId: first.callId } });
        expect(await traceOf(world, run.runId)).toEqual(before);
        expect(await openRequests(run)).toMatchObject([{ callId: requests[1]?.callId }]);
        expect(bank.callsFor('second')).toHaveLength(1);
      });

      test('where the call was never asked, in this turn and after it', async () => {
        const run = await world.start([
          { calls: [{ tool: 'bank/lookup', arguments: { purpose: 'free' } }, pay('free')] },
          { calls: [pay('free')] },
          END,
        ]);
        const [request] = await openRequests(run);
        await ledgerShows(run, 'outcome', 't1.c0');
        expect(await sendRaw(run, { ...decisionOn(request, 'ann'), callId: 't1.c0' })).toBe('REQUEST_NOT_OPEN');
        await run.decide(decisionOn(request, 'ann'));
        await ledgerShows(run, 'request.opened', 't2.c0');
        expect(await sendRaw(run, { ...decisionOn(request, 'ann'), callId: 't1.c0' })).toBe('REQUEST_NOT_OPEN');
        expect(await sendRaw(run, decisionOn(request, 'bob'))).toBe('ALREADY_DECIDED');
      });

      test('once the run is over, or was never there', async () => {
        const { run, first } = await asking('over');
        await run.decide(decisionOn(first, 'ann'));
        await run.result();
        expect(await refusalOf(run.decide(decisionOn(first, 'bob')))).toMatchObject({ code: 'RUN_CLOSED' });
        expect(await refusalOf(world.countersign.run('no-such-run').decide(decisionOn(first, 'ann')))).toMatchObject({
          code: 'RUN_NOT_FOUND',
        });
      });
    });

    describe('the signal twin, for senders that cannot send updates', () => {
      test('decides like the update, and what it cannot decide is a ledger entry', async () => {
        const { run, first, requests } = await asking('signal', 2);
        const handle = world.client.workflow.getHandle(run.runId);
        await handle.signal('decide', { ...decisionOn(first, 'mallory'), decisionId: 'sent-by-mallory' });
        await handle.signal('decide', 'nonsense');
        await handle.signal('decide', decisionOn(first, 'ann'));
        await ledgerShows(run, 'outcome', first.callId);
        await handle.signal('decide', { ...decisionOn(first, 'bob', 'reject'), decisionId: 'too-late' });
        await until(async () => factsOf(await run.ledger(), 'decision.refused').length === 3, {
          what: 'three refusals',
        });
        expect(factsOf(await run.ledger(), 'decision.refused')).toMatchObject([
          { callId: 't1.c0', decisionId: 'sent-by-mallory', approver: 'mallory', code: 'APPROVER_NOT_ENTITLED' },
          { callId: 'unknown', code: 'DECISION_INVALID' },
          { callId: 't1.c0', decisionId: 'too-late', approver: 'bob', code: 'ALREADY_DECIDED' },
        ]);
        expect(bank.callsFor('signal')).toHaveLength(1);
        expect(await openRequests(run)).toMatchObject([{ callId: requests[1]?.callId }]);
      });

      test('sent while no worker runs, two that contradict each other are taken in the order of their arrival', async () => {
        const { run, first } = await asking('signals');
        await world.workers.stop();
        const handle = world.client.workflow.getHandle(run.runId);
        await handle.signal('decide', { ...decisionOn(first, 'bob', 'reject'), decisionId: 'first' });
        await handle.signal('decide', { ...decisionOn(first, 'ann'), decisionId: 'second' });
        await world.restartWorkers();
        expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'rejected' });
        expect(factsOf(await run.ledger(), 'decision.refused')).toMatchObject([
          { decisionId: 'second', code: 'ALREADY_DECIDED' },
        ]);
        expect(bank.callsFor('signals')).toEqual([]);
      });
    });

    test('a decision made while no worker runs is uncertain, and counts once when it is sent again (A-4, INV-D3)', async () => {
      const { run, first } = await asking('uncertain');
      const decision = decisionOn(first, 'ann');
      await world.workers.stop();
      const hurried = world.hurried(500).run(run.runId);
      expect(await refusalOf(hurried.decide(decision))).toMatchObject({ code: 'RESULT_UNCERTAIN' });
      await world.restartWorkers();
      expect(await run.decide(decision)).toMatchObject({ status: 'approved', decidedBy: 'ann' });
      await run.result();
      expect(bank.callsFor('uncertain')).toHaveLength(1);
    });
  });

  describe('a decision that comes twice, or against another one (B-12, D-4, F16, F17)', () => {
    describe('a decision sent twice runs its call once and no other (B-12, D-4, F16)', () => {
      /** Two gated calls of one tool in two turns, as in the peers' hazard script. */
      async function twoGates(purpose: string): Promise<{ run: RunHandle; first: ApprovalRequest }> {
        const run = await world.start([{ calls: [pay(purpose, 1)] }, { calls: [pay(purpose, 3)] }, END]);
        const [first] = await openRequests(run);
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
        await rolled(world, run.runId);
        expect(await run.decide(decision)).toEqual(ack);
        expect(await refusalOf(run.decide(decisionOn(first, 'bob')))).toMatchObject({
          code: 'ALREADY_DECIDED',
          facts: { decidedBy: 'ann' },
        });
        // What was shown before the roll can be decided after it.
        const [waiting] = await openRequests(run);
        expect(waiting?.runId).not.toBe(first.runId);
        await run.decide(decisionOn(waiting, 'bob'));
        await run.result();
        expect(bank.callsFor('rolled')).toHaveLength(2);
        expect(await executions(world, run.runId)).toHaveLength(2);
      });
    });

    describe('decisions that race (F17)', () => {
      test('of two that contradict each other in one workflow task one wins, and the other is told', async () => {
        const { run, first, requests } = await asking('conflict', 2);
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
        expect(factsOf(await run.ledger(), 'decision.accepted')).toHaveLength(1);
        // Only now may the run end: who comes after its end is told another code.
        for (const other of requests.slice(1)) await run.decide(decisionOn(other, 'ann', 'reject'));
        await run.result();
        const approved = won[0]?.status === 'approved';
        expect(await outcomes(run)).toEqual({ 't1.c0': approved ? 'succeeded' : 'rejected', 't1.c1': 'rejected' });
        expect(bank.callsFor('conflict')).toHaveLength(approved ? 1 : 0);
      });

      test('a decision and the deadline in one workflow task: expired, in state, ledger and at the server (F19)', async () => {
        const policy = { servers: { bank: { tools: { pay: { action: 'ask' as const, deadlineSeconds: 10 } } } } };
        const run = await world.start([{ calls: [pay('instant')] }, END], { policy });
        const [request] = await openRequests(run);
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
        expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'expired' });
        const ledger = await run.ledger();
        expect(factsOf(ledger, 'decision.refused')).toMatchObject([
          { decisionId: 'in-the-last-moment', code: 'DECISION_EXPIRED' },
        ]);
        expect(factsOf(ledger, 'decision.accepted')).toEqual([]);
        expect(bank.callsFor('instant')).toEqual([]);
      });
    });
  });
});

describe('calls that several must countersign, and that their initiator must not (E-2, E-4, F-12, INV-G1–G3)', () => {
  const approvers = { ids: ['ann', 'ben', 'zoe'], need: 2, notInitiator: true as const };
  const { bank, world } = useBank(
    {
      taskQueue: 'quorum',
      policy: { servers: { bank: { tools: { pay: { action: 'ask', approvers }, lookup: 'allow' } } } },
    },
    { engine },
  );

  const steps = (purpose: string) => [{ calls: [{ tool: 'bank/pay', arguments: { purpose } }] }, { text: 'done' }];

  async function asked(purpose: string) {
    const run = await world.start(steps(purpose), { initiator: { id: 'ann' } });
    const [request] = await openRequests(run);
    return { run, request };
  }

  function withdrawalOf(request: ApprovalRequest, id: string): DecisionInput {
    const { callId, digest, runId } = request;
    return { kind: 'withdraw', decisionId: `withdraw-${id}`, callId, digest, runId, approver: { id } };
  }

  test('two people who did not start it: the first counts, the second lets it run, once', async () => {
    const { run, request } = await asked('two');
    expect(request.approvers).toEqual({
      allOf: [{ layer: 'organisation', ids: ['ann', 'ben', 'zoe'], groups: [], need: 2, not: ['ann'] }],
    });
    expect(await run.decide(decisionOn(request, 'ben'))).toMatchObject({ status: 'counted' });
    expect(await openRequests(run)).toMatchObject([{ digest: request.digest, votes: [{ approver: { id: 'ben' } }] }]);
    expect(bank.callsFor('two')).toEqual([]);
    expect(await codeOf(run.decide(decisionOn(request, 'ben')))).toBe('ALREADY_DECIDED');
    expect(await codeOf(run.decide(decisionOn(request, 'ann')))).toBe('APPROVER_NOT_ENTITLED');
    expect(await run.decide(decisionOn(request, 'zoe'))).toMatchObject({ status: 'approved' });
    await run.result();
    expect(bank.callsFor('two')).toHaveLength(1);
    expect(factsOf(await run.ledger(), 'decision.accepted').map(({ approver }) => approver.id)).toEqual(['ben', 'zoe']);
  });

  test('a vote outlives continue-as-new and a new worker, and counts with one that was made after', async () => {
    const { run, request } = await asked('rolled');
    await run.decide(decisionOn(request, 'ben'));
    const handle = world.client.workflow.getHandle(run.runId);
    await handle.signal('nudge');
    const after = await requestAfter(run, request);
    expect(after.votes).toMatchObject([{ approver: { id: 'ben' } }]);
    await world.restartWorkers();
    await run.decide(decisionOn(after, 'zoe'));
    await run.result();
    expect(bank.callsFor('rolled')).toHaveLength(1);
  });

  test('one rejection is enough, and one who takes an approval back is not counted', async () => {
    const { run, request } = await asked('back');
    await run.decide(decisionOn(request, 'ben'));
    expect(await run.decide(withdrawalOf(request, 'ben'))).toMatchObject({ status: 'withdrawn' });
    expect(await codeOf(run.decide(withdrawalOf(request, 'zoe')))).toBe('REQUEST_NOT_OPEN');
    expect(await run.decide(decisionOn(request, 'zoe'))).toMatchObject({ status: 'counted' });
    await run.decide(decisionOn(request, 'ben', 'reject'));
    await run.result();
    expect(factsOf(await run.ledger(), 'outcome')).toMatchObject([{ outcome: 'rejected' }]);
    expect(bank.callsFor('back')).toEqual([]);
  });

  test('three at once: two of them let it run once, and the third is told', async () => {
    const { run, request } = await asked('once');
    const all = await Promise.allSettled([
      run.decide(decisionOn(request, 'ben')),
      run.decide(decisionOn(request, 'zoe')),
      run.decide(decisionOn(request, 'ben')),
    ]);
    expect(all.filter(({ status }) => status === 'fulfilled')).toHaveLength(2);
    await run.result();
    expect(bank.callsFor('once')).toHaveLength(1);
  });

  test('after a reset the votes that were made before it count no more (INV-G2)', async () => {
    const { run, request } = await asked('reset');
    await run.decide(decisionOn(request, 'ben'));
    // So that the vote lies before the point of the reset.
    await run.advance();
    await resetRun(world.client, { workflowId: run.runId, runId: request.runId });
    const fresh = await requestAfter(run, request);
    await run.decide(decisionOn(fresh, 'zoe'));
    // One of the two was made in a run that no longer counts: nothing is sent, and both are asked again.
    const again = await until(async () => (await run.requests()).find(({ generation }) => generation === 2), {
      what: 'the request that was asked again',
    });
    expect(again.reopenedBecause).toContain('DECISION_STALE_RUN');
    expect(again.votes).toBeUndefined();
    expect(bank.callsFor('reset')).toEqual([]);
    for (const id of ['ben', 'zoe']) await run.decide(decisionOn(again, id));
    await run.result();
    expect(bank.callsFor('reset')).toHaveLength(1);
  });
});

describe('what was refused is not asked again before the user speaks (B-14, INV-G3, INV-X2)', () => {
  const tools = { lookup: 'deny', pay: 'ask' } as const;
  const { bank, world } = useBank({ taskQueue: 'repeats', policy: { servers: { bank: { tools } } } }, { engine });

  async function reject(run: RunHandle, callId: string): Promise<void> {
    await run.decide({
      ...decisionOn(await requestFor(run, callId), 'ann', 'reject'),
      kind: 'reject',
      reason: 'no need',
    });
  }

  test('a rejected call is answered from the ledger, also after continue-as-new, until the user speaks (B-14, INV-D3)', async () => {
    const heard = { call: 0, outcome: 'rejected', textIncludes: 'as t1.c0' } as const;
    const run = await world.start([
      { calls: [pay('again', 1)] },
      { calls: [pay('again', 1), pay('again', 2)] },
      { calls: [], text: 'lost', branches: [{ when: heard, then: { calls: [pay('again', 1)] } }] },
      { calls: [pay('again', 3)] },
      { calls: [pay('again', 1)] },
      END,
    ]);
    await reject(run, 't1.c0');
    await requestFor(run, 't2.c1');
    expect((await run.requests()).map(({ callId }) => callId)).toEqual(['t2.c1']);
    await rolled(world, run.runId);
    await decideNext(run, 'ann');
    // What was carried answers the third turn too.
    const third = await requestFor(run, 't4.c0');
    expect(await outcomes(run)).toEqual({
      't1.c0': 'rejected',
      't2.c0': 'rejected',
      't2.c1': 'succeeded',
      't3.c0': 'rejected',
    });
    expect(factsOf(await run.ledger(), 'outcome').map(({ repeatOf }) => repeatOf)).toEqual([
      undefined,
      't1.c0',
      undefined,
      't1.c0',
    ]);
    expect(factsOf(await run.ledger(), 'request.opened').map(({ callId }) => callId)).toEqual([
      't1.c0',
      't2.c1',
      't4.c0',
    ]);
    await run.say({ messageId: 'm1', text: 'Pay it after all.', from: 'ann' });
    await run.decide(decisionOn(third, 'ann'));
    const last = await requestFor(run, 't5.c0');
    await run.decide(decisionOn(last, 'ann'));
    expect(await run.result()).toMatchObject({ status: 'completed', output: 'done' });
    expect(bank.callsFor('again').map(({ arguments: args }) => args['amount'])).toEqual([2, 3, 1]);
    const results = (await transcript(world, run)).flatMap((said) => (said.role === 'tool' ? said.results : []));
    expect(results[1]?.outcome).toEqual({ kind: 'rejected', by: 'ann', reason: 'no need', repeatOf: 't1.c0' });
  });

  test('a denied call is; one that expired, or went over a limit, is asked again (F-5)', async () => {
    const denied = { tool: 'bank/lookup', arguments: { purpose: 'denied' } };
    const run = await world.start(
      [
        { calls: [denied, pay('short', 1), pay('short', 2)] },
        { calls: [denied, pay('short', 1)] },
        { calls: [pay('short', 2)] },
        END,
      ],
      {
        limits: { callsPerTurn: 2 },
        policy: { servers: { bank: { tools: { pay: { action: 'ask', deadlineSeconds: 1 } } } } },
      },
    );
    expect(await outcomesAtEnd(run)).toEqual({
      't1.c0': 'denied',
      't1.c1': 'expired',
      't1.c2': 'denied',
      't2.c0': 'denied',
      't2.c1': 'expired',
      't3.c0': 'expired',
    });
    const repeats = factsOf(await run.ledger(), 'outcome').filter(({ repeatOf }) => repeatOf !== undefined);
    expect(repeats).toMatchObject([{ callId: 't2.c0', outcome: 'denied', code: 'POLICY_DENIED', repeatOf: 't1.c0' }]);
    expect(bank.callsFor('denied')).toEqual([]);
  });

  test('a duplicate within a turn says so, and runs only if it is approved itself (INV-G3)', async () => {
    const run = await world.start([{ calls: [pay('twice'), pay('twice'), pay('twice', 2)] }, END]);
    const [first, second, third] = await openRequests(run, 3);
    expect([first, second, third].map(({ duplicateOf }) => duplicateOf)).toEqual([undefined, 't1.c0', undefined]);
    const { memo } = await world.client.workflow.getHandle(run.runId).describe();
    expect(memo?.[PENDING_MEMO]).toMatchObject({ requests: [{}, { callId: 't1.c1', duplicateOf: 't1.c0' }, {}] });
    await run.decide(decisionOn(first, 'ann'));
    await ledgerShows(run, 'outcome', 't1.c0');
    expect((await openRequests(run, 2)).map(({ callId }) => callId)).toEqual(['t1.c1', 't1.c2']);
    await run.decide(decisionOn(second, 'ann', 'reject'));
    await run.decide(decisionOn(third, 'ann'));
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded', 't1.c1': 'rejected', 't1.c2': 'succeeded' });
    expect(bank.callsFor('twice')).toHaveLength(2);
  });
});
