/** What a dispatch believes of a decision in time: nothing that it cannot prove (INV-G1, INV-G2, F-2, F-4, F-6, D-5). */
import { describe, expect, test } from '@jest/globals';
import { checkConsent } from '../../../../activities/gate/statement.ts';
import type { Decision } from '../../../../contracts/schemas/request.ts';
import type { Verdict } from '../../../../contracts/schemas/call.ts';
import type { ApproverRule } from '../../../../contracts/schemas/policy.ts';
import type { DispatchInput } from '../../../../contracts/wire/tools.ts';
import { requestDigest } from '../../../../domain/request/digest.ts';
import { approval } from '../../../support/builders/decision.ts';
import { allowVerdict, approverRule, askVerdict } from '../../../support/builders/judgement.ts';
import { START } from '../../../support/builders/run.ts';
import { toolTarget } from '../../../support/builders/tool.ts';
import type { DispatchProof } from '../../../../contracts/wire/proofs.ts';

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
  checkConsent(input, over.verdict ?? ask, undefined, over.now ?? DECIDED);

test('control: what was postponed and then approved may be sent', () => {
  expect(answerTo(proven())).toBeUndefined();
});

test('a decision without its time came at none that counts', () => {
  const input = proven();
  // Sound: `proven` makes a decision; what a workflow schedules may lack any field.
  const { decidedAt: _, ...timeless } = input.proof as Proof;
  const answer = answerTo({ ...input, proof: timeless as Proof });
  expect(answer).toMatchObject({ kind: 'refused', code: 'DISPATCH_FORBIDDEN' });
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

describe('F20: where who may decide depends on the time, each vote has its own', () => {
  const leads = { layer: 'organisation' as const, ids: ['ann'], groups: [] };
  const escalate = { afterSeconds: 300, replace: { ids: ['bob', 'dora'], groups: [] } };
  const staged: ApproverRule = { allOf: [{ ...leads, need: 2, escalate }] };
  const by = (id: string): Decision =>
    approval({ digest: digestFor(staged), decisionId: id, approver: { id, groups: [] } });
  const AFTER = OPENED + 5 * MINUTE;
  /** ann agreed before it escalated, bob after. */
  const staggered = (over: Partial<Proof> = {}): DispatchInput => {
    const input = proven({
      approvers: staged,
      decision: by('bob'),
      further: [by('ann')],
      deadline: iso(OPENED + 60 * MINUTE),
      decidedAt: iso(AFTER),
      voted: { openedAt: iso(OPENED), further: [iso(AFTER - 1)] },
      ...over,
    });
    const { extended: _, ...proof } = input.proof as Proof;
    return { ...input, proof: over.extended === undefined ? proof : input.proof };
  };
  const verdict = askVerdict({ approvers: staged });

  test('control: one of before and one of after', () => {
    expect(answerTo(staggered(), { verdict })).toBeUndefined();
  });

  test.each<[string, Partial<Proof>]>([
    ['of before, given after', { voted: { openedAt: iso(OPENED), further: [iso(AFTER)] } }],
    ['of after, given before', { decidedAt: iso(AFTER - 1) }],
    ['of no time', { voted: { openedAt: iso(OPENED), further: ['never'] } }],
    ['without its time', { voted: { openedAt: iso(OPENED), further: [] } }],
    ['of a request opened at no time', { voted: { openedAt: 'never', further: [iso(AFTER - 1)] } }],
    ['of a request opened later', { voted: { openedAt: iso(OPENED + 1), further: [iso(AFTER - 1)] } }],
    ['from before it opened', { voted: { openedAt: iso(OPENED), further: [iso(OPENED - 1)] } }],
    ['given after the last', { further: [by('dora')], voted: { openedAt: iso(OPENED), further: [iso(AFTER + 1)] } }],
    ['without any times', { voted: undefined as never }],
    ['of two openings', { extended: { openedAt: iso(OPENED - 1), by: [] } }],
  ])('a vote %s', (_, over) => {
    expect(answerTo(staggered(over), { verdict })).toMatchObject({ kind: 'refused', code: 'DISPATCH_FORBIDDEN' });
  });

  test('D-5: who was added, and is not by the policy of now, is not enough', () => {
    const unstaged = askVerdict({ approvers: { allOf: [{ ...leads, ids: ['ann', 'zoe'], need: 2 }] } });
    expect(answerTo(staggered(), { verdict: unstaged })).toMatchObject({ kind: 'reopen', code: 'VERDICT_STRICTER' });
    const later = askVerdict({
      approvers: { allOf: [{ ...leads, need: 2, escalate: { ...escalate, afterSeconds: 301 } }] },
    });
    expect(answerTo(staggered(), { verdict: later })).toMatchObject({ kind: 'reopen', code: 'VERDICT_STRICTER' });
  });

  test('a policy that escalates by now finds no times in a proof of before: who was named first counts', () => {
    const plain = { allOf: [leads] };
    const decision = approval({ digest: digestFor(plain) });
    const input = proven({ approvers: plain, decision, deadline: iso(OPENED + 60 * MINUTE) });
    const { extended: _, ...proof } = input.proof as Proof;
    const now = askVerdict({ approvers: { allOf: [{ ...leads, escalate }] } });
    expect(answerTo({ ...input, proof }, { verdict: now })).toBeUndefined();
  });

  test('F23: who changed the arguments was one who might by then', () => {
    const asked = { allOf: [{ ...leads, may: ['edit' as const], escalate }] };
    const changed = { path: 'other' };
    const decision = { ...by('bob'), digest: digestFor(asked), arguments: changed } as Decision;
    const edit = { generation: 1, arguments: {}, approvers: asked };
    const now = { generation: 2, approvers: asked, decision, further: [], edit };
    const editedAt = (at: number) => ({
      ...staggered({ ...now, decidedAt: iso(at), voted: { openedAt: iso(OPENED), further: [] } }),
      arguments: changed,
    });
    const given = { verdict: askVerdict({ approvers: asked }) };
    expect(answerTo(editedAt(AFTER), given)).toBeUndefined();
    expect(answerTo(editedAt(AFTER - 1), given)).toMatchObject({ code: 'DISPATCH_FORBIDDEN' });
    // The rule that is met may have no times; the one that the editor was shown has.
    const plain = { allOf: [{ ...leads, ids: ['bob'], may: ['edit' as const] }] };
    const untimed = { ...staggered({ ...now, approvers: plain, voted: undefined as never }), arguments: changed };
    expect(answerTo(untimed, { verdict: askVerdict({ approvers: plain }) })).toMatchObject({
      code: 'DISPATCH_FORBIDDEN',
    });
  });
});
