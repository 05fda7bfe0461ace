/** Whether answers were given by somebody who may, to what they read, before a server gets them (INV-G1, INV-G2). */
import { describe, expect, test } from '@jest/globals';
import type { DispatchInput } from '../../../contracts/activities.ts';
import type { ProvisionProof } from '../../../contracts/dispatch-proof.ts';
import type { ApproverRule } from '../../../contracts/schemas/policy.ts';
import { checkProvided as check } from '../../../activities/tools/provision-check.ts';
import type { Leaving } from '../../../activities/tools/word-now.ts';
import { provisionProofs } from '../../../domain/provision.ts';
import { dispatched } from '../../../domain/call-changes.ts';
import { callOf } from '../../../domain/run.ts';
import { flyingRun } from '../../support/builders/pause.ts';
import { askedRun, providedRun } from '../../support/builders/provision.ts';
import { runIds } from '../../support/builders/run.ts';

const run = providedRun(askedRun({}, flyingRun('approved')));
const state = callOf(dispatched(run, 't1.c0')?.run ?? run, 't1.c0');
if (state?.status !== 'in-flight' || state.input === undefined) throw new Error('it flies');
const { judgement, call, input } = state;
const { namespace, workflowId, tenant } = runIds();
const [proof] = provisionProofs(input.provided);
if (proof === undefined) throw new Error('it is proven');

/** As the call leaves, with nothing changed since it was answered. */
const LEAVING: Leaving = {
  approvers: proof.approvers,
  deadlineSeconds: 60,
  definitionHash: proof.definitionHash,
  at: Date.parse(proof.decidedAt),
};
const checkProvided = (dispatch: DispatchInput, over: Partial<Leaving> = {}) =>
  check(dispatch, { ...LEAVING, ...over });

function dispatchWith(over: Partial<ProvisionProof> = {}, more: Partial<DispatchInput> = {}): DispatchInput {
  // Sound: only the fields that the check reads.
  return {
    run: { namespace, workflowId, initiator: { id: 'eve', groups: [], tenant }, specHash: 'a'.repeat(64) },
    decidedIn: ['run-1'],
    callId: call.callId,
    target: judgement.target,
    arguments: call.arguments,
    input: { provided: [{ ...proof, ...over } as ProvisionProof], leg: input?.leg },
    ...more,
  } as DispatchInput;
}

test('as it was said, it is believed', () => {
  expect(checkProvided(dispatchWith())).toBeUndefined();
});

test('of a run that cannot wait for input, or a call that begins, there is nothing to believe', () => {
  const { input: _, ...without } = dispatchWith();
  expect(checkProvided(without)).toBeUndefined();
  expect(checkProvided({ ...without, input: { provided: [] } })).toBeUndefined();
});

describe('INV-G2: forged, it is refused before anything is sent', () => {
  const { provision, about } = proof;
  test.each<[string, Partial<ProvisionProof>]>([
    ['by somebody who was not asked', { provision: { ...provision, approver: { id: 'eve', groups: [] } } }],
    ['of another call', { provision: { ...provision, callId: 't1.c1' } }],
    ['to another question', { about: { ...about, round: 2 } }],
    ['to another request', { generation: 3 }],
    ['by another rule', { approvers: { allOf: [{ layer: 'default', ids: ['eve'], groups: [] }] } }],
    ['of another tool', { definitionHash: 'f'.repeat(64) }],
    ['after its deadline', { decidedAt: proof.deadline }],
    ['at no time', { decidedAt: 'soon' }],
    [
      'that does not fit the question',
      { provision: { ...provision, kind: 'provide', responses: { who: { action: 'accept', content: {} } } } },
    ],
  ])('%s', (_, over) => {
    expect(checkProvided(dispatchWith(over))).toMatchObject({ kind: 'refused', code: 'DISPATCH_FORBIDDEN' });
  });

  test('other arguments than those of the call that the server has begun', () => {
    expect(checkProvided(dispatchWith({}, { arguments: { other: 1 } }))).toMatchObject({ code: 'DISPATCH_FORBIDDEN' });
  });

  test('a question that nobody has answered', () => {
    expect(checkProvided({ ...dispatchWith(), input: { provided: [], leg: input.leg } })).toMatchObject({
      code: 'DISPATCH_FORBIDDEN',
      message: expect.stringContaining('nobody gave'),
    });
  });
});

test('given before a reset, it is asked anew', () => {
  expect(checkProvided(dispatchWith({}, { decidedIn: ['run-2'] }))).toMatchObject({
    kind: 'reopen',
    code: 'DECISION_STALE_RUN',
    asks: 'input',
  });
});

describe('genuine, but spent as the call leaves: nothing of it is given to the server', () => {
  const OTHERS: ApproverRule = { allOf: [{ layer: 'organisation', ids: ['zoe'], groups: [] }] };
  const asked = { kind: 'reopen', asks: 'input' };
  const by = proof.provision.approver.id;
  // Sound: the checks read no more of a decision than its rule.
  const decided = (approvers: ApproverRule) => ({ proof: { kind: 'decision', approvers } as DispatchInput['proof'] });

  test('the tool was defined anew since', () => {
    const over = { definitionHash: 'f'.repeat(64) };
    expect(checkProvided(dispatchWith(), over)).toMatchObject({ ...asked, code: 'DEFINITION_CHANGED' });
  });

  test('policy asks others by now: they are asked for consent first, since whoever consents is asked', () => {
    const first = checkProvided(dispatchWith({}, decided(proof.approvers)), { approvers: OTHERS });
    expect(first).toMatchObject({ kind: 'reopen', code: 'VERDICT_STRICTER', approvers: OTHERS, deadlineSeconds: 60 });
    expect(first).toMatchObject({ message: expect.stringContaining(by) });
    expect(first).not.toHaveProperty('asks');
    // Also where nobody was asked for consent.
    expect(checkProvided(dispatchWith({}, { proof: { kind: 'policy', rules: [] } }), { approvers: OTHERS })).toEqual(
      first,
    );
  });

  test('and once they have consented, what the server wants is asked anew', () => {
    const then = checkProvided(dispatchWith({}, decided(OTHERS)), { approvers: OTHERS });
    expect(then).toMatchObject({ ...asked, code: 'VERDICT_STRICTER' });
  });

  test('an approval would have lapsed', () => {
    const approvers = { ...proof.approvers, validForSeconds: 60 };
    const at = Date.parse(proof.decidedAt) + 60_000;
    expect(checkProvided(dispatchWith(), { approvers, at: at - 1 })).toBeUndefined();
    expect(checkProvided(dispatchWith(), { approvers, at })).toMatchObject({ ...asked, code: 'APPROVAL_LAPSED' });
  });

  test('where one of several is enough to answer, it is enough by now', () => {
    const [clause] = proof.approvers.allOf;
    if (clause === undefined) throw new Error('somebody is asked');
    const approvers: ApproverRule = { allOf: [{ ...clause, need: 2 }] };
    expect(checkProvided(dispatchWith(), { approvers })).toBeUndefined();
  });
});
