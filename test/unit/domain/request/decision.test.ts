/** What becomes of a decision: the first one counts, is told again, and its id stands for nothing else (INV-D3, S2.3, F-1, F-5). */
import { describe, expect, test } from '@jest/globals';
import type { Decision } from '../../../../contracts/schemas/request.ts';
import { accept, admit, comparingDecisions, madeInTime } from '../../../../domain/request/decision.ts';
import { askedAgain, dispatched, ended } from '../../../../domain/request/transitions.ts';
import { closeTurn } from '../../../../domain/run/turn.ts';
import { callOf, proposed, type Run } from '../../../../domain/state/run.ts';
import { identicalCalls } from '../../../support/builders/call.ts';
import { approval, askingOf, rejection, shown } from '../../../support/builders/decision.ts';
import { allowVerdict, approverRule } from '../../../support/builders/judgement.ts';
import { outcomes } from '../../../support/builders/outcome.ts';
import { askingRun, judgedRun, runIds, START } from '../../../support/builders/run.ts';
import { askedUnder, by, told } from '../../../support/builders/told.ts';

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
const again = askedAgain(flying, 't1.c0', reopen, runIds(), { approverId: 'ann', deadlineSeconds: 60 }, START).run;
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

describe.each([
  ['that compares all of a decision', comparingDecisions(askingRun(2))],
  ['that was prepared before', askingRun(2)],
])('in a run %s, a decision that is sent again', (_what, run) => {
  const approve = approval({ ...shown(run, 't1.c0'), comment: 'checked' });
  const { run: after, ack } = accept(run, askingOf(run, 't1.c0'), approve, START);
  const away = dispatched(after, 't1.c0')?.run ?? after;
  const ids = { path: 'decisionId' };

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
  ])('is refused with another %s under its id', (_part, other) => {
    const facts = { callId: other.callId, ...ids };
    expect(admit(after, other, runIds(), START)).toMatchObject({ kind: 'refuse', code: 'DECISION_INVALID', facts });
    expect(callOf(after, 't1.c1')?.status).toBe('waiting-for-consent');
  });

  const isWhole = run.decisionIds === 'compared';
  test.each<readonly [string, Decision]>([
    ['comment', { ...approve, comment: 'not checked' }],
    ['group', { ...approve, approver: { id: 'ann', groups: ['ops'] } }],
    ['Temporal run', { ...approve, runId: 'run-0' }],
  ])(`is ${isWhole ? 'refused with' : 'taken for the first, as it was, with'} another %s`, (_part, other) => {
    const answer = isWhole ? { kind: 'refuse', code: 'DECISION_INVALID', facts: ids } : { kind: 'repeat', ack };
    expect(admit(after, other, runIds(), START)).toMatchObject(answer);
  });

  test('a short hash is kept of it, and nothing else: it is carried', () => {
    const hash = isWhole ? { message: expect.stringMatching(/^[0-9a-f]{32}$/) } : { digest: approve.digest };
    expect(after.answered).toEqual([{ ack, ...hash }]);
    expect('decisionIds' in after).toBe(isWhole);
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
