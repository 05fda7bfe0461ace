/** Whether answers were given by somebody who may, to what they read, before a server gets them (INV-G1, INV-G2). */
import { describe, expect, test } from '@jest/globals';
import { createQuestionMacs } from '../../../../activities/gate/legacy-2025/open-question.ts';
import { checkProvided as check, type Leaving } from '../../../../activities/gate/statement.ts';
import type { ApproverRule } from '../../../../contracts/schemas/policy.ts';
import type { ProvisionProof } from '../../../../contracts/wire/proofs.ts';
import type { DispatchInput } from '../../../../contracts/wire/tools.ts';
import { requestDigest } from '../../../../domain/request/digest.ts';
import { provisionProofs } from '../../../../domain/request/provision.ts';
import { dispatched } from '../../../../domain/request/transitions.ts';
import { callOf } from '../../../../domain/state/run.ts';
import { flyingRun } from '../../../support/builders/pause.ts';
import { askedRun, NAME, PAGE, providedRun } from '../../../support/builders/provision.ts';
import { runIds } from '../../../support/builders/run.ts';

const run = providedRun(askedRun({}, flyingRun('approved')));
const state = callOf(dispatched(run, 't1.c0')?.run ?? run, 't1.c0');
if (state?.status !== 'in-flight' || state.input === undefined) throw new Error('it flies');
const { judgement, call, input } = state;
const { namespace, workflowId, tenant } = runIds();
const [proven] = provisionProofs(input.provided);
if (proven === undefined) throw new Error('it is proven');
const proof = proven;

/** As the call leaves, with nothing changed since it was answered. */
const LEAVING: Leaving = {
  approvers: proof.approvers,
  deadlineSeconds: 60,
  definitionHash: proof.definitionHash,
  at: Date.parse(proof.decidedAt),
};
const checkProvided = (dispatch: DispatchInput, over: Partial<Leaving> = {}) =>
  check(dispatch, { ...LEAVING, ...over }, () => true);

function dispatchWith(over: Partial<ProvisionProof> = {}, more: Partial<DispatchInput> = {}): DispatchInput {
  // Sound: only the fields that the check reads.
  return {
    run: { namespace, workflowId, initiator: { id: 'eve', groups: [], tenant }, specHash: 'a'.repeat(64) },
    decidedIn: ['run-1'],
    callId: call.callId,
    target: judgement.target,
    arguments: call.arguments,
    input: { provided: [{ ...proof, ...over }], leg: input?.leg },
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

describe('trust mode `signed`: an answer is to what a worker was asked, whatever its digest says', () => {
  const macs = createQuestionMacs([Buffer.alloc(32, 1)]);
  const others = createQuestionMacs([Buffer.alloc(32, 2)]);
  if (macs === undefined || others === undefined) throw new Error('there are keys');
  type Requests = ProvisionProof['about']['requests'];

  /** As somebody has signed it who was shown this, and said no: the digest is that of what they read. */
  function signedOn(requests: Requests, round = 1): ProvisionProof {
    const { provision, generation, approvers } = proof;
    const { runId, approver } = provision;
    const about = { ...proof.about, requests, round };
    const shown = { generation, approvers, about, target: judgement.target, arguments: call.arguments };
    const digest = requestDigest({ namespace, tenant, workflowId, runId, callId: call.callId, ...shown });
    const said = { kind: 'decline' as const, decisionId: `p-${round}`, callId: call.callId, runId, approver, digest };
    return { ...proof, about, provision: said };
  }

  function answerTo(dispatch: DispatchInput, keys = macs): ReturnType<typeof check> {
    return check(dispatch, LEAVING, (requests) => keys?.areOurs(requests, dispatch) === true);
  }

  function dispatchOf(provided: readonly ProvisionProof[], asked: Requests, round = 1): DispatchInput {
    const leg = { round, requests: asked, used: [] };
    return dispatchWith({}, { server: { name: 'bank', url: 'https://bank.example' }, input: { provided, leg } });
  }

  const genuine = macs.marked({ who: NAME, page: PAGE }, dispatchOf([], {}));
  const { who = NAME, page = PAGE } = genuine;
  const anew = { kind: 'reopen', asks: 'input', code: 'SIGNATURE_INVALID' };

  test('as its server asked it', () => {
    expect(answerTo(dispatchOf([signedOn({ who })], { who }))).toBeUndefined();
  });

  test('the same question in a later round has the answer of the first', () => {
    const provided = [signedOn({ who }), signedOn({ page }, 2)];
    expect(answerTo(dispatchOf(provided, { who, page }, 2))).toBeUndefined();
  });

  test.each<[string, Requests]>([
    ['to a text of somebody else, with the hash of a question that was asked', { who: { ...who, message: 'Blue?' } }],
    ['to one that is forged whole', { who: { ...NAME, message: 'Blue?', mac: 'f'.repeat(64) } }],
    ['to one without what proves it, as a run of an earlier release has kept it', { who: NAME }],
    ['to one under another key than it was asked under', { page: who }],
  ])('INV-G2: %s, it goes to no server, and the server asks anew', (_, requests) => {
    const dispatch = dispatchOf([signedOn(requests)], requests);
    // In mode `temporal` whoever writes to the namespace is believed.
    expect(checkProvided(dispatch)).toBeUndefined();
    expect(answerTo(dispatch)).toMatchObject(anew);
    // Beside one that is genuine, too.
    expect(answerTo(dispatchOf([signedOn({ who, page }), signedOn(requests, 2)], { who }))).toMatchObject(anew);
  });

  test('INV-G2: to what a key proved that is gone: it is asked anew', () => {
    expect(answerTo(dispatchOf([signedOn({ who })], { who }), others)).toMatchObject(anew);
  });
});
