/** Approvals that change the arguments (F23, B-7, S3.9; requirements 3.9). */
import { describe, expect, test } from '@jest/globals';
import { defined } from '../../../../contracts/defined.ts';
import type { JsonObject } from '../../../../contracts/schemas/json.ts';
import type { ApproverRule } from '../../../../contracts/schemas/policy.ts';
import { accept, admit } from '../../../../domain/request/decision.ts';
import { digestOf } from '../../../../domain/request/digest.ts';
import { acceptEdit, refuseEdit, shownToEditor } from '../../../../domain/request/edit.ts';
import { dispatched, ended, reopened } from '../../../../domain/request/transitions.ts';
import { callOf, type Run } from '../../../../domain/state/run.ts';
import { hashOf } from '../../../../domain/text/canonical.ts';
import { identicalCalls } from '../../../support/builders/call.ts';
import { approval, askingOf, edit, extension, shown } from '../../../support/builders/decision.ts';
import {
  acceptedEdit,
  askedOf,
  codeOf,
  edited,
  editOf,
  ONE,
  plainOf,
  rule,
  SMALL,
  TWO,
} from '../../../support/builders/edit.ts';
import { allowVerdict, askVerdict, denyVerdict, judgement } from '../../../support/builders/judgement.ts';
import { judgedRun, POLICY_VERSION, runIds, START } from '../../../support/builders/run.ts';
import { toolTarget } from '../../../support/builders/tool.ts';

describe('an edit by somebody who is enough', () => {
  const decision = editOf(ONE);
  const answer = acceptedEdit(ONE, decision);

  test('INV-G1: the call is approved with these arguments and no others, and both are kept', () => {
    expect(answer.ack.status).toBe('approved');
    const state = callOf(answer.run, 't1.c0');
    expect(state).toMatchObject({
      status: 'approved',
      call: { callId: 't1.c0', name: 'files__write_file', arguments: SMALL },
      edit: { by: 'ann', proposed: { path: 'notes.txt', content: 'hello' }, decisionId: decision.decisionId },
    });
    const flying = callOf(dispatched(answer.run, 't1.c0')?.run ?? answer.run, 't1.c0');
    if (flying?.status !== 'in-flight') throw new Error('it flies');
    expect(shownToEditor(flying)).toEqual({
      generation: 1,
      arguments: { path: 'notes.txt', content: 'hello' },
      approvers: rule(['ann', 'bob']),
    });
    // Attempts of before the edit do not count against the call that was edited.
    const sentBefore = { ...ONE, calls: ONE.calls.map((each) => ({ ...each, attempts: 4 })) };
    expect(callOf(acceptedEdit(sentBefore, decision).run, 't1.c0')).toMatchObject({ attempts: 4, holds: { count: 4 } });
    // Runs of older builds go on as they were recorded.
    const judged = { judgement: { ...judgement(), verdict: allowVerdict() }, policyVersion: POLICY_VERSION };
    const asBefore = acceptEdit(sentBefore, askingOf(sentBefore, 't1.c0'), decision, judged, runIds(), START, false);
    expect('run' in asBefore && callOf(asBefore.run, 't1.c0')).not.toHaveProperty('holds');
    // Asked again, whoever approves has read these arguments.
    const again = reopened(flying, { at: START, because: 'x', approvers: rule(['bob']), deadlineSeconds: 60 });
    expect(again).toMatchObject({ call: { arguments: SMALL }, request: { generation: 2 } });
    const consent = { request: again.request, made: { decision: approval(), decidedAt: START } };
    expect(again.edit).toBeDefined();
    expect(shownToEditor({ ...again, consent })).toBeUndefined();
    expect(shownToEditor(again)).toBeUndefined();
    expect(ended(answer.run, 't1.c0', { kind: 'cancelled', reason: 'x' }).run.calls[0]).toMatchObject({
      edit: { by: 'ann' },
    });
  });

  test('the ledger has the hashes of both, and the verdict on the edited call', () => {
    expect(answer.facts).toMatchObject([
      {
        kind: 'decision.accepted',
        decision: 'approve',
        generation: 1,
        edited: { from: hashOf({ path: 'notes.txt', content: 'hello' }), to: hashOf(SMALL) },
      },
      { kind: 'verdict', verdict: 'ask', argumentsHash: hashOf(SMALL) },
    ]);
    expect(answer.facts[0]).not.toHaveProperty('counted');
    expect(JSON.stringify(answer.facts)).not.toContain('notes.txt');
  });

  test('INV-D3: the same edit sent again gets its first answer; with other arguments it is another decision', () => {
    expect(admit(answer.run, decision, runIds(), START)).toMatchObject({ kind: 'repeat', ack: answer.ack });
    expect(admit(answer.run, { ...decision, arguments: {} }, runIds(), START)).toMatchObject({
      code: 'DECISION_INVALID',
    });
    const { arguments: _, ...plain } = decision;
    expect(admit(answer.run, plain, runIds(), START)).toMatchObject({ code: 'DECISION_INVALID' });
  });
});

describe('what is refused before the call is judged', () => {
  test.each<[string, Run, JsonObject, string]>([
    [
      'the rule is silent on edits',
      askedOf({ allOf: [{ layer: 'run', ids: ['ann'], groups: [] }] }),
      SMALL,
      'DECISION_NOT_PERMITTED',
    ],
    [
      'one of two lists is silent on edits',
      askedOf({ allOf: [...rule(['ann']).allOf, { layer: 'run', ids: ['ann'], groups: [] }], together: true }),
      SMALL,
      'DECISION_NOT_PERMITTED',
    ],
    [
      'the rule lets people respond only',
      askedOf(rule(['ann'], { may: ['respond'] })),
      SMALL,
      'DECISION_NOT_PERMITTED',
    ],
    ['nothing is changed', ONE, { content: 'hello', path: 'notes.txt' }, 'DECISION_INVALID'],
    ['too much for a call', ONE, { content: 'x'.repeat(65_536) }, 'ARGUMENTS_TOO_LARGE'],
  ])('%s', (_what, run, args, code) => {
    expect(codeOf(edited(run, editOf(run, args)))).toBe(code);
  });

  test('too much for a turn: what was proposed and shown is kept beside it', () => {
    const asked = askedOf(rule(['ann', 'bob'], { need: 2 }), 3);
    const [own, small, next] = [{ path: 'notes.txt', content: 'hello' }, SMALL, { content: 'x'.repeat(60) }].map(
      (args) => JSON.stringify(args).length,
    ) as [number, number, number];
    const most = (run: Run, args: JsonObject, needed: number): void => {
      const state = askingOf(run, 't1.c0');
      const decision = editOf(run, args);
      const limit = { argumentBytes: 100, argumentBytesPerTurn: needed };
      expect(refuseEdit(run, state, decision, limit)).toBeUndefined();
      expect(refuseEdit(run, state, decision, { ...limit, argumentBytesPerTurn: needed - 1 })).toMatchObject({
        code: 'ARGUMENTS_TOO_LARGE',
        facts: { path: 'arguments' },
      });
    };
    most(asked, SMALL, 3 * own + 2 * small);
    const once = acceptedEdit(asked, editOf(asked)).run;
    most(once, { content: 'x'.repeat(60) }, 3 * own + small + 2 * next);
    const beside = edit(SMALL, { ...shown(once, 't1.c1'), decisionId: 'beside' });
    const exact = { argumentBytes: 100, argumentBytesPerTurn: 3 * own + 4 * small };
    expect(refuseEdit(once, askingOf(once, 't1.c1'), beside, exact)).toBeUndefined();
    const twice = acceptedEdit(once, editOf(once, { content: 'x'.repeat(60) })).run;
    const other = edit(SMALL, { ...shown(twice, 't1.c1'), decisionId: 'other' });
    const limit = { argumentBytes: 100, argumentBytesPerTurn: 3 * own + 3 * small + 2 * next };
    expect(refuseEdit(twice, askingOf(twice, 't1.c1'), other, limit)).toBeUndefined();
    expect(
      refuseEdit(twice, askingOf(twice, 't1.c1'), other, {
        ...limit,
        argumentBytesPerTurn: limit.argumentBytesPerTurn - 1,
      }),
    ).toMatchObject({ code: 'ARGUMENTS_TOO_LARGE' });
  });

  test('INV-X1: an earlier attempt may have run: it is not made another call', () => {
    const state = askingOf(ONE, 't1.c0');
    const unsure = { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: 'lost' } as const;
    const run = { ...ONE, calls: [{ ...state, unsure }] };
    expect(codeOf(edited(run, editOf(run)))).toBe('DECISION_NOT_PERMITTED');
  });
});

describe('what the judge says of the edited call', () => {
  test('denied: it is refused with the reason, and the request waits as it was', () => {
    const verdict = denyVerdict({ code: 'ARGUMENTS_INVALID', message: '#/amount: not a number' });
    expect(edited(ONE, editOf(ONE), { verdict })).toMatchObject({
      kind: 'refuse',
      code: 'ARGUMENTS_INVALID',
      message: expect.stringContaining('not a number'),
    });
  });

  test.each<[string, ReturnType<typeof toolTarget> | undefined]>([
    ['another server', { ...toolTarget(), server: 'other' }],
    ['another address', { ...toolTarget(), serverUrl: 'other' }],
    ['another tool', { ...toolTarget(), tool: 'other' }],
    ['no tool', undefined],
  ])('F23: of %s it is refused', (_what, target) => {
    const { target: _, ...lost } = judgement({ verdict: askVerdict({ approvers: rule(['ann']) }) });
    const judged = { judgement: { ...lost, ...defined({ target }) }, policyVersion: POLICY_VERSION };
    const answer = acceptEdit(ONE, askingOf(ONE, 't1.c0'), editOf(ONE), judged, runIds(), START);
    expect(codeOf(answer)).toBe('TOOL_UNKNOWN');
  });

  test('allowed: those who were asked decide all the same', () => {
    expect(acceptedEdit(TWO, editOf(TWO), { verdict: allowVerdict() })).toMatchObject({
      ack: { status: 'edited' },
      run: { calls: [{ request: { approvers: TWO.calls[0] && askingOf(TWO, 't1.c0').request.approvers } }] },
    });
  });

  test('arguments that nobody may put there are refused', () => {
    const approvers: ApproverRule = { allOf: [{ layer: 'run', ids: ['ann'], groups: [] }] };
    expect(codeOf(edited(ONE, editOf(ONE), { verdict: askVerdict({ approvers }) }))).toBe('DECISION_NOT_PERMITTED');
  });

  test('others are asked: the call waits for them with the new arguments, and the editor has not agreed for them', () => {
    const verdict = askVerdict({ approvers: rule(['zoe']), deadlineSeconds: 60 });
    const answer = acceptedEdit(ONE, editOf(ONE), { verdict });
    expect(answer.ack.status).toBe('edited');
    expect(askingOf(answer.run, 't1.c0')).toMatchObject({
      call: { arguments: SMALL },
      request: {
        generation: 2,
        approvers: rule(['zoe']),
        deadline: START + 61_000,
        because: 'ann changed the arguments.',
      },
    });
    expect(askingOf(answer.run, 't1.c0')).not.toHaveProperty('votes');
    expect(answer.facts).toMatchObject([
      { kind: 'decision.accepted', counted: true },
      { kind: 'verdict' },
      { kind: 'request.opened', generation: 2, digest: digestOf(askingOf(answer.run, 't1.c0'), runIds()) },
    ]);
    const last = plainOf(answer.run, 'zoe');
    const { state } = admit(answer.run, last, runIds(), START) as { state: ReturnType<typeof askingOf> };
    const done = callOf(accept(answer.run, state, last, START).run, 't1.c0');
    if (done?.status !== 'approved') throw new Error('it is approved');
    // Zoe read what is sent: the edit is no part of the consent.
    expect(shownToEditor(done)).toBeUndefined();
  });

  test('F-4: the time that an extension gave stays, and who gave it said so of the former arguments', () => {
    const approvers = { ...rule(['ann', 'bob'], { need: 2 }), extendableToSeconds: 20_000 };
    const run = askedOf(approvers);
    const until = new Date(START + 10_000_000).toISOString();
    const later = extension({ ...shown(run, 't1.c0'), until });
    const postponed = accept(run, askingOf(run, 't1.c0'), later, START).run;
    const { request } = askingOf(acceptedEdit(postponed, editOf(postponed)).run, 't1.c0');
    expect(request).toMatchObject({ generation: 2, openedAt: START, deadline: START + 3_601_000 });
    expect(request).not.toHaveProperty('extended');
    const allowed = acceptedEdit(postponed, editOf(postponed), { verdict: allowVerdict() });
    expect(askingOf(allowed.run, 't1.c0').request.deadline).toBe(START + 10_000_000);
  });

  test('an edit buys no time', () => {
    const verdict = askVerdict({ approvers: rule(['zoe']), deadlineSeconds: 1_000_000 });
    expect(askingOf(acceptedEdit(ONE, editOf(ONE), { verdict }).run, 't1.c0').request.deadline).toBe(
      askingOf(ONE, 't1.c0').request.deadline,
    );
  });

  test('H-7: of a tool that has changed since, the call waits as it is now, and the editor has not agreed to it', () => {
    const run = judgedRun(identicalCalls(1), () => ({
      verdict: askVerdict({ approvers: rule(['ann']) }),
      description: 'Writes.',
      annotations: { readOnlyHint: false },
    }));
    const target = { ...toolTarget(), definitionHash: 'e'.repeat(64) };
    const answer = acceptedEdit(run, editOf(run), { target });
    expect(answer.ack.status).toBe('edited');
    const state = askingOf(answer.run, 't1.c0');
    expect(state.judgement).toMatchObject({ target });
    expect(state.judgement).not.toHaveProperty('description');
    expect(state).not.toHaveProperty('votes');
    // Unchanged, it is shown as it was.
    const same = acceptedEdit(run, editOf(run), { verdict: allowVerdict() });
    expect(callOf(same.run, 't1.c0')).toMatchObject({
      judgement: { description: 'Writes.', annotations: { readOnlyHint: false } },
    });
  });
});
