/** What a dispatch believes of answers that people gave to a pause: nothing that is not proven (INV-G1, INV-G2, INV-X1). */
import { describe, expect, test } from '@jest/globals';
import { checkProvided, checkRetry } from '../../../../activities/gate/statement.ts';
import { createQuestionMacs } from '../../../../activities/gate/legacy-2025/open-question.ts';
import type { Leaving } from '../../../../activities/gate/statement.ts';
import { defined } from '../../../../contracts/defined.ts';
import type { Verdict } from '../../../../contracts/schemas/call.ts';
import { Config } from '../../../../contracts/schemas/config.ts';
import type { ApproverRule } from '../../../../contracts/schemas/policy.ts';
import type { ProvisionProof, RetryProof } from '../../../../contracts/wire/proofs.ts';
import type { DispatchInput } from '../../../../contracts/wire/tools.ts';
import { provisionProof } from '../../../../domain/request/pause.ts';
import { dispatched } from '../../../../domain/request/transitions.ts';
import { callOf } from '../../../../domain/state/run.ts';
import { digestOfShown } from '../../../support/builders/dispatch.ts';
import { allowVerdict, approverRule, askVerdict } from '../../../support/builders/judgement.ts';
import { flyingRun, outcomePause, retry as word } from '../../../support/builders/pause.ts';
import { askedRun, NAME, PAGE, providedRun } from '../../../support/builders/provision.ts';
import { runIds, START } from '../../../support/builders/run.ts';
import { toolTarget } from '../../../support/builders/tool.ts';
import { withCode } from '../../../support/refusal.ts';

describe('what a dispatch believes of the word that a call is sent again: nothing that it cannot prove (INV-X1, INV-G2)', () => {
  type Input = Pick<DispatchInput, 'attempt' | 'proof' | 'decidedIn' | 'arguments' | 'callId'>;

  const run = { namespace: 'default', workflowId: 'run/1', initiator: { id: 'ann', tenant: 'default' }, specHash: 's' };
  const iso = (ms: number): string => new Date(ms).toISOString();
  const config = Config.parse({});
  const TWO: ApproverRule = { allOf: [{ layer: 'organisation', ids: ['ann', 'bob'], groups: [], need: 2 }] };

  const CALL = { run, callId: 't1.c0', target: toolTarget(), arguments: {} };

  function proofOf(over: Partial<RetryProof> = {}, said: object = {}): RetryProof {
    const shown = {
      about: outcomePause(),
      generation: 2,
      approvers: approverRule(),
      definitionHash: toolTarget().definitionHash,
      openedAt: iso(START),
      deadline: iso(START + 60_000),
      decidedAt: iso(START + 1_000),
      ...over,
    };
    return { resolution: { ...word({ digest: digestOfShown(CALL, shown) }), ...said }, ...shown };
  }

  function check(
    retry: RetryProof | undefined,
    over: Partial<Input> = {},
    verdict: Verdict = allowVerdict(),
    given = config,
  ) {
    const call = { ...CALL, decidedIn: ['run-1'], attempt: 2 };
    const proof = { kind: 'policy', rules: [] };
    // Sound: nothing else of it is read.
    const input = { ...call, proof, ...defined({ retry }), ...over } as unknown as DispatchInput;
    if (verdict.kind === 'deny') throw new Error('not asked about what is denied');
    return checkRetry(input, given, verdict);
  }

  test('control: whoever is asked says so, and it is sent again; a first attempt needs nobody', () => {
    expect(check(proofOf())).toBeUndefined();
    expect(check(undefined, { attempt: 1 })).toBeUndefined();
  });

  describe('is refused', () => {
    test.each<[string, RetryProof, Partial<Input>]>([
      ['of another call', proofOf({}, { callId: 't1.c1' }), {}],
      ['that is no retry', proofOf({}, { kind: 'succeeded' }), {}],
      ['of another digest', proofOf({}, { digest: 'f'.repeat(64) }), {}],
      ['by a stranger', proofOf({}, { approver: { id: 'mallory', groups: [] } }), {}],
      ['after the deadline', proofOf({ decidedAt: iso(START + 60_000) }), {}],
      ['before it was asked', proofOf({ decidedAt: iso(START - 1) }), {}],
      ['at no time', proofOf({ decidedAt: 'never' }), {}],
      ['of a request opened at no time', proofOf({ openedAt: 'never' }), {}],
      ['with no deadline', proofOf({ deadline: 'never' }), {}],
      ['for other arguments', proofOf(), { arguments: { amount: 1 } }],
      ['of the attempt that it lets leave', proofOf(), { attempt: 1 }],
      [
        'for another attempt than was shown',
        { ...proofOf(), about: outcomePause({ attempt: 0 + 1, message: 'else' }) },
        {},
      ],
      ['with other approvers than were shown', { ...proofOf(), approvers: approverRule(['ann', 'eve']) }, {}],
      ['of another generation', { ...proofOf(), generation: 3 }, {}],
      ['of another definition', { ...proofOf(), definitionHash: 'e'.repeat(64) }, {}],
      ['by one of two who must agree', proofOf({ approvers: TWO }), {}],
    ])('a word %s', (_what, retry, over) => {
      expect(check(retry, over)).toMatchObject({ kind: 'refused', code: 'DISPATCH_FORBIDDEN' });
    });

    test('one of two, where the consent is older than the word', () => {
      const proof = { kind: 'decision', decidedAt: iso(START) } as DispatchInput['proof'];
      expect(check(proofOf({ approvers: TWO }), { proof })).toMatchObject({ code: 'DISPATCH_FORBIDDEN' });
    });
  });

  test('by one of two it is the consent of both that counts, given since', () => {
    // Sound: of a decision only its time is read here; that it is one, `checkConsent` looks at.
    const proof = { kind: 'decision', decidedAt: iso(START + 2_000) } as DispatchInput['proof'];
    expect(check(proofOf({ approvers: TWO }), { proof })).toBeUndefined();
  });

  test('what was shown with an earlier definition of the tool counts: consent to the new one is asked for apart', () => {
    expect(check(proofOf({ definitionHash: 'e'.repeat(64) }))).toBeUndefined();
  });

  describe('the same is asked again', () => {
    test('after a reset (INV-G2)', () => {
      expect(check(proofOf(), { decidedIn: ['run-2'] })).toMatchObject({
        kind: 'reopen',
        code: 'DECISION_STALE_RUN',
        asks: 'outcome',
      });
    });

    test('of those whom policy asks now: for consent', () => {
      const verdict = askVerdict({ approvers: approverRule(['zoe']), deadlineSeconds: 60 });
      expect(check(proofOf(), {}, verdict)).toMatchObject({
        kind: 'reopen',
        code: 'VERDICT_STRICTER',
        asks: 'outcome',
        approvers: approverRule(['zoe']),
        deadlineSeconds: 60,
      });
    });

    test('of those whom policy names now: in general', () => {
      const strict = Config.parse({ policy: { approvers: { ids: ['zoe'] } } });
      expect(check(proofOf(), {}, allowVerdict(), strict)).toMatchObject({ code: 'VERDICT_STRICTER', asks: 'outcome' });
    });
  });
});

describe('whether answers were given by somebody who may, to what they read, before a server gets them (INV-G1, INV-G2)', () => {
  const run = providedRun(askedRun({}, flyingRun('approved')));
  const state = callOf(dispatched(run, 't1.c0')?.run ?? run, 't1.c0');
  if (state?.status !== 'in-flight' || state.input === undefined) throw new Error('it flies');
  const { judgement, call, input } = state;
  const { namespace, workflowId, tenant } = runIds();
  const [proven] = input.provided.map(provisionProof);
  if (proven === undefined) throw new Error('it is proven');
  const proof = proven;

  /** As the call leaves, with nothing changed since it was answered. */
  const LEAVING: Leaving = {
    approvers: proof.approvers,
    deadlineSeconds: 60,
    definitionHash: proof.definitionHash,
    at: Date.parse(proof.decidedAt),
  };
  const checked = (dispatch: DispatchInput, over: Partial<Leaving> = {}) =>
    checkProvided(dispatch, { ...LEAVING, ...over }, () => true);

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
    expect(checked(dispatchWith())).toBeUndefined();
  });

  test('of a run that cannot wait for input, or a call that begins, there is nothing to believe', () => {
    const { input: _, ...without } = dispatchWith();
    expect(checked(without)).toBeUndefined();
    expect(checked({ ...without, input: { provided: [] } })).toBeUndefined();
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
      expect(checked(dispatchWith(over))).toMatchObject({ kind: 'refused', code: 'DISPATCH_FORBIDDEN' });
    });

    test('other arguments than those of the call that the server has begun', () => {
      expect(checked(dispatchWith({}, { arguments: { other: 1 } }))).toMatchObject({ code: 'DISPATCH_FORBIDDEN' });
    });

    test('a question that nobody has answered', () => {
      expect(checked({ ...dispatchWith(), input: { provided: [], leg: input.leg } })).toMatchObject(
        withCode('DISPATCH_FORBIDDEN', 'nobody gave'),
      );
    });
  });

  test('given before a reset, it is asked anew', () => {
    expect(checked(dispatchWith({}, { decidedIn: ['run-2'] }))).toMatchObject({
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
      expect(checked(dispatchWith(), over)).toMatchObject({ ...asked, code: 'DEFINITION_CHANGED' });
    });

    test('policy asks others by now: they are asked for consent first, since whoever consents is asked', () => {
      const first = checked(dispatchWith({}, decided(proof.approvers)), { approvers: OTHERS });
      expect(first).toMatchObject({ kind: 'reopen', code: 'VERDICT_STRICTER', approvers: OTHERS, deadlineSeconds: 60 });
      expect(first).toMatchObject({ message: expect.stringContaining(by) });
      expect(first).not.toHaveProperty('asks');
      // Also where nobody was asked for consent.
      expect(checked(dispatchWith({}, { proof: { kind: 'policy', rules: [] } }), { approvers: OTHERS })).toEqual(first);
    });

    test('and once they have consented, what the server wants is asked anew', () => {
      const then = checked(dispatchWith({}, decided(OTHERS)), { approvers: OTHERS });
      expect(then).toMatchObject({ ...asked, code: 'VERDICT_STRICTER' });
    });

    test('an approval would have lapsed', () => {
      const approvers = { ...proof.approvers, validForSeconds: 60 };
      const at = Date.parse(proof.decidedAt) + 60_000;
      expect(checked(dispatchWith(), { approvers, at: at - 1 })).toBeUndefined();
      expect(checked(dispatchWith(), { approvers, at })).toMatchObject({ ...asked, code: 'APPROVAL_LAPSED' });
    });

    test('where one of several is enough to answer, it is enough by now', () => {
      const [clause] = proof.approvers.allOf;
      if (clause === undefined) throw new Error('somebody is asked');
      const approvers: ApproverRule = { allOf: [{ ...clause, need: 2 }] };
      expect(checked(dispatchWith(), { approvers })).toBeUndefined();
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
      const leaving = { run: { namespace, workflowId }, callId: call.callId, target: judgement.target };
      const asked = { ...leaving, arguments: call.arguments };
      const digest = digestOfShown(asked, { generation, approvers, about }, runId);
      const said = { kind: 'decline' as const, decisionId: `p-${round}`, callId: call.callId, runId, approver, digest };
      return { ...proof, about, provision: said };
    }

    function answerTo(dispatch: DispatchInput, keys = macs): ReturnType<typeof checkProvided> {
      return checkProvided(dispatch, LEAVING, (requests) => keys?.areOurs(requests, dispatch) === true);
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
      ['to one without what proves it', { who: NAME }],
      ['to one under another key than it was asked under', { page: who }],
    ])('INV-G2: %s, it goes to no server, and the server asks anew', (_, requests) => {
      const dispatch = dispatchOf([signedOn(requests)], requests);
      // In mode `temporal` whoever writes to the namespace is believed.
      expect(checked(dispatch)).toBeUndefined();
      expect(answerTo(dispatch)).toMatchObject(anew);
      // Beside one that is genuine, too.
      expect(answerTo(dispatchOf([signedOn({ who, page }), signedOn(requests, 2)], { who }))).toMatchObject(anew);
    });

    test('INV-G2: to what a key proved that is gone: it is asked anew', () => {
      expect(answerTo(dispatchOf([signedOn({ who })], { who }), others)).toMatchObject(anew);
    });
  });
});
