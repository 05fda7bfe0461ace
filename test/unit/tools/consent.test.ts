/** What a dispatch believes of a decision in time: nothing that it cannot prove (INV-G1, INV-G2, F-2, F-4, F-6, D-5). */
import { describe, expect, test } from '@jest/globals';
import { checkProof } from '../../../activities/tools/dispatch-check.ts';
import type { DispatchInput, DispatchProof } from '../../../contracts/activities.ts';
import type { Verdict } from '../../../contracts/schemas/call.ts';
import type { Decision } from '../../../contracts/schemas/decision.ts';
import type { ApproverRule } from '../../../contracts/schemas/policy.ts';
import { requestDigest } from '../../../domain/digest.ts';
import { approval } from '../../support/builders/decision.ts';
import { allowVerdict, approverRule, askVerdict } from '../../support/builders/judgement.ts';
import { START } from '../../support/builders/run.ts';
import { toolTarget } from '../../support/builders/tool.ts';

type Proof = Extract<DispatchProof, { kind: 'decision' }>;
const run = { namespace: 'default', workflowId: 'run/1', initiator: { id: 'ann', tenant: 'default' }, specHash: 's' };
const [MINUTE, OPENED] = [60_000, START];
const iso = (ms: number): string => new Date(ms).toISOString();
const rule: ApproverRule = { ...approverRule(['ann', 'bob']), validForSeconds: 60, extendableToSeconds: 3_600 };

function digestFor(approvers: ApproverRule, runId = 'run-1'): string {
  const { namespace, workflowId, initiator } = run;
  const call = { callId: 't1.c0', generation: 1, target: toolTarget(), arguments: {}, approvers };
  return requestDigest({ namespace, tenant: initiator.tenant, workflowId, runId, ...call });
}

const said = (over: object = {}): Decision => ({ ...approval({ digest: digestFor(rule) }), ...over });
const extend = (until: number, over: object = {}): Decision => said({ kind: 'extend', until: iso(until), ...over });

/** Opened at START for a minute, postponed to ten by ann, approved by bob in the fifth. */
function proven(over: Partial<Proof> = {}): DispatchInput {
  const proof: Proof = {
    kind: 'decision',
    decision: said({ approver: { id: 'bob', groups: [] } }),
    generation: 1,
    approvers: rule,
    deadline: iso(OPENED + MINUTE),
    extended: { openedAt: iso(OPENED), by: [{ decision: extend(OPENED + 10 * MINUTE), decidedAt: iso(OPENED + 1) }] },
    decidedAt: iso(DECIDED),
    ...over,
  };
  const call = { callId: 't1.c0', target: toolTarget(), arguments: {}, proof, decidedIn: ['run-1'] };
  // Sound: nothing else of it is read.
  return { run, ...call } as unknown as DispatchInput;
}
const DECIDED = OPENED + 5 * MINUTE;
const postponedBy = (decision: Decision, decidedAt = OPENED + 1): Partial<Proof> => ({
  extended: { openedAt: iso(OPENED), by: [{ decision, decidedAt: iso(decidedAt) }] },
});
const ask: Verdict = askVerdict({ approvers: rule, deadlineSeconds: 60 });
const answerTo = (input: DispatchInput, over: { verdict?: Verdict; now?: number } = {}) =>
  checkProof(input, over.verdict ?? ask, over.now ?? DECIDED);

test('control: what was postponed and then approved may be sent', () => {
  expect(answerTo(proven())).toBeUndefined();
});

describe('a deadline that was postponed is proven from the extension', () => {
  const ten = OPENED + 10 * MINUTE;
  test.each<[string, Partial<Proof>]>([
    ['none', { extended: undefined as never }],
    ['made after the deadline', postponedBy(extend(ten), OPENED + MINUTE)],
    ['of a stranger', postponedBy(extend(ten, { approver: { id: 'mallory', groups: [] } }))],
    ['of another call', postponedBy(extend(ten, { callId: 't1.c1' }))],
    ['of another request', postponedBy(extend(ten, { digest: 'f'.repeat(64) }))],
    ['of another generation', { ...postponedBy(extend(ten)), generation: 2 }],
    ['that is an approval', postponedBy(said())],
    ['further than its rule permits', postponedBy(extend(OPENED + 61 * MINUTE))],
    ['to before the approval', postponedBy(extend(DECIDED))],
    ['at no time', { extended: { openedAt: iso(OPENED), by: [{ decision: extend(ten), decidedAt: 'never' }] } }],
    [
      'of a request opened at no time',
      { extended: { openedAt: 'never', by: [{ decision: extend(ten), decidedAt: iso(OPENED) }] } },
    ],
    ['where only an extension says yes', { decision: extend(ten) }],
  ])('with an extension %s', (_, over) => {
    expect(answerTo(proven(over))).toMatchObject({ kind: 'refused', code: 'DISPATCH_FORBIDDEN' });
  });

  test('to the millisecond', () => {
    expect(answerTo(proven(postponedBy(extend(DECIDED + 1))))).toBeUndefined();
    expect(answerTo(proven(postponedBy(extend(DECIDED))))).toMatchObject({ code: 'DISPATCH_FORBIDDEN' });
  });

  test('with a rule that permits more than the one that was shown', () => {
    const looser = { ...rule, extendableToSeconds: 31_536_000 };
    expect(answerTo(proven({ approvers: looser }))).toMatchObject({ code: 'DISPATCH_FORBIDDEN' });
  });

  test('INV-G2: made before a reset it is asked again', () => {
    const before = extend(ten, { runId: 'run-0', digest: digestFor(rule, 'run-0') });
    expect(answerTo(proven(postponedBy(before)))).toMatchObject({ kind: 'reopen', code: 'DECISION_STALE_RUN' });
  });
});

describe('F-6: an approval that is too old', () => {
  const END = DECIDED + MINUTE;

  test('is asked again at its end, and not a millisecond before, of those whom policy names now', () => {
    expect(answerTo(proven(), { now: END - 1 })).toBeUndefined();
    expect(answerTo(proven(), { now: END })).toEqual({
      kind: 'reopen',
      code: 'APPROVAL_LAPSED',
      message: expect.stringContaining(iso(END)),
      approvers: rule,
      deadlineSeconds: 60,
    });
  });

  test('also where policy would let the call pass by now: then of those who were asked', () => {
    const reopened = answerTo(proven(), { verdict: allowVerdict(), now: END });
    expect(reopened).toMatchObject({ kind: 'reopen', code: 'APPROVAL_LAPSED' });
    expect(reopened).not.toHaveProperty('approvers');
  });

  test('D-5: policy of now may make it shorter, and no longer', () => {
    const shorter = askVerdict({ approvers: { ...rule, validForSeconds: 30 } });
    expect(answerTo(proven(), { verdict: shorter, now: DECIDED + 30_000 })).toMatchObject({ code: 'APPROVAL_LAPSED' });
    const longer = askVerdict({ approvers: { ...rule, validForSeconds: 600 } });
    expect(answerTo(proven(), { verdict: longer, now: END })).toMatchObject({ code: 'APPROVAL_LAPSED' });
  });
});
