/** What a dispatch believes of a decision: nothing that it cannot prove (INV-G1, INV-G2, F-2, F-4, F-6, D-5). */
import { describe, expect, test } from '@jest/globals';
import {
  checkConsent,
  digestShown,
  provenCall,
  shownForConsent,
  statementOf,
} from '../../../../activities/gate/statement.ts';
import { IssuedCall } from '../../../../contracts/schemas/credentials.ts';
import type { ApproverRule } from '../../../../contracts/schemas/policy.ts';
import type { Decision } from '../../../../contracts/schemas/request.ts';
import type { DispatchProof } from '../../../../contracts/wire/proofs.ts';
import type { DispatchInput } from '../../../../contracts/wire/tools.ts';
import type { OfferedTool } from '../../../../domain/run/toolset.ts';
import { approval } from '../../../support/builders/decision.ts';
import { digestOfShown } from '../../../support/builders/dispatch.ts';
import { allowVerdict, approverRule, askVerdict } from '../../../support/builders/judgement.ts';
import { outcomePause } from '../../../support/builders/pause.ts';
import { START } from '../../../support/builders/run.ts';
import { toolTarget } from '../../../support/builders/tool.ts';

const run = { namespace: 'default', workflowId: 'run/1', initiator: { id: 'ann', tenant: 'default' }, specHash: 's' };
const CALL = { run, callId: 't1.c0', target: toolTarget(), arguments: {} };

describe('what a dispatch believes of a decision in time: nothing that it cannot prove (INV-G1, INV-G2, F-2, F-4, F-6, D-5)', () => {
  type Proof = Extract<DispatchProof, { kind: 'decision' }>;
  const [MINUTE, OPENED] = [60_000, START];
  const iso = (ms: number): string => new Date(ms).toISOString();
  const rule: ApproverRule = { ...approverRule(['ann', 'bob']), validForSeconds: 60, extendableToSeconds: 3_600 };

  const digestFor = (approvers: ApproverRule, runId?: string): string =>
    digestOfShown(CALL, { generation: 1, approvers }, runId);

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
    // Sound: nothing else of it is read.
    return { ...CALL, proof, decidedIn: ['run-1'] } as unknown as DispatchInput;
  }
  const DECIDED = OPENED + 5 * MINUTE;
  const postponedBy = (decision: Decision, decidedAt = OPENED + 1): Partial<Proof> => ({
    extended: { openedAt: iso(OPENED), by: [{ decision, decidedAt: iso(decidedAt) }] },
  });
  const ask = askVerdict({ approvers: rule, deadlineSeconds: 60 });
  const answerTo = (input: DispatchInput, over: { verdict?: Parameters<typeof checkConsent>[1]; now?: number } = {}) =>
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
      expect(answerTo(proven(), { verdict: shorter, now: DECIDED + 30_000 })).toMatchObject({
        code: 'APPROVAL_LAPSED',
      });
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
});

describe('what a token says of a call: what is sent, and who consented to it (INV-G1, INV-S2)', () => {
  const DIGEST = 'd'.repeat(64);
  const HASH = 'e'.repeat(64);
  const by = (id: string, digest = DIGEST) => approval({ digest, approver: { id, groups: [] } });
  const decided = (over: object = {}): DispatchProof => ({
    kind: 'decision',
    decision: by('bob'),
    generation: 1,
    approvers: approverRule(['ann', 'bob']),
    deadline: '',
    decidedAt: '',
    ...over,
  });

  function said(
    proof: DispatchProof,
    verdict: Parameters<typeof checkConsent>[1] = askVerdict(),
    args = { b: 1, a: [2] },
  ) {
    // Sound: nothing else of it is read.
    const input = { callId: 't2.c1', runId: 'run-1', arguments: args, proof } as unknown as DispatchInput;
    // Sound: as above.
    const tool = { hash: HASH, definition: { name: 'pay' } } as OfferedTool;
    const call = provenCall(input, tool, verdict);
    expect(IssuedCall.parse(call)).toEqual(call);
    return call;
  }

  test('the call is named with the hash of what is sent, in whatever order it was written', () => {
    const call = said(decided());
    expect(call).toMatchObject({ callId: 't2.c1', executionId: 'run-1', tool: 'pay', definition: HASH });
    // printf '{"a":[2],"b":1}' | sha256sum
    expect(call.arguments).toBe('63c9663de90ee828bbda6cd9acf02d0c653986c1ec25aa239920641edc9a1de5');
  });

  test('all who approved stand there, each once, the last first', () => {
    const further = [by('ann'), by('bob')];
    expect(said(decided({ further })).consent).toEqual({ kind: 'decision', digest: DIGEST, approvers: ['bob', 'ann'] });
  });

  test('what policy lets pass names the rules of the verdict that this worker reached, and not those of the input', () => {
    const proof: DispatchProof = { kind: 'policy', rules: ['invented'] };
    expect(said(proof, { ...allowVerdict(), rules: ['organisation/reads'] }).consent).toEqual({
      kind: 'policy',
      rules: ['organisation/reads'],
    });
  });

  test('an approval that stands is told apart from one of this call, and names the call that it was made on', () => {
    const proof: DispatchProof = {
      kind: 'standing',
      standing: 's-1',
      decisions: [by('ann'), by('bob')],
      callId: 't1.c0',
      shown: { generation: 1, arguments: {}, approvers: approverRule(['ann']) },
      deadline: '',
      decidedAt: '',
    };
    expect(said(proof).consent).toEqual({
      kind: 'standing',
      digest: DIGEST,
      approvers: ['ann', 'bob'],
      callId: 't1.c0',
    });
  });
});

describe('what is shown by a proof is no more than it may say: run, tool and call are those of the dispatch (INV-G1, INV-G2)', () => {
  const approved = toolTarget();
  const other = { ...approved, tool: 'delete_everything' };
  const rule: ApproverRule = {
    allOf: approverRule().allOf.map((clause) => ({ ...clause, may: ['edit'], remember: ['tool'] })),
  };

  const shown = { generation: 1, arguments: {}, approvers: rule };
  const digest = digestOfShown(CALL, shown);
  const at = (ms: number): string => new Date(START + ms).toISOString();

  function inputOf(proof: DispatchProof, target = approved): DispatchInput {
    // Sound: nothing else of it is read.
    return { ...CALL, target, proof, decidedIn: ['run-1'] } as unknown as DispatchInput;
  }

  /** A decision on one tool, and a proof that names that tool as what was shown. */
  const FORGED: object = { ...shown, target: approved };

  test.each([
    ['what is shown to an editor', FORGED],
    ['nothing more', shown],
  ])('an edited approval of one tool is none for another, by %s', (_, edit) => {
    const decision = { ...approval({ digest }), arguments: {} } as Decision;
    const proof = {
      kind: 'decision',
      decision,
      generation: 2,
      approvers: rule,
      deadline: at(60_000),
      decidedAt: at(1),
    };
    // Sound: what stands in an input is whatever its sender wrote.
    const sent = (target: typeof approved) => inputOf({ ...proof, edit } as unknown as DispatchProof, target);
    expect(checkConsent(sent(approved), allowVerdict(), undefined, START + 2)).toBeUndefined();
    expect(checkConsent(sent(other), allowVerdict(), undefined, START + 2)).toMatchObject({
      code: 'DISPATCH_FORBIDDEN',
    });
  });

  test.each([
    ['what was shown', FORGED],
    ['nothing more', shown],
  ])('a decision that stands for one tool is none for another, by %s', (_, said) => {
    const decision = { ...approval({ digest }), remember: { scope: 'tool' } } as Decision;
    const deadline = { deadline: at(60_000), decidedAt: at(1) };
    const proof = { kind: 'standing', standing: 's', decisions: [decision], callId: 't1.c0', shown: said, ...deadline };
    // Sound: as above.
    const standing = proof as unknown as Extract<DispatchProof, { kind: 'standing' }>;
    const checked = (target: typeof approved) =>
      checkConsent(inputOf(standing, target), allowVerdict(), undefined, START + 2);
    expect(checked(approved)).toBeUndefined();
    expect(checked(other)).toMatchObject({ code: 'DISPATCH_FORBIDDEN' });
  });

  const ELSE: readonly [string, unknown][] = [
    ['namespace', 'other'],
    ['tenant', 'other'],
    ['workflowId', 'other'],
    ['runId', 'other'],
    ['callId', 't1.c1'],
    ['target', other],
  ];

  test.each(ELSE)('nothing of a proof is read as %s', (name, value) => {
    const input = inputOf({ kind: 'policy', rules: [] });
    const said = { ...shown, [name]: value, about: outcomePause() } as typeof shown;
    expect(digestShown(input, shownForConsent(input, said), 'run-1')).toBe(digest);
    const times = { openedAt: at(0), deadline: at(60_000), decidedAt: at(1) };
    const pause = { ...shown, ...times, definitionHash: approved.definitionHash, about: outcomePause() };
    const digestOf = (proof: typeof pause) =>
      digestShown(input, statementOf(input, proof, approval({ digest })).shown, 'run-1');
    const known = digestOf(pause);
    expect(known).not.toBe(digest);
    expect(digestOf({ ...pause, [name]: value, arguments: { a: 1 } })).toBe(known);
  });
});
