/** What becomes of a decision: the first one counts, is told again, and its id stands for nothing else (INV-D3, S2.3, F-1, F-5). */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { defined } from '../../../../contracts/defined.ts';
import type { Outcome } from '../../../../contracts/schemas/call.ts';
import type { ApproverRule } from '../../../../contracts/schemas/policy.ts';
import type { Decision } from '../../../../contracts/schemas/request.ts';
import { accept, admit, isFixed, madeInTime, permits, refuseLong } from '../../../../domain/request/decision.ts';
import { askedAgain, dispatched, ended } from '../../../../domain/request/transitions.ts';
import { closeTurn } from '../../../../domain/run/turn.ts';
import { callOf, proposed, type Run } from '../../../../domain/state/run.ts';
import { sha256Hex } from '../../../../domain/text/canonical.ts';
import { modelText, resultOf } from '../../../../domain/views/model-text.ts';
import { anyText } from '../../../support/builders/arbitraries.ts';
import { identicalCalls } from '../../../support/builders/call.ts';
import { answer, approval, askingOf, rejection, shown } from '../../../support/builders/decision.ts';
import { allowVerdict, approverRule, askVerdict } from '../../../support/builders/judgement.ts';
import { outcomes } from '../../../support/builders/outcome.ts';
import { askingRun, judgedRun, runIds, START } from '../../../support/builders/run.ts';
import { askedUnder, by, told } from '../../../support/builders/told.ts';
import { forAll } from '../../../support/for-all.ts';
import { atPath, withCode } from '../../../support/refusal.ts';

/** When the request of a built run expires. */
const DEADLINE = START + 3_600_000;
const { cancelled, succeeded } = outcomes();
const asked = askingRun();
const first = approval(shown(asked, 't1.c0'));
const decided = told(asked, first).run;
const flying = dispatched(decided, 't1.c0')?.run ?? decided;
const over = ended(flying, 't1.c0', succeeded).run;
const withdrawn = ended(asked, 't1.c0', cancelled).run;
const nextTurn = proposed(closeTurn(asked), identicalCalls(1, 2), { inputTokens: 0, outputTokens: 0 }).run;
const expired = ended(asked, 't1.c0', { kind: 'expired', deadline: '2026-01-01T01:00:00.000Z' }).run;
const reopen = { kind: 'reopen', code: 'DEFINITION_CHANGED', message: 'The tool changed.' } as const;
const again = askedAgain(
  flying,
  't1.c0',
  reopen,
  runIds(),
  { approvers: approverRule(), deadlineSeconds: 60 },
  START,
).run;
const expiredAgain = ended(again, 't1.c0', { kind: 'expired', deadline: '2026-01-01T00:01:00.000Z' }).run;

test.each<[string, Run, Decision, string]>([
  ['a call of an earlier turn', nextTurn, approval(), 'REQUEST_NOT_OPEN'],
  // No turn has followed yet, or none will: the model thinks, or the run was stopped.
  ['a call of a turn that is over', closeTurn(withdrawn), first, 'REQUEST_NOT_OPEN'],
  ['a call of a turn that has not come', closeTurn(withdrawn), approval({ callId: 't2.c0' }), 'CALL_UNKNOWN'],
  [
    'a call that never asked',
    judgedRun(undefined, () => ({ verdict: allowVerdict() })),
    approval(),
    'REQUEST_NOT_OPEN',
  ],
  ['a call that was withdrawn', withdrawn, first, 'REQUEST_NOT_OPEN'],
  ...[flying, over, closeTurn(over)].map((run): [string, Run, Decision, string] => [
    'a call that was decided, in a later state',
    run,
    { ...first, decisionId: 'd-2' },
    'ALREADY_DECIDED',
  ]),
  ['F-1: an expired request', expired, { ...first, decisionId: 'd-3' }, 'DECISION_EXPIRED'],
  [
    'F-1: an expired request of a turn that is over',
    closeTurn(expired),
    { ...first, decisionId: 'd-3' },
    'DECISION_EXPIRED',
  ],
  ['F-1: a call approved, asked again and expired', expiredAgain, by('ann', again), 'DECISION_EXPIRED'],
])('%s takes no decision', (_what, run, decision, code) => {
  expect(told(run, decision).answer).toBe(code);
});

test('S2.3, F-5: a second decision is told who decided first, and when; one that is late, that nobody did', () => {
  const second = rejection({ ...shown(asked, 't1.c0'), decisionId: 'd-2', approver: { id: 'bob', groups: [] } });
  expect(admit(decided, second, runIds(), START + 1)).toEqual({
    kind: 'refuse',
    code: 'ALREADY_DECIDED',
    message: 'Call t1.c0 was approved by ann at 2026-01-01T00:00:00.000Z; nothing was changed.',
    facts: { callId: 't1.c0', decidedBy: 'ann', decidedAt: '2026-01-01T00:00:00.000Z' },
  });
  expect(told(expired, second).message).toBe(
    'The request for call t1.c0 expired at 2026-01-01T01:00:00.000Z; nothing was changed.',
  );
});

test.each([
  ['withdrawn', ended(decided, 't1.c0', cancelled).run, ' It was withdrawn since, and did not run.'],
  ['denied', ended(flying, 't1.c0', outcomes().denied).run, ' It was denied since, and did not run.'],
  ['run', over, ''],
  ['sent, and is under way', flying, ''],
  [
    'any of these, in a turn that is over',
    closeTurn(over),
    ' Its turn is over: the ledger of the run says what became of it.',
  ],
])('who decides late hears that the approved call was %s', (_, run, since) => {
  expect(told(run, { ...first, decisionId: 'd-2' }).message).toBe(
    `Call t1.c0 was approved by ann at 2026-01-01T00:00:00.000Z; nothing was changed.${since}`,
  );
});

test('who decides late on a rejected call hears no more than that, in its turn or after it', () => {
  const rejected = told(asked, rejection(shown(asked, 't1.c0'))).run;
  for (const run of [rejected, closeTurn(rejected)])
    expect(told(run, { ...first, decisionId: 'd-2' }).message).toBe(
      'Call t1.c0 was rejected by ann at 2026-01-01T00:00:00.000Z; nothing was changed.',
    );
});

describe('a decision that is sent again', () => {
  const run = askingRun(2);
  const approve = approval({ ...shown(run, 't1.c0'), comment: 'checked' });
  const { run: after, ack } = accept(run, askingOf(run, 't1.c0'), approve, START);
  const away = dispatched(after, 't1.c0')?.run ?? after;

  test('INV-D3: gets its first answer, whatever has happened since, carried or not, and however often it is signed', () => {
    const carried = JSON.parse(JSON.stringify(after)) as Run;
    for (const later of [after, away, closeTurn(ended(away, 't1.c0', succeeded).run), carried])
      for (const same of [approve, { ...approve, signature: 'one' }, { ...approve, signature: 'another' }])
        expect(admit(later, same, runIds(), DEADLINE + 1)).toEqual({ kind: 'repeat', ack });
  });

  test.each<readonly [string, Decision]>([
    ['call', { ...approve, ...shown(run, 't1.c1') }],
    ['digest', { ...approve, digest: shown(run, 't1.c1').digest }],
    ['person', { ...approve, approver: { id: 'bob', groups: [] } }],
    ['kind', rejection(shown(run, 't1.c0'))],
    ['scope', { ...approve, remember: { scope: 'tool' } }],
    ['proposal', { ...approve, arguments: {} }],
    ['comment', { ...approve, comment: 'not checked' }],
    ['group', { ...approve, approver: { id: 'ann', groups: ['ops'] } }],
    ['Temporal run', { ...approve, runId: 'run-0' }],
  ])('is refused with another %s under its id', (_part, other) => {
    const facts = { callId: other.callId, path: 'decisionId' };
    expect(admit(after, other, runIds(), START)).toMatchObject({ kind: 'refuse', code: 'DECISION_INVALID', facts });
    expect(callOf(after, 't1.c1')?.status).toBe('waiting-for-consent');
  });

  test('a short hash is kept of it, and nothing else: it is carried', () => {
    expect(after.answered).toEqual([{ ack, message: expect.stringMatching(/^[0-9a-f]{32}$/) }]);
  });
});

test('INV-G2: the Temporal run in which a decision was made counts only if it is one of those of the chain', () => {
  expect(madeInTime(approval({ runId: 'r2' }), ['r1', 'r2'])).toBeUndefined();
  expect(madeInTime(approval({ runId: 'r0' }), ['r1', 'r2'])).toMatchObject({
    kind: 'refuse',
    code: 'DECISION_STALE_RUN',
    facts: { callId: 't1.c0' },
    message: expect.stringContaining('r0'),
  });
});

test('of an approver’s groups only those are kept that the rule names: a run carries what it keeps', () => {
  const run = askedUnder(approverRule([], ['ops', 'sec']));
  const approver = { id: 'zoe', groups: ['a', 'sec', 'b'] };
  const { run: after, facts } = told(run, by('zoe', run, 'approve', { approver }));
  const kept = { approver: { id: 'zoe', groups: ['sec'] } };
  expect(callOf(after, 't1.c0')).toMatchObject({ consent: { made: { decision: kept } } });
  expect(facts).toMatchObject([{ kind: 'decision.accepted', ...kept }]);
});

/** A person answers in the tool's place (INV-X2, INV-G1; requirements 3.10). */
describe('an answer in place of the tool', () => {
  const clause = { layer: 'organisation' as const, ids: ['ann', 'bob', 'zoe'], groups: [], need: 2 };
  const askedOf = (...may: ('edit' | 'respond')[]): Run =>
    judgedRun(identicalCalls(1), () => ({ verdict: askVerdict({ approvers: { allOf: [{ ...clause, may }] } }) }));
  const OPEN = askedOf('respond');
  const answered = answer({ ...shown(OPEN, 't1.c0'), comment: 'by phone' });

  test('who may answer is enough alone, and nothing is sent (INV-G1)', () => {
    const { run, ack, facts } = accept(OPEN, askingOf(OPEN, 't1.c0'), answered, START);
    expect(ack.status).toBe('answered');
    expect(callOf(run, 't1.c0')).toMatchObject({
      status: 'settled',
      outcome: { kind: 'answered', by: 'ann', answer: 'It is done by hand.' },
    });
    expect(dispatched(run, 't1.c0')).toBeUndefined();
    // The ledger binds the answer and does not repeat it.
    expect(facts).toMatchObject([
      {
        kind: 'decision.accepted',
        decision: 'respond',
        comment: 'by phone',
        answerHash: sha256Hex('It is done by hand.'),
      },
      { kind: 'outcome', outcome: 'answered' },
    ]);
    expect(JSON.stringify(facts)).not.toContain('by hand');
    expect(admit(run, answered, runIds(), START)).toMatchObject({ kind: 'repeat', ack });
    expect(admit(run, { ...answered, answer: 'No.' } as typeof answered, runIds(), START)).toMatchObject({
      code: 'DECISION_INVALID',
    });
    const late = approval({ ...shown(OPEN, 't1.c0'), decisionId: 'late' });
    for (const each of [run, closeTurn(run)]) {
      expect(admit(each, late, runIds(), START)).toMatchObject(withCode('ALREADY_DECIDED', 'was answered by ann'));
    }
  });

  test('an answer is no longer than a result may be', () => {
    const said = answer({ ...shown(OPEN, 't1.c0'), answer: 'ä'.repeat(500) });
    if (said.kind !== 'respond') throw new Error('an answer answers');
    expect(refuseLong(said, 'answer', said.answer, { resultBytes: 1_000 })).toBeUndefined();
    expect(refuseLong(said, 'answer', said.answer, { resultBytes: 999 })).toMatchObject(
      atPath('DECISION_INVALID', 'answer'),
    );
  });

  test('a call that a provider makes takes yes or no only', () => {
    const { judgement } = askingOf(askedOf('respond'), 't1.c0');
    const target = { ...judgement.target, hosted: 'gpt' };
    const run = judgedRun(identicalCalls(1), () => ({
      verdict: askVerdict({ approvers: { allOf: [{ ...clause, need: 1, may: ['respond' as const] }] } }),
      target,
    }));
    expect(admit(run, answer(shown(run, 't1.c0')), runIds(), START)).toMatchObject(
      withCode('DECISION_NOT_PERMITTED', 'provider of model gpt'),
    );
  });

  test('where the rule does not let them, it is refused, and the call waits', () => {
    for (const run of [askedOf(), askedOf('edit')])
      expect(admit(run, answer(shown(run, 't1.c0')), runIds(), START)).toMatchObject({
        code: 'DECISION_NOT_PERMITTED',
      });
  });

  test('INV-X1: what may have run is not answered as if it had not', () => {
    const unsure = { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: 'lost' } as const;
    const run = { ...OPEN, calls: [{ ...askingOf(OPEN, 't1.c0'), unsure }] };
    expect(admit(run, answered, runIds(), START)).toMatchObject({ code: 'DECISION_NOT_PERMITTED' });
  });

  test('INV-G4: every list must permit it, and silence does not', () => {
    const rule = (...lists: (('edit' | 'respond')[] | undefined)[]): ApproverRule => ({
      allOf: lists.map((may) => ({ ...clause, ...defined({ may }) })),
    });
    expect(permits(rule(['respond']), 'respond')).toBe(true);
    expect(permits(rule(['respond'], ['edit', 'respond']), 'respond')).toBe(true);
    for (const no of [rule(), rule(undefined), rule(['edit']), rule(['respond'], undefined), rule(['respond'], [])])
      expect(permits(no, 'respond')).toBe(false);
  });

  describe('INV-X2: what the model reads', () => {
    test('of an answer: whose it is, that nothing ran, and the answer', () => {
      const { text, isError } = modelText(outcomes().answered);
      expect(text).toMatch(/^Not executed: ann answered in the tool's place\./);
      expect(text).toContain('Do not retry');
      expect(text.endsWith('\nIt is done by hand.')).toBe(true);
      expect(isError).toBe(true);
    });

    test('no tool can say the same, whatever it returns', () => {
      forAll(anyText(), anyText(), fc.boolean(), (said, words, isError) => {
        const result = { content: [{ type: 'text' as const, text: said }] };
        const byTool: Extract<Outcome, { kind: 'failed' | 'succeeded' }> = isError
          ? { kind: 'failed', code: 'TOOL_FAILED', message: said, executed: true, result }
          : { kind: 'succeeded', result };
        const forged = modelText({ kind: 'answered', by: 'ann', answer: words });
        expect(modelText(byTool)).not.toEqual(forged);
        // Also where the tool returns the very words.
        const same = { ...result, content: [{ type: 'text' as const, text: forged.text }] };
        expect(modelText({ ...byTool, result: same })).not.toEqual(forged);
      });
    });

    test('B-8: of an edited call that was sent, which arguments it had; of one that was not, nothing of them', () => {
      const edited = { by: 'ann', arguments: { amount: 5 } };
      for (const outcome of Object.values(outcomes())) {
        const { text, isError } = resultOf({ outcome, edited });
        const plain = resultOf({ outcome });
        expect(plain).toEqual(modelText(outcome));
        expect(isError).toBe(plain.isError);
        const wasSent = ['succeeded', 'failed', 'unknown'].includes(outcome.kind);
        expect(text.includes('ann approved this call with other arguments than you proposed: {"amount":5}')).toBe(
          wasSent,
        );
        expect(text.endsWith(plain.text)).toBe(true);
      }
    });
  });
});

test('a call that has begun, or may have run, can only be approved or rejected as it is', () => {
  const state = askingOf(asked, 't1.c0');
  const unsure = { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: 'lost' } as const;
  const input = { leg: { round: 1, requests: {}, used: [] }, provided: [] };
  expect(isFixed(state)).toBe(false);
  expect(isFixed({ ...state, unsure })).toBe(true);
  expect(isFixed({ ...state, input })).toBe(true);
});
