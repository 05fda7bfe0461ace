/** A request that several must countersign (E-2, F-12, INV-G2). */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Decision } from '../../../../contracts/schemas/request.ts';
import { accept, admit } from '../../../../domain/request/decision.ts';
import { closeTurn, remembering } from '../../../../domain/run/turn.ts';
import { dispatched } from '../../../../domain/request/transitions.ts';
import { callOf, type Run } from '../../../../domain/state/run.ts';
import { currentDetails } from '../../../../domain/views/temporal-ui.ts';
import { identicalCalls } from '../../../support/builders/call.ts';
import { approval, askingOf, rejection, shown, withdrawal } from '../../../support/builders/decision.ts';
import { askVerdict } from '../../../support/builders/judgement.ts';
import { judgedRun, runIds, START } from '../../../support/builders/run.ts';

const clause = { layer: 'organisation' as const, ids: ['ann', 'bob', 'zoe'], groups: [], need: 2 };
const asked = judgedRun(identicalCalls(1), () => ({ verdict: askVerdict({ approvers: { allOf: [clause] } }) }));
let ids = 0;

function as(id: string, kind: Decision['kind'] = 'approve', run: Run = asked): Decision {
  const over = { ...shown(run, 't1.c0'), decisionId: `d-${(ids += 1)}`, approver: { id, groups: [] } };
  if (kind === 'approve') return approval({ ...over, comment: 'seen' });
  return kind === 'reject' ? rejection(over) : withdrawal(over);
}

function answerTo(run: Run, decision: Decision): { run: Run; answer: string } {
  const admission = admit(run, decision, runIds(), START);
  if (admission.kind === 'refuse') return { run, answer: admission.code };
  if (admission.kind === 'repeat') return { run, answer: `again ${admission.ack.status}` };
  const { ack, run: next } = accept(run, admission.state, decision, START);
  return { run: next, answer: ack.status };
}

function after(...decisions: readonly Decision[]): Run {
  let run = asked;
  for (const decision of decisions) ({ run } = answerTo(run, decision));
  return run;
}

describe('two of three', () => {
  test('the first counts, the second settles it, and both stand behind the call', () => {
    const one = after(as('ann'));
    expect(callOf(one, 't1.c0')?.status).toBe('waiting-for-consent');
    expect(dispatched(one, 't1.c0')).toBeUndefined();
    const { run, answer } = answerTo(one, as('zoe'));
    expect(answer).toBe('approved');
    const flying = callOf(dispatched(run, 't1.c0')?.run ?? run, 't1.c0');
    expect(flying).toMatchObject({
      status: 'in-flight',
      consent: {
        made: { decision: { approver: { id: 'zoe' } }, further: [{ decision: { approver: { id: 'ann' } } }] },
      },
    });
    // What was said with a vote is in the ledger, and is not carried along.
    expect(JSON.stringify(one.calls)).not.toContain('seen');
  });

  test('INV-D1: the ledger says that a vote is one of several, but in runs of a release that did not say so', () => {
    const said = [remembering(asked), asked].map((run) => {
      const vote = as('ann');
      const admission = admit(run, vote, runIds(), START);
      if (admission.kind !== 'accept') throw new Error(admission.kind);
      return accept(run, admission.state, vote, START).facts.find(({ kind }) => kind === 'decision.accepted');
    });
    expect(said[0]).toMatchObject({ counted: true });
    expect(said[1]).toBeDefined();
    expect(said[1]).not.toHaveProperty('counted');
  });

  test('nobody counts twice, and one who has agreed is told so', () => {
    expect(answerTo(after(as('ann')), as('ann')).answer).toBe('ALREADY_DECIDED');
  });

  test('sent again, a vote gets its first answer', () => {
    const vote = as('ann');
    expect(answerTo(after(vote), vote).answer).toBe('again counted');
    expect(answerTo(after(vote), { ...vote, kind: 'withdraw' }).answer).toBe('DECISION_INVALID');
  });

  test('one rejection is enough, also of one who had agreed', () => {
    for (const who of ['ann', 'bob']) {
      const run = after(as('ann'), as(who, 'reject'));
      expect(callOf(run, 't1.c0')).toMatchObject({ status: 'settled', outcome: { kind: 'rejected', by: who } });
    }
  });

  test('who takes an approval back is not counted, and may agree again', () => {
    const back = after(as('ann'), as('ann', 'withdraw'));
    expect(askingOf(back, 't1.c0')).not.toHaveProperty('votes');
    expect(answerTo(back, as('bob')).answer).toBe('counted');
    expect(answerTo(after(as('ann'), as('ann', 'withdraw'), as('bob')), as('ann')).answer).toBe('approved');
    expect(answerTo(asked, as('ann', 'withdraw')).answer).toBe('REQUEST_NOT_OPEN');
    expect(answerTo(after(as('ann'), as('bob', 'withdraw')), as('bob')).answer).toBe('approved');
  });

  test('once it is settled, whoever comes is told who settled it, and nothing is taken back', () => {
    const done = after(as('ann'), as('bob'));
    const late = as('zoe', 'approve');
    expect(answerTo(done, late).answer).toBe('ALREADY_DECIDED');
    expect(answerTo(done, as('ann', 'withdraw')).answer).toBe('ALREADY_DECIDED');
    expect(answerTo(closeTurn(done), late).answer).toBe('ALREADY_DECIDED');
  });

  test('people see who has agreed', () => {
    expect(currentDetails('waiting', after(as('ann')))).toContain('agreed so far: ann');
  });
});

test('INV-D1: a rule of the first release refuses what it refused then', () => {
  const allOf = [['ann'], ['bob']].map((people) => ({ layer: 'run' as const, ids: people, groups: [] }));
  const old = judgedRun(identicalCalls(1), () => ({ verdict: askVerdict({ approvers: { allOf } }) }));
  for (const kind of ['approve', 'reject'] as const)
    expect(answerTo(old, as('ann', kind, old)).answer).toBe('APPROVER_NOT_ENTITLED');
});

test('who has lost the group since may still take an approval back', () => {
  const verdict = askVerdict({ approvers: { allOf: [{ ...clause, ids: [], groups: ['sec'] }] } });
  const grouped = judgedRun(identicalCalls(1), () => ({ verdict }));
  const vote = { ...as('ann', 'approve', grouped), approver: { id: 'ann', groups: ['sec'] } };
  const { run } = answerTo(grouped, vote);
  expect(answerTo(run, as('ann', 'withdraw', run)).answer).toBe('withdrawn');
});

test('of two clauses each must be met, and who adds nothing is told so', () => {
  const allOf = [
    { ...clause, ids: ['ann', 'bob'], need: undefined },
    { ...clause, ids: [], groups: ['sec'], need: undefined },
  ].map(({ need: _, ...each }) => each);
  const both = judgedRun(identicalCalls(1), () => ({ verdict: askVerdict({ approvers: { allOf, together: true } }) }));
  const of = (id: string, groups: string[] = []): Decision => ({
    ...as(id, 'approve', both),
    approver: { id, groups },
  });
  const one = answerTo(both, of('ann'));
  expect(one.answer).toBe('counted');
  expect(answerTo(one.run, of('bob')).answer).toBe('APPROVER_NOT_ENTITLED');
  expect(answerTo(one.run, of('tom', ['sec'])).answer).toBe('approved');
});

test('INV-G2: whatever is sent in whatever order, it is approved exactly when two different people stand behind it', () => {
  const step = fc.record({
    who: fc.constantFrom('ann', 'bob', 'zoe', 'mallory'),
    kind: fc.constantFrom<Decision['kind']>('approve', 'approve', 'withdraw', 'reject'),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 10 }), (steps) => {
      let run = asked;
      const standing = new Set<string>();
      let end: string | undefined;
      for (const { who, kind } of steps) {
        const { run: next, answer } = answerTo(run, as(who, kind));
        run = next;
        if (end !== undefined || who === 'mallory') {
          const stranger = kind === 'withdraw' ? 'REQUEST_NOT_OPEN' : 'APPROVER_NOT_ENTITLED';
          expect(answer).toBe(end === undefined ? stranger : 'ALREADY_DECIDED');
          continue;
        }
        if (kind === 'reject') end = 'rejected';
        else if (kind === 'withdraw') standing.delete(who);
        else standing.add(who);
        if (standing.size === 2) end = 'approved';
      }
      const state = callOf(run, 't1.c0');
      expect(state?.status).toBe(
        end === undefined ? 'waiting-for-consent' : end === 'approved' ? 'approved' : 'settled',
      );
    }),
  );
});
