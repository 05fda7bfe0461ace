/**
 * Each way to end a run, in each state that it can be in beyond those of `ending.test.ts`: what is open is resolved,
 * all is stored, and nothing of it happens later (S3.10, B-16, F16, F37, INV-D3). What becomes of the question what a
 * call did (INV-X1, INV-G2). What is spent, counted up to its limit and beyond it (INV-G4).
 */
import { describe, expect, test } from '@jest/globals';
import { assertIntact, type RunHandle } from '../../client/index.ts';
import { startModelProvider } from '../support/models/provider.ts';
import {
  executions,
  factsOf,
  ledgerShows,
  outcomes,
  outcomesAtEnd,
  recordedLedger,
  refusalOf,
  results,
} from '../support/world/run-record.ts';
import { lostCall, resolutionOf } from '../support/scenes/lost-answers.ts';
import { until } from '../support/until.ts';
import { useBank } from '../support/world/bank-world.ts';
import { resetRun } from '../support/world/reset.ts';
import { decisionOn, openRequests, rolled, type World } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

/** Never answers with anything but an error that may pass. */
const provider = during(() => startModelProvider('chat-completions'));
const both = { action: 'ask' as const, approvers: { ids: ['ann', 'bob'], need: 2 } };
const { bank, world } = useBank(
  () => ({
    policy: {
      approvers: { ids: ['ann', 'bob'] },
      servers: { open: { default: 'allow' }, bank: { tools: { pay: both } } },
    },
    models: {
      away: { provider: 'openai-compatible', model: 'local-model', baseUrl: provider.baseUrl, apiKey: 'none' },
    },
  }),
  { names: ['bank', 'open'] },
);

const END = { text: 'done' };

describe('a stop counts once, however often it is sent, in each state (S3.10, B-16, F37)', () => {
  const call = (tool: string, purpose: string) => ({ tool, arguments: { purpose } });
  const LATER = { messageId: 'm1', text: 'And then?', from: 'ann' } as const;

  const WAYS = {
    cancel: (run: RunHandle) => run.cancel(),
    stop: (run: RunHandle) => run.stop({ by: 'ann', reason: 'enough' }),
    'stop with calls': (run: RunHandle) => run.stop({ by: 'ann', reason: 'enough', inFlight: 'cancel' }),
  } as const;
  type Way = keyof typeof WAYS;

  interface State {
    readonly name: string;
    /** Resolves once the run is in that state. */
    readonly reach: (purpose: string) => Promise<RunHandle>;
    readonly wanted: Readonly<Record<string, string>> | ((way: Way) => Readonly<Record<string, string>>);
    readonly sent: number;
  }

  const slowAndPay = (purpose: string) => [{ calls: [call('open/slow', purpose), call('bank/pay', purpose)] }, END];
  /** Whether a call that is under way may finish, or what it did stays unknown. */
  const underWay = (way: Way) => (way === 'stop' ? 'succeeded' : 'unknown');

  const STATES: readonly State[] = [
    {
      name: 'a model step waits to be tried again',
      reach: async () => {
        const before = provider.received.length;
        const run = await world.start([END], { agent: { name: 'clerk', model: 'away' } });
        await until(() => provider.received.length > before, { what: 'the first try' });
        return run;
      },
      wanted: {},
      sent: 0,
    },
    {
      name: 'one of two has agreed',
      reach: async (purpose) => {
        const run = await world.start([{ calls: [call('bank/pay', purpose)] }, END]);
        const [request] = await openRequests(run);
        if (request !== undefined) await run.decide(decisionOn(request, 'bob'));
        return run;
      },
      wanted: { 't1.c0': 'cancelled' },
      sent: 0,
    },
    {
      name: 'it has continued as new, and asks',
      reach: async (purpose) => {
        const run = await world.start([{ calls: [call('open/pay', purpose), call('bank/pay', purpose)] }, END]);
        await openRequests(run);
        await ledgerShows(run, 'outcome', 't1.c0');
        await rolled(world, run.runId);
        return run;
      },
      wanted: { 't1.c0': 'succeeded', 't1.c1': 'cancelled' },
      sent: 1,
    },
    {
      name: 'a message waits to be read',
      reach: async (purpose) => {
        const run = await world.start(slowAndPay(purpose));
        await openRequests(run);
        await bank.held(purpose);
        await run.say(LATER);
        return run;
      },
      wanted: (way) => ({ 't1.c0': underWay(way), 't1.c1': 'cancelled' }),
      sent: 1,
    },
    {
      name: 'it was interrupted, and a call is under way',
      reach: async (purpose) => {
        const run = await world.start(slowAndPay(purpose));
        await openRequests(run);
        await bank.held(purpose);
        await run.say({ ...LATER, interrupt: true });
        return run;
      },
      wanted: (way) => ({ 't1.c0': underWay(way), 't1.c1': 'cancelled' }),
      sent: 1,
    },
  ];

  describe.each(STATES)('while $name', ({ name, reach, wanted, sent }) => {
    // Sound: these are its keys.
    test.each(Object.keys(WAYS) as Way[])('%s', async (way) => {
      const purpose = `${way} ${name}`;
      const run = await reach(purpose);
      await WAYS[way](run);
      if (way === 'stop') bank.release(purpose);
      const status = way === 'cancel' ? 'cancelled' : 'stopped';
      if (way === 'cancel') expect(await refusalOf(run.result())).toMatchObject({ code: 'RUN_CANCELLED' });
      else expect(await run.result()).toMatchObject({ status, because: 'enough' });
      expect(await outcomes(run)).toEqual(typeof wanted === 'function' ? wanted(way) : wanted);

      const ledger = await run.ledger();
      assertIntact(ledger, run.runId);
      expect(ledger.at(-1)?.fact).toMatchObject({ kind: 'run.ended', status });
      expect(factsOf(ledger, 'run.ended')).toHaveLength(1);
      expect(await recordedLedger(world, run)).toEqual(ledger);
      expect(await run.state()).toMatchObject({ status, pending: 0 });

      // Nothing is left that could happen, and nobody can add to it.
      const handle = world.client.workflow.getHandle(run.runId);
      expect((await handle.describe()).raw.pendingActivities).toEqual([]);
      expect((await executions(world, run.runId)).at(-1)?.events.at(-1)).toMatchObject({
        eventType: way === 'cancel' ? 21 : 2,
      });
      for (const late of [
        () => run.say({ ...LATER, messageId: 'm2' }),
        () => run.say({ ...LATER, messageId: 'm3', interrupt: true }),
        () => run.stop({ by: 'bob', reason: 'late' }),
      ])
        expect(await refusalOf(late())).toMatchObject({ code: 'RUN_CLOSED' });
      bank.release(purpose);
      expect(bank.callsFor(purpose)).toHaveLength(sent);
    });
  });

  test('the same stop, sent twice, counts once and gets its first answer; another one is another (F16)', async () => {
    const run = await world.start(slowAndPay('twice'));
    await openRequests(run);
    await bank.held('twice');
    const stop = { by: 'ann', reason: 'enough' } as const;
    const [first, second] = [await run.stop(stop), await run.stop(stop)];
    expect(second).toEqual(first);
    // Also where Temporal does not know it: by any client, under any id.
    await world.client.workflow.getHandle(run.runId).executeUpdate('stop', { args: [stop] });
    await run.stop({ ...stop, by: 'bob' });
    expect(factsOf(await run.ledger(), 'stop.requested')).toMatchObject([{ by: 'ann', inFlight: 'finish' }]);
    await run.stop({ ...stop, inFlight: 'cancel' });
    expect(await run.result()).toMatchObject({ status: 'stopped', because: 'enough' });
    expect(factsOf(await run.ledger(), 'stop.requested')).toHaveLength(2);
    expect(await outcomes(run)).toEqual({ 't1.c0': 'unknown', 't1.c1': 'cancelled' });
    const [{ events } = { events: [] }] = await executions(world, run.runId);
    const accepted = events.filter(({ workflowExecutionUpdateAcceptedEventAttributes: it }) => it?.acceptedRequest);
    expect(accepted).toHaveLength(4);
    bank.release('twice');
  });
});

describe('the question what a call did (INV-X1, INV-D3, INV-G2)', () => {
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
      const run = await lost('expired', { policy: { deadlineSeconds: 10 } });
      const request = await lostCall(run);
      await expectUnknown(run, 'expired', 'expired');
      const late = resolutionOf(request, 'ann', { kind: 'retry' });
      expect(await refusalOf(run.resolveOutcome(late))).toMatchObject({ code: 'RUN_CLOSED' });
    });

    test('when the time of the run is over', async () => {
      const run = await lost('wall', { limits: { ...limits, wallClockSeconds: 10 } });
      await lostCall(run);
      await expectUnknown(run, 'wall', 'cancelled');
    });

    test.each<[string, (run: RunHandle) => Promise<unknown>]>([
      ['the run is stopped', (run) => run.stop({ by: 'ann', reason: 'enough' })],
      ['the run is cancelled', (run) => run.cancel()],
      ['a message interrupts', (run) => run.say({ messageId: 'm1', text: 'Leave it.', from: 'ann', interrupt: true })],
    ])('when %s', async (what, end) => {
      const run = await lost(what);
      await lostCall(run);
      await end(run);
      await expectUnknown(run, what, 'cancelled');
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
      await rolled(world, run.runId);
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

  test('waits on over continue-as-new: what was shown before counts, and the call keeps its key (INV-D3)', async () => {
    const run = await lost('rolled');
    const request = await lostCall(run);
    await rolled(world, run.runId);
    const [shown] = await run.requests();
    expect(shown).toMatchObject({ status: 'open', about: request.about, generation: 1, deadline: request.deadline });
    bank.release('rolled');
    await run.resolveOutcome(resolutionOf(request, 'ann', { kind: 'retry' }));
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded' });
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
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded' });
    expect(bank.callsFor('reset')).toHaveLength(3);
  });
});

describe('a limit of spend (INV-G4)', () => {
  const call = (purpose: string) => ({ tool: 'open/lookup', arguments: { purpose } });
  type Limits = Readonly<Record<string, number | string>>;

  /** A model that costs 1 millionth a token in, and 3 a token out. */
  async function start(steps: Parameters<World['spec']>[0], limits: Limits): Promise<RunHandle> {
    const spec = world.spec(steps, { limits });
    const model = world.config.models[spec.agent.model];
    if (model !== undefined) model.price = { input: '1', output: '3', currency: 'EUR' };
    const runId = `${spec.agent.model}-priced`;
    const run = await world.countersign.startRun({ runId, spec, taskQueue: world.config.taskQueue });
    return run;
  }

  async function expectLimited(run: RunHandle, limit: string, value: number): Promise<void> {
    expect(await run.result()).toMatchObject({ status: 'limited', because: limit, output: '' });
    const ledger = await run.ledger();
    expect(factsOf(ledger, 'limit.reached')).toEqual([{ kind: 'limit.reached', limit, value }]);
    expect(ledger.at(-1)?.fact).toMatchObject({ kind: 'run.ended', status: 'limited' });
    expect(await recordedLedger(world, run)).toEqual(ledger);
    expect(await run.state()).toMatchObject({ status: 'limited', because: limit, pending: 0 });
  }

  // A script takes as many tokens in as there are messages, and gives one out for each part: 1 + 1, then 3 + 1.
  test('spend: a step is taken below it, and none at it; the calls of the last step still ran', async () => {
    const steps = (purpose: string) => [{ calls: [call(purpose)] }, END];
    const below = await start(steps('below'), { spend: '0.000005' });
    expect(await below.result()).toMatchObject({ status: 'completed', output: 'done' });
    expect(factsOf(await below.ledger(), 'limit.reached')).toEqual([]);
    const at = await start(steps('at'), { spend: '0.000004' });
    await expectLimited(at, 'spend', 4);
    expect(await outcomes(at)).toEqual({ 't1.c0': 'succeeded' });
    expect(bank.callsFor('at')).toHaveLength(1);
  });

  test('spend: a step may go beyond it, once, and what it cost is counted whole', async () => {
    const run = await start([{ calls: [call('over')], repeat: 5 }], { spend: '0.000005' });
    await expectLimited(run, 'spend', 5);
    // 1 + 3 and then 3 + 3.
    expect(factsOf(await run.ledger(), 'turn.proposed').map(({ cost }) => cost)).toEqual([4, 6]);
    expect(factsOf(await run.ledger(), 'run.started')).toMatchObject([
      { price: { input: 1_000_000, output: 3_000_000, currency: 'EUR' } },
    ]);
    expect(await run.result()).toMatchObject({ spent: { millionths: 10, currency: 'EUR' } });
    expect(await run.state()).toMatchObject({
      spent: { millionths: 10, currency: 'EUR' },
      limits: { turns: { used: 2, most: 100 }, spend: { used: 10, most: 5 }, endsBy: expect.any(String) },
    });
    expect(bank.callsFor('over')).toHaveLength(2);
  });

  test('spend: it is carried through continue-as-new', async () => {
    const run = await start([{ calls: [call('carried')], repeat: 9 }], { spend: '0.00003', turnsPerExecution: 1 });
    await expectLimited(run, 'spend', 30);
    const cost = factsOf(await run.ledger(), 'turn.proposed').map((fact) => fact.cost ?? 0);
    expect(cost).toEqual([4, 6, 8, 10, 12]);
    expect(await run.result()).toMatchObject({ spent: { millionths: 40 } });
  });
});
