/** A request that several must countersign (E-2, F-12, INV-G2). */
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import type { Decision } from '../../../../contracts/schemas/request.ts';
import { dispatched } from '../../../../domain/request/transitions.ts';
import { closeTurn } from '../../../../domain/run/turn.ts';
import { callOf, type Run } from '../../../../domain/state/run.ts';
import { currentDetails } from '../../../../domain/views/temporal-ui.ts';
import { askingOf } from '../../../support/builders/decision.ts';
import { askedUnder, by, told } from '../../../support/builders/told.ts';
import { forAll } from '../../../support/for-all.ts';

const clause = { layer: 'organisation' as const, ids: ['ann', 'bob', 'zoe'], groups: [], need: 2 };
const asked = askedUnder({ allOf: [clause] });
const as = (id: string, kind: Decision['kind'] = 'approve'): Decision => by(id, asked, kind);
const after = (...decisions: readonly Decision[]): Run => decisions.reduce((run, each) => told(run, each).run, asked);

describe('two of three', () => {
  test('the first counts, the second settles it, and both stand behind the call', () => {
    const one = after({ ...as('ann'), comment: 'seen' } as Decision);
    expect(askingOf(one, 't1.c0').votes).toHaveLength(1);
    expect(dispatched(one, 't1.c0')).toBeUndefined();
    // What was said with a vote is in the ledger, and is not carried along.
    expect(JSON.stringify(one.calls)).not.toContain('seen');
    expect(currentDetails('waiting', one)).toContain('agreed so far: ann');
    const { run, answer } = told(one, as('zoe'));
    expect(answer).toBe('approved');
    expect(callOf(dispatched(run, 't1.c0')?.run ?? run, 't1.c0')).toMatchObject({
      status: 'in-flight',
      consent: {
        made: { decision: { approver: { id: 'zoe' } }, further: [{ decision: { approver: { id: 'ann' } } }] },
      },
    });
  });

  test('the ledger says that a vote is one of several', () => {
    expect(told(asked, as('ann')).facts).toMatchObject([{ kind: 'decision.accepted', counted: true }]);
  });

  const vote = as('ann');
  const done = after(as('ann'), as('bob'));
  test.each<[string, Run, Decision, string]>([
    ['nobody counts twice, and one who has agreed is told so', after(vote), as('ann'), 'ALREADY_DECIDED'],
    ['sent again, a vote gets its first answer', after(vote), vote, 'again counted'],
    ['but not as another kind', after(vote), { ...vote, kind: 'withdraw' }, 'DECISION_INVALID'],
    ['one rejection is enough', after(vote), as('bob', 'reject'), 'rejected'],
    ['also of one who had agreed', after(vote), as('ann', 'reject'), 'rejected'],
    ['who takes an approval back is told so', after(vote), as('ann', 'withdraw'), 'withdrawn'],
    ['and is not counted', after(vote, as('ann', 'withdraw')), as('bob'), 'counted'],
    ['and may agree again', after(vote, as('ann', 'withdraw'), as('bob')), as('ann'), 'approved'],
    ['who has not agreed takes nothing back', asked, as('ann', 'withdraw'), 'REQUEST_NOT_OPEN'],
    ['nor for somebody else', after(vote, as('bob', 'withdraw')), as('bob'), 'approved'],
    ['once it is settled, whoever comes is told so', done, as('zoe'), 'ALREADY_DECIDED'],
    ['nothing is taken back then', done, as('ann', 'withdraw'), 'ALREADY_DECIDED'],
    ['nor after the turn', closeTurn(done), as('zoe'), 'ALREADY_DECIDED'],
  ])('%s', (_what, run, decision, answer) => {
    expect(told(run, decision).answer).toBe(answer);
  });

  test('a call is rejected by whom the last word was, and what was taken back leaves no trace in it', () => {
    expect(callOf(after(vote, as('bob', 'reject')), 't1.c0')).toMatchObject({
      outcome: { kind: 'rejected', by: 'bob' },
    });
    expect(askingOf(after(vote, as('ann', 'withdraw')), 't1.c0')).not.toHaveProperty('votes');
  });
});

test('INV-D1: a rule of the first release refuses what it refused then', () => {
  const old = askedUnder({ allOf: ['ann', 'bob'].map((id) => ({ layer: 'run', ids: [id], groups: [] })) });
  for (const kind of ['approve', 'reject'] as const)
    expect(told(old, by('ann', old, kind)).answer).toBe('APPROVER_NOT_ENTITLED');
});

test('who has lost the group since may still take an approval back', () => {
  const grouped = askedUnder({ allOf: [{ ...clause, ids: [], groups: ['sec'] }] });
  const { run } = told(grouped, by('ann', grouped, 'approve', { approver: { id: 'ann', groups: ['sec'] } }));
  expect(told(run, by('ann', run, 'withdraw')).answer).toBe('withdrawn');
});

test('of two clauses each must be met, and who adds nothing is told so', () => {
  const { need: _, ...list } = clause;
  const both = askedUnder({ allOf: [list, { ...list, ids: [], groups: ['sec'] }], together: true });
  const one = told(both, by('ann', both));
  const tom = by('tom', both, 'approve', { approver: { id: 'tom', groups: ['sec'] } });
  expect([one.answer, told(one.run, by('bob', both)).answer, told(one.run, tom).answer]).toEqual([
    'counted',
    'APPROVER_NOT_ENTITLED',
    'approved',
  ]);
});

test('INV-G2: whatever is sent in whatever order, it is approved exactly when two different people stand behind it', () => {
  const step = fc.record({
    who: fc.constantFrom('ann', 'bob', 'zoe', 'mallory'),
    kind: fc.constantFrom<Decision['kind']>('approve', 'approve', 'withdraw', 'reject'),
  });
  forAll(fc.array(step, { maxLength: 10 }), (steps) => {
    let run = asked;
    const standing = new Set<string>();
    let end: string | undefined;
    for (const { who, kind } of steps) {
      const { run: next, answer } = told(run, as(who, kind));
      run = next;
      if (end !== undefined || who === 'mallory') {
        const stranger = kind === 'withdraw' ? 'REQUEST_NOT_OPEN' : 'APPROVER_NOT_ENTITLED';
        expect(answer).toBe(end === undefined ? stranger : 'ALREADY_DECIDED');
        continue;
      }
      if (kind === 'reject') end = 'settled';
      else if (kind === 'withdraw') standing.delete(who);
      else standing.add(who);
      if (standing.size === 2) end = 'approved';
    }
    expect(callOf(run, 't1.c0')?.status).toBe(end ?? 'waiting-for-consent');
  });
});
