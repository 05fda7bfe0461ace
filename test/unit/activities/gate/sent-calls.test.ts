/** What a worker has sent it does not send again by the same consent; what is another attempt, run or consent it does (INV-X1). */
import { describe, expect, test } from '@jest/globals';
import { rememberingCalls } from '../../../../activities/gate/send.ts';
import type { DispatchInput } from '../../../../contracts/wire/tools.ts';
import { approval } from '../../../support/builders/decision.ts';
import { approvedDispatch } from '../../../support/builders/dispatch.ts';
import type { DispatchProof } from '../../../../contracts/wire/proofs.ts';

const genuine = approvedDispatch();
const decided = approval({ digest: 'a'.repeat(64) });
const second = approval({ digest: 'b'.repeat(64), decisionId: 'd-2', approver: { id: 'bob', groups: [] } });

function byDecision(over: Partial<Extract<DispatchProof, { kind: 'decision' }>> = {}): DispatchProof {
  const times = { deadline: '2026-01-02T00:00:00.000Z', decidedAt: '2026-01-01T00:00:00.000Z' };
  return { kind: 'decision', decision: decided, generation: 1, approvers: { allOf: [] }, ...times, ...over };
}

function call(over: Partial<DispatchInput> = {}): DispatchInput {
  return { ...genuine, proof: byDecision(), ...over };
}

describe('by one consent', () => {
  test.each<[string, DispatchInput]>([
    ['as it was', call()],
    ['from another workflow execution', call({ runId: 'forged', decidedIn: ['forged'] })],
    ['under another idempotency key', call({ idempotencyKey: 'mine' })],
    ['with other arguments', call({ arguments: { amount: 1_000_000 } })],
    ['with another time of the decision', call({ proof: byDecision({ decidedAt: '2026-01-01T00:00:01.000Z' }) })],
    ['with one more beside it', call({ proof: byDecision({ further: [second] }) })],
    ['with one more before it', call({ proof: byDecision({ decision: second, further: [decided] }) })],
  ])('a call leaves once: %s', (_, again) => {
    const take = rememberingCalls();
    expect(take(call())).toBe(true);
    expect(take(again)).toBe(false);
    expect(take(again)).toBe(false);
  });

  test.each<[string, DispatchInput]>([
    ['another attempt', call({ attempt: 2 })],
    ['another call', call({ callId: 't1.c1' })],
    ['a fresh decision, after a reset or a reopened request', call({ proof: byDecision({ decision: second }) })],
    ['another run', call({ run: { ...call().run, workflowId: 'other' } })],
    ['a run of the same id in another namespace', call({ run: { ...call().run, namespace: 'other' } })],
  ])('%s leaves, too', (_, other) => {
    const take = rememberingCalls();
    expect([take(call()), take(other)]).toEqual([true, true]);
  });
});

test('what policy allows leaves once in each Temporal run: after a reset it is due again', () => {
  const take = rememberingCalls();
  const allowed = (runId: string) => call({ proof: { kind: 'policy', rules: [] }, runId });
  expect([take(allowed('one')), take(allowed('one')), take(allowed('two'))]).toEqual([true, false, true]);
});

test('what stands lets each call leave once', () => {
  const take = rememberingCalls();
  const read = { generation: 1, arguments: {}, approvers: { allOf: [] } };
  const times = { deadline: '2026-01-02T00:00:00.000Z', decidedAt: '2026-01-01T00:00:00.000Z' };
  const proof: DispatchProof = {
    kind: 'standing',
    standing: 'd-1',
    decisions: [decided],
    callId: 't1.c0',
    shown: read,
    ...times,
  };
  const answered = (callId: string) => call({ callId, proof });
  expect([take(answered('t2.c0')), take(answered('t2.c0')), take(answered('t3.c0'))]).toEqual([true, false, true]);
});

test('the newest are known: memory is bounded', () => {
  const take = rememberingCalls(2);
  const [one, two, three] = ['t1.c0', 't1.c1', 't1.c2'].map((callId) => call({ callId }));
  for (const each of [one, two, three]) if (each !== undefined) take(each);
  if (one === undefined || three === undefined) throw new Error('three calls');
  expect([take(three), take(one)]).toEqual([false, true]);
});
