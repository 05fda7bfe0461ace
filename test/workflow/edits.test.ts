/**
 * Approvals that change the arguments, answers in the tool's place, and approvals that answer later calls (F16, F17,
 * F23, F35, F36, B-7, B-8, D-4, G-1, G-2, INV-G1, INV-G2, INV-X2, INV-D3). One file, because all of them are
 * decisions that say more than yes or no.
 */
import { describe, expect, test } from '@jest/globals';
import { CountersignError, type RunHandle } from '../../client/index.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { ToolPolicyInput } from '../../contracts/schemas/policy.ts';
import type { ApprovalRequest, DecisionAck, DecisionInput, Remember } from '../../contracts/schemas/request.ts';
import { hashOf } from '../../domain/text/canonical.ts';
import { withCode } from '../support/refusal.ts';
import { codeOf, executions, factsOf, outcomes, refusalOf, results } from '../support/world/run-record.ts';
import { holdJudge, judging } from '../support/scenes/held-judge.ts';
import { until } from '../support/until.ts';
import { decisionOn, openRequests, requestAfter, requestFor, useEngine } from '../support/world/world.ts';
import { resetRun } from '../support/world/reset.ts';
import { useBank } from '../support/world/bank-world.ts';

const engine = useEngine();

describe('edits and answers (F16, F17, F23, B-7, B-8, INV-G1, INV-G2, INV-X2)', () => {
  const may: ('edit' | 'respond')[] = ['edit', 'respond'];
  const [ann, of2] = [
    { ids: ['ann', 'ben'], may },
    { ids: ['ann', 'ben', 'zoe'], need: 2, may },
  ];
  const tools = {
    pay: { action: 'ask', approvers: ann },
    transfer: { action: 'ask', approvers: ann },
    slow: { action: 'ask', approvers: of2 },
    bare: { action: 'ask', approvers: { ids: ['ann'] } },
  } satisfies Readonly<Record<string, ToolPolicyInput>>;
  const { bank, world } = useBank({ taskQueue: 'edits', policy: { servers: { bank: { tools } } } }, { engine });

  async function asking(tool: string, args: JsonObject): Promise<{ run: RunHandle; request: ApprovalRequest }> {
    const run = await world.start([{ calls: [{ tool: `bank/${tool}`, arguments: args }] }, { text: 'done' }]);
    const [request] = await openRequests(run);
    return { run, request };
  }

  const editOf = (request: ApprovalRequest, args: JsonObject, who = 'ann'): DecisionInput => ({
    ...(decisionOn(request, who) as Extract<DecisionInput, { kind: 'approve' }>),
    arguments: args,
  });
  const answerTo = (request: ApprovalRequest, answer: string, who = 'ann'): DecisionInput => {
    const { decisionId, callId, digest, runId, approver } = decisionOn(request, who);
    return { kind: 'respond', decisionId, callId, digest, runId, approver, answer };
  };

  describe('an edit', () => {
    test('INV-G1: what is sent is what the approver wrote, once; ledger, request and model say so', async () => {
      const { run, request } = await asking('pay', { purpose: 'wrong', amount: 100 });
      const edit = editOf(request, { purpose: 'right', amount: 10 });
      const ack = await run.decide(edit);
      expect(ack).toMatchObject({ status: 'approved', decidedBy: 'ann' });
      expect(await run.decide(edit)).toEqual(ack);
      await run.result();
      expect(bank.callsFor('wrong')).toEqual([]);
      expect(bank.callsFor('right')).toMatchObject([{ tool: 'pay', arguments: { purpose: 'right', amount: 10 } }]);
      const ledger = await run.ledger();
      expect(factsOf(ledger, 'decision.accepted')).toMatchObject([
        { edited: { from: hashOf(request.arguments), to: hashOf({ purpose: 'right', amount: 10 }) } },
      ]);
      expect(factsOf(ledger, 'verdict')).toHaveLength(2);
      expect(await codeOf(run.decide(decisionOn(request, 'ben')))).toBe('RUN_CLOSED');
      expect(await results(world, run)).toMatchObject([
        { callId: 't1.c0', edited: { by: 'ann', arguments: { purpose: 'right', amount: 10 } } },
      ]);
    });

    test('G-5, F23: what the judge denies is refused with the reason, and the request waits as it was', async () => {
      const { run, request } = await asking('transfer', { purpose: 'schema', amount: 1 });
      expect(await codeOf(run.decide(editOf(request, { purpose: 'schema', amount: 'all' })))).toBe('ARGUMENTS_INVALID');
      expect(await openRequests(run)).toMatchObject([{ digest: request.digest, arguments: request.arguments }]);
      expect(factsOf(await run.ledger(), 'decision.refused')).toMatchObject([{ code: 'ARGUMENTS_INVALID' }]);
      await run.decide(decisionOn(request, 'ann'));
      await run.result();
      expect(bank.callsFor('schema')).toMatchObject([{ arguments: { amount: 1 } }]);
    });

    test('B-7: nothing but arguments can be changed, and only where the rule permits it; none of it enters history', async () => {
      const { run, request } = await asking('bare', { purpose: 'bare' });
      const { request: paid, run: other } = await asking('pay', { purpose: 'same' });
      expect(await codeOf(run.decide(editOf(request, { purpose: 'x' })))).toBe('DECISION_NOT_PERMITTED');
      expect(await codeOf(run.decide(answerTo(request, 'no')))).toBe('DECISION_NOT_PERMITTED');
      expect(await codeOf(other.decide(editOf(paid, paid.arguments)))).toBe('DECISION_INVALID');
      expect(await codeOf(other.decide(editOf(paid, { a: 'x'.repeat(65_536) })))).toBe('ARGUMENTS_TOO_LARGE');
      expect(await codeOf(other.decide(editOf(paid, { a: 1 }, 'mallory')))).toBe('APPROVER_NOT_ENTITLED');
      const moved: DecisionInput = Object.assign(editOf(paid, { a: 1 }), { tool: 'bare' });
      expect(await codeOf(other.decide(moved))).toBe('DECISION_INVALID');
      for (const each of [run, other]) {
        const { events } = await world.client.workflow.getHandle(each.runId).fetchHistory();
        expect(events?.some(({ workflowExecutionUpdateAcceptedEventAttributes: accepted }) => accepted)).toBe(false);
      }
      await run.decide(decisionOn(request, 'ann', 'reject'));
      await other.decide(decisionOn(paid, 'ann', 'reject'));
      await Promise.all([run.result(), other.result()]);
    });

    test('E-1: where two must agree it is another proposal, which the other agrees to as it is now', async () => {
      const { run, request } = await asking('slow', { purpose: 'two', amount: 1 });
      bank.release('two');
      await run.decide(decisionOn(request, 'ben'));
      expect(await run.decide(editOf(request, { purpose: 'two', amount: 2 }))).toMatchObject({ status: 'edited' });
      const [now] = await openRequests(run);
      expect(now).toMatchObject({
        generation: 2,
        arguments: { purpose: 'two', amount: 2 },
        edited: { by: 'ann', proposed: { purpose: 'two', amount: 1 } },
        votes: [{ approver: { id: 'ann' } }],
        deadline: request.deadline,
      });
      expect(await codeOf(run.decide(decisionOn(request, 'zoe')))).toBe('DIGEST_MISMATCH');
      expect(bank.callsFor('two')).toEqual([]);
      expect(await run.decide(decisionOn(now, 'ben'))).toMatchObject({ status: 'approved' });
      await run.result();
      expect(bank.callsFor('two')).toMatchObject([{ arguments: { purpose: 'two', amount: 2 } }]);
    });

    test('by signal: taken as by update, and a refused one is a ledger entry', async () => {
      const { run, request } = await asking('transfer', { purpose: 'signal', amount: 1 });
      const handle = world.client.workflow.getHandle(run.runId);
      await handle.signal('decide', editOf(request, { purpose: 'signal' }));
      await handle.signal('decide', editOf(request, request.arguments));
      // INV-G2: after a reset Temporal would send it again, and nothing would find out that it is of before.
      await handle.signal('decide', answerTo(request, 'By signal.'));
      // Edits are judged side by side: the last one waits until the others are refused.
      const refused = await until(
        async () => {
          const facts = factsOf(await run.ledger(), 'decision.refused');
          return facts.length === 3 ? facts : undefined;
        },
        { what: 'three refusals' },
      );
      await handle.signal('decide', editOf(request, { purpose: 'signal', amount: 7 }));
      await run.result();
      expect(bank.callsFor('signal')).toMatchObject([{ arguments: { amount: 7 } }]);
      expect(refused.map(({ code }) => code).toSorted()).toEqual([
        'ARGUMENTS_INVALID',
        'DECISION_INVALID',
        'DECISION_NOT_PERMITTED',
      ]);
    });
  });

  test('INV-X2: who answers is named to the model, and the tool does not run', async () => {
    const { run, request } = await asking('pay', { purpose: 'answered' });
    expect(await run.decide(answerTo(request, 'Paid in cash.'))).toMatchObject({ status: 'answered' });
    await run.result();
    expect(bank.callsFor('answered')).toEqual([]);
    expect(await outcomes(run)).toEqual({ 't1.c0': 'answered' });
    expect(await results(world, run)).toMatchObject([
      { outcome: { kind: 'answered', by: 'ann', answer: 'Paid in cash.' } },
    ]);
  });

  test('F17, INV-G2: of fifty decisions of every kind at once exactly one settles the request', async () => {
    const { run, request } = await asking('pay', { purpose: 'fifty' });
    const fifty = Array.from({ length: 50 }, (_, index): DecisionInput => {
      const who = index % 2 === 0 ? 'ann' : 'ben';
      if (index % 4 === 0) return editOf(request, { purpose: 'fifty', index }, who);
      if (index % 4 === 1) return answerTo(request, `answer ${index}`, who);
      return decisionOn(request, who, index % 4 === 2 ? 'approve' : 'reject');
    });
    const answers = await Promise.all(
      fifty.map(async (each) => {
        try {
          return { kind: each.kind, status: (await run.decide(each)).status };
        } catch (error) {
          return { kind: each.kind, code: error instanceof CountersignError ? error.code : String(error) };
        }
      }),
    );
    await run.result();
    const winners = answers.filter(({ status }) => status !== undefined);
    expect(winners).toHaveLength(1);
    const codes = new Set(answers.flatMap(({ code }) => code ?? []));
    for (const code of codes)
      expect(['ALREADY_DECIDED', 'LIMIT_REACHED', 'RUN_CLOSED', 'REQUEST_NOT_OPEN']).toContain(code);
    expect(factsOf(await run.ledger(), 'decision.accepted')).toHaveLength(1);
    expect(bank.callsFor('fifty')).toHaveLength(winners[0]?.kind === 'approve' ? 1 : 0);
  });
});

describe('an edited call is judged anew (B-7, F23, INV-G1)', () => {
  const may = ['edit' as const];
  const match = { server: 'bank', tool: 'pay' };
  const { bank, world } = useBank(
    {
      taskQueue: 'edit-policy',
      policy: {
        rules: [
          { id: 'never', match, when: 'args.amount > 1000', then: 'deny', explain: 'Nobody pays that much.' },
          { id: 'much', match, when: 'args.amount > 100', then: 'ask', approvers: { ids: ['zoe'], may } },
          { id: 'some', match, then: 'ask', approvers: { ids: ['ann'], may } },
        ],
      },
    },
    { engine },
  );

  const edit = (request: ApprovalRequest, amount: number, who = 'ann'): DecisionInput =>
    Object.assign(decisionOn(request, who), { arguments: { ...request.arguments, amount } });

  test('what policy denies is refused with its reason, what others must agree to waits for them, and none of it is sent before', async () => {
    const purpose = 'rules';
    const run = await world.start([
      { calls: [{ tool: 'bank/pay', arguments: { purpose, amount: 10 } }] },
      { text: 'done' },
    ]);
    const request = await requestFor(run, 't1.c0');
    expect(request.approvers.allOf).toMatchObject([{ ids: ['ann'] }]);
    expect(await refusalOf(run.decide(edit(request, 5_000)))).toMatchObject(
      withCode('POLICY_DENIED', 'Nobody pays that much.'),
    );
    expect(await openRequests(run)).toMatchObject([{ digest: request.digest, arguments: { amount: 10 } }]);

    expect(await run.decide(edit(request, 500))).toMatchObject({ status: 'edited' });
    const [now] = await openRequests(run);
    expect(now).toMatchObject({ generation: 2, arguments: { amount: 500 }, approvers: { allOf: [{ ids: ['zoe'] }] } });
    expect(now).not.toHaveProperty('votes');
    expect(await codeOf(run.decide(decisionOn(now, 'ann')))).toBe('APPROVER_NOT_ENTITLED');
    expect(bank.callsFor(purpose)).toEqual([]);

    // Zoe makes it less than what is hers to decide: it is Ann's then.
    expect(await run.decide(edit(now, 50, 'zoe'))).toMatchObject({ status: 'edited' });
    const [small] = await openRequests(run);
    expect(small).toMatchObject({ generation: 3, edited: { by: 'zoe', proposed: { amount: 10 } } });
    expect(await run.decide(decisionOn(small, 'ann'))).toMatchObject({ status: 'approved' });
    await run.result();
    expect(bank.callsFor(purpose)).toMatchObject([{ arguments: { purpose, amount: 50 } }]);
    const ledger = await run.ledger();
    expect(factsOf(ledger, 'verdict').map(({ rules }) => rules[0])).toEqual([
      'organisation/rules/some',
      'organisation/rules/much',
      'organisation/rules/some',
    ]);
    expect(factsOf(ledger, 'decision.refused')).toMatchObject([{ code: 'POLICY_DENIED' }]);
  });
});

describe('what happens to an edit while it is judged (F16, F35, INV-D3, INV-G2)', () => {
  const approvers = { ids: ['ann', 'ben'], may: ['edit' as const] };
  const { bank, world } = useBank(
    { taskQueue: 'edit-judged', policy: { approvers, servers: { bank: { default: 'ask' } } } },
    { engine },
  );

  async function held(purpose: string) {
    const run = await world.start([
      { calls: [{ tool: 'bank/pay', arguments: { purpose, amount: 1 } }] },
      { text: 'done' },
    ]);
    const [request] = await openRequests(run);
    const release = await holdJudge(world, run);
    const edit = editOf(request, purpose);
    // An update that nobody waits for yet.
    const answer = answerOf(run.decide(edit));
    await judging(world, run);
    return { run, request, release, edit, answer };
  }

  /** The status, or the code of the refusal. */
  async function answerOf(sent: Promise<DecisionAck>): Promise<string> {
    try {
      return (await sent).status;
    } catch (error) {
      if (error instanceof CountersignError) return error.code;
      throw error;
    }
  }

  function editOf(request: ApprovalRequest, purpose: string): DecisionInput {
    return Object.assign(decisionOn(request, 'ann'), { arguments: { purpose, amount: 2 } });
  }

  const amounts = (purpose: string) => bank.callsFor(purpose).map(({ arguments: args }) => args['amount']);

  /** Of the edit, however long it took: sent again, it gets its first answer. */
  async function settledAs(run: RunHandle, edit: DecisionInput): Promise<string> {
    return await until(
      async () => {
        const code = await answerOf(run.decide(edit));
        return code === 'RESULT_UNCERTAIN' ? undefined : code;
      },
      { what: 'the answer to the edit' },
    );
  }

  test('a worker that is restarted meanwhile goes on judging, and the edit counts once', async () => {
    const { run, release, edit, answer } = await held('restart');
    await world.restartWorkers();
    await judging(world, run);
    await release();
    expect(['approved', 'RESULT_UNCERTAIN']).toContain(await answer);
    expect(['approved', 'RUN_CLOSED']).toContain(await settledAs(run, edit));
    await run.result();
    expect(amounts('restart')).toEqual([2]);
  });

  test('INV-G2: a decision that comes meanwhile is first, and the edit is told so', async () => {
    const { run, request, release, answer } = await held('overtaken');
    expect(await run.decide(decisionOn(request, 'ben'))).toMatchObject({ status: 'approved' });
    expect(await run.requests()).toMatchObject([{ status: 'approved', decidedBy: { id: 'ben' } }]);
    await release();
    expect(['ALREADY_DECIDED', 'REQUEST_NOT_OPEN', 'RUN_CLOSED', 'RESULT_UNCERTAIN']).toContain(await answer);
    await run.result();
    expect(amounts('overtaken')).toEqual([1]);
  });

  test('F35: a run that is nudged meanwhile waits for the verdict before it continues as new, and nothing is lost', async () => {
    const { run, request, release, edit, answer } = await held('nudged');
    await world.client.workflow.getHandle(run.runId).signal('nudge');
    await release();
    expect(['approved', 'RESULT_UNCERTAIN']).toContain(await answer);
    expect(['approved', 'RUN_CLOSED']).toContain(await settledAs(run, edit));
    await run.result();
    expect(amounts('nudged')).toEqual([2]);
    const all = await executions(world, run.runId);
    expect(all.length).toBe(2);
    expect(all.map(({ runId }) => runId)).toContain(request.runId);
  });

  test('S3.10: a run that is stopped meanwhile answers the editor, and sends nothing', async () => {
    const { run, release, answer } = await held('stopped');
    await run.stop({ by: 'ann', reason: 'enough' });
    expect(await answer).toBe('RUN_CLOSED');
    await release();
    expect(await run.result()).toMatchObject({ status: 'stopped' });
    expect(amounts('stopped')).toEqual([]);
    expect(await outcomes(run)).toEqual({ 't1.c0': 'cancelled' });
  });

  test('F36: so many edits are judged at once, and the next is refused before it is', async () => {
    const { run, request, release, answer } = await held('flood');
    const handle = world.client.workflow.getHandle(run.runId);
    for (let index = 0; index < 9; index += 1)
      await handle.signal('decide', { ...editOf(request, 'flood'), arguments: { purpose: 'flood', index } });
    await until(
      async () =>
        factsOf(await run.ledger(), 'decision.refused').filter(({ code }) => code === 'LIMIT_REACHED').length === 2,
      { what: 'two refusals' },
    );
    expect(await codeOf(run.decide(editOf(request, 'flood')))).toBe('LIMIT_REACHED');
    await release();
    await answer;
    await run.result();
    expect(bank.callsFor('flood')).toHaveLength(1);
  });
});

describe('approvals that answer later calls of a run (G-1, G-2, D-4, F35, INV-G1, INV-G2, INV-D3)', () => {
  const scopes: Remember['scope'][] = ['call', 'arguments', 'tool'];
  const tools = {
    pay: { action: 'ask', approvers: { ids: ['ann', 'ben'], remember: scopes } },
    bare: { action: 'ask', approvers: { ids: ['ann'] } },
    lookup: { action: 'ask', approvers: { ids: ['ann', 'ben', 'zoe'], need: 2, remember: scopes } },
  } satisfies Readonly<Record<string, ToolPolicyInput>>;
  const { bank, world } = useBank({ taskQueue: 'standing', policy: { servers: { bank: { tools } } } }, { engine });

  const call = (args: JsonObject, tool = 'pay') => ({ tool: `bank/${tool}`, arguments: args });

  async function asking(turns: readonly (readonly ReturnType<typeof call>[])[]): Promise<RunHandle> {
    return await world.start([...turns.map((calls) => ({ calls: [...calls] })), { text: 'done' }]);
  }

  const remembering = (request: ApprovalRequest, remember: Remember, who = 'ann'): DecisionInput =>
    Object.assign(decisionOn(request, who), { remember });

  const amounts = (purpose: string) => bank.callsFor(purpose).map(({ arguments: args }) => args['amount']);

  test('G-1: by some arguments: calls that have them pass, others are asked; state and ledger say by what', async () => {
    const purpose = 'some';
    const run = await asking([
      [call({ purpose, amount: 1 })],
      [call({ purpose, amount: 2 })],
      [call({ purpose: 'else' })],
    ]);
    const decision = remembering(await requestFor(run, 't1.c0'), { scope: 'arguments', names: ['purpose'] });
    await run.decide(decision);
    const third = await requestFor(run, 't3.c0');
    expect(third).toMatchObject({ status: 'open', arguments: { purpose: 'else' } });
    expect(amounts(purpose)).toEqual([1, 2]);
    expect((await run.state()).standing).toMatchObject([
      { standing: decision.decisionId, scope: 'arguments', arguments: { purpose }, by: ['ann'], tool: 'pay' },
    ]);
    await run.decide(decisionOn(third, 'ben'));
    await run.result();
    const ledger = await run.ledger();
    expect(factsOf(ledger, 'standing.made')).toMatchObject([{ scope: 'arguments', names: ['purpose'] }]);
    expect(factsOf(ledger, 'standing.used')).toEqual([
      { kind: 'standing.used', standing: decision.decisionId, callId: 't2.c0' },
    ]);
    expect(factsOf(ledger, 'request.opened').map(({ callId }) => callId)).toEqual(['t1.c0', 't3.c0']);
  });

  test('G-2: what waits already is released at once, and each is sent once', async () => {
    const purpose = 'queued';
    const same = call({ purpose, amount: 1 });
    const run = await asking([[same, same, call({ purpose, amount: 2 })]]);
    const [first, , third] = await openRequests(run, 3);
    await run.decide(remembering(first, { scope: 'call' }));
    await until(() => amounts(purpose).length === 2, { what: 'both equal calls' });
    expect(await openRequests(run)).toMatchObject([{ callId: 't1.c2' }]);
    await run.decide(decisionOn(third, 'ann', 'reject'));
    await run.result();
    expect(amounts(purpose)).toEqual([1, 1]);
  });

  test('where policy does not let it be remembered it is refused, and does not enter history', async () => {
    const run = await asking([[call({ purpose: 'bare' }, 'bare')]]);
    const request = await requestFor(run, 't1.c0');
    expect(await codeOf(run.decide(remembering(request, { scope: 'call' })))).toBe('DECISION_NOT_PERMITTED');
    await run.decide(decisionOn(request, 'ann', 'reject'));
    await run.result();
    expect(factsOf(await run.ledger(), 'decision.accepted')).toHaveLength(1);
  });

  test('E-1: of two, only what both said is remembered', async () => {
    const purpose = 'two';
    const run = await asking([[call({ purpose, amount: 1 }, 'lookup')], [call({ purpose, amount: 1 }, 'lookup')]]);
    const request = await requestFor(run, 't1.c0');
    await run.decide(remembering(request, { scope: 'tool' }));
    await run.decide(remembering(request, { scope: 'call' }, 'ben'));
    await run.result();
    expect(factsOf(await run.ledger(), 'standing.made')).toMatchObject([{ scope: 'call', by: ['ben', 'ann'] }]);
    expect(amounts(purpose)).toEqual([1, 1]);
  });

  describe('forget', () => {
    test('what would have been answered is asked again; said twice it is answered the same', async () => {
      const purpose = 'forgotten';
      const run = await asking([
        [call({ purpose, amount: 1 })],
        [call({ purpose: 'pause' }, 'bare')],
        [call({ purpose, amount: 2 })],
      ]);
      const decision = remembering(await requestFor(run, 't1.c0'), { scope: 'tool' });
      await run.decide(decision);
      const pause = await requestFor(run, 't2.c0');
      const message = { standing: decision.decisionId, by: { id: 'ben' } };
      expect(await codeOf(run.forget({ ...message, by: { id: 'mallory' } }))).toBe('APPROVER_NOT_ENTITLED');
      expect(await codeOf(run.forget({ ...message, standing: 'none' }))).toBe('STANDING_UNKNOWN');
      const ack = await run.forget(message);
      expect(ack).toMatchObject({ standing: decision.decisionId, forgottenBy: 'ben' });
      expect(await run.forget(message)).toEqual(ack);
      expect(await run.state()).not.toHaveProperty('standing');
      await run.decide(decisionOn(pause, 'ann'));
      const third = await requestFor(run, 't3.c0');
      expect(third.status).toBe('open');
      expect(amounts(purpose)).toEqual([1]);
      await run.decide(decisionOn(third, 'ann', 'reject'));
      await run.result();
      expect(factsOf(await run.ledger(), 'standing.forgotten')).toMatchObject([{ by: 'ben' }]);
    });
  });

  test('F35: it outlives continue-as-new and a new worker', async () => {
    const purpose = 'rolled';
    const run = await asking([
      [call({ purpose, amount: 1 })],
      [call({ purpose: 'pause' }, 'bare')],
      [call({ purpose, amount: 2 })],
    ]);
    await run.decide(remembering(await requestFor(run, 't1.c0'), { scope: 'tool' }));
    const before = await requestFor(run, 't2.c0');
    await world.client.workflow.getHandle(run.runId).signal('nudge');
    const after = await requestAfter(run, before);
    await world.restartWorkers();
    await run.decide(decisionOn(after, 'ann'));
    await run.result();
    expect(amounts(purpose)).toEqual([1, 2]);
  });

  test('INV-G2: after a reset it answers nothing: the next call is asked, and it stands no longer', async () => {
    const purpose = 'reset';
    const run = await asking([
      [call({ purpose, amount: 1 })],
      [call({ purpose: 'pause' }, 'bare')],
      [call({ purpose, amount: 2 })],
    ]);
    await run.decide(remembering(await requestFor(run, 't1.c0'), { scope: 'tool' }));
    const pause = await requestFor(run, 't2.c0');
    await resetRun(world.client, { workflowId: run.runId, runId: pause.runId });
    const fresh = await requestAfter(run, pause);
    await run.decide(decisionOn(fresh, 'ann'));
    const asked = await until(
      async () => (await run.requests()).find(({ callId, status }) => callId === 't3.c0' && status === 'open'),
      {
        what: 'the call that was asked after all',
      },
    );
    expect(asked.reopenedBecause).toContain('DECISION_STALE_RUN');
    expect(amounts(purpose)).toEqual([1]);
    expect(await run.state()).not.toHaveProperty('standing');
    await run.decide(decisionOn(asked, 'ann'));
    await run.result();
    expect(amounts(purpose)).toEqual([1, 2]);
  });
});
