/** Approvals that change the arguments, and answers in the tool's place (F16, F17, F23, B-7, B-8, INV-G1, INV-G2, INV-X2). */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { CountersignError, type RunHandle } from '../../client/index.ts';
import type { ApprovalRequest, DecisionInput } from '../../contracts/schemas/request.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { ToolPolicyInput } from '../../contracts/schemas/policy.ts';
import { hashOf } from '../../domain/text/canonical.ts';
import { type RecordingServer, startRecordingServer } from '../support/recording-server.ts';
import { codeOf, factsOf, outcomes, results } from '../support/run-record.ts';
import { decisionOn, openRequests, startWorld, type World } from '../support/world.ts';

let bank: RecordingServer;
let world: World;

const may: ('edit' | 'respond')[] = ['edit', 'respond'];
beforeAll(async () => {
  bank = await startRecordingServer();
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
  world = await startWorld({
    config: {
      policy: { servers: { bank: { tools } } },
      servers: { bank: { url: bank.url, credentials: { kind: 'none' } } },
    },
  });
});
afterAll(async () => {
  await world.stop();
  await bank.close();
});

async function asking(tool: string, args: JsonObject): Promise<{ run: RunHandle; request: ApprovalRequest }> {
  const run = await world.start([{ calls: [{ tool: `bank/${tool}`, arguments: args }] }, { text: 'done' }]);
  const [request] = await openRequests(run);
  if (request === undefined) throw new Error('no request');
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
    if (now === undefined) throw new Error('it waits');
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
    await handle.signal('decide', editOf(request, { purpose: 'signal', amount: 7 }));
    await run.result();
    expect(bank.callsFor('signal')).toMatchObject([{ arguments: { amount: 7 } }]);
    const refusals = factsOf(await run.ledger(), 'decision.refused').map(({ code }) => code);
    expect(refusals.toSorted()).toEqual(['ARGUMENTS_INVALID', 'DECISION_INVALID', 'DECISION_NOT_PERMITTED']);
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
