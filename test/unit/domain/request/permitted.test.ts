/** What a person is offered is what the run admits (D-7, G-5): the same rule, read from the request as it is shown. */
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import type { ApproverRule } from '../../../../contracts/schemas/policy.ts';
import type { Decision } from '../../../../contracts/schemas/request.ts';
import { accept, admit, isFixed } from '../../../../domain/request/decision.ts';
import { type Decidable, maySee, type Permission, permittedTo } from '../../../../domain/request/permitted.ts';
import { callOf, type Run } from '../../../../domain/state/run.ts';
import { identicalCalls } from '../../../support/builders/call.ts';
import {
  answer,
  approval,
  askingOf,
  edit,
  extension,
  rejection,
  shown,
  withdrawal,
} from '../../../support/builders/decision.ts';
import { askVerdict } from '../../../support/builders/judgement.ts';
import { judgedRun, runIds, START } from '../../../support/builders/run.ts';
import { forAll } from '../../../support/for-all.ts';

const PEOPLE = ['ann', 'Ann', 'bob', 'zoe', 'mallory'] as const;
const DEADLINE = 100;
const LATEST = 160;

const people = fc.uniqueArray(fc.constantFrom('ann', 'bob', 'zoe'), { maxLength: 3 });
const clause = fc.record(
  {
    layer: fc.constant('organisation' as const),
    ids: people,
    groups: fc.subarray(['ops']),
    need: fc.constant(2),
    not: fc.constant<string[]>(['ann']),
    may: fc.subarray(['edit', 'respond'] as const),
    escalate: fc.record({
      afterSeconds: fc.constant(50),
      add: fc.record({ ids: people, groups: fc.constant<string[]>([]) }),
    }),
  },
  { requiredKeys: ['layer', 'ids', 'groups'] },
);
const rules: fc.Arbitrary<ApproverRule> = fc
  .record(
    {
      allOf: fc.array(clause, { minLength: 1, maxLength: 2 }),
      idCase: fc.constant('ignored' as const),
      extendableToSeconds: fc.constant(LATEST),
    },
    { requiredKeys: ['allOf'] },
  )
  .map((rule) => ({ ...rule, together: true as const }));

const KINDS: readonly Permission[] = ['approve', 'edit', 'reject', 'respond', 'extend', 'withdraw'];

interface Person {
  readonly id: string;
  readonly groups: string[];
}
const person: fc.Arbitrary<Person> = fc.record({ id: fc.constantFrom(...PEOPLE), groups: fc.subarray(['ops']) });

const ms = (seconds: number): number => START + seconds * 1_000;
const instant = (at: number): string => new Date(at).toISOString();

/** The request of the one call, as the `requests` query shows it. */
function shownIn(run: Run): Decidable {
  const state = callOf(run, 't1.c0');
  if (state?.status !== 'waiting-for-consent') throw new Error('The call does not wait.');
  const { request, votes = [] } = state;
  return {
    status: 'open',
    approvers: request.approvers,
    openedAt: instant(request.openedAt),
    deadline: instant(request.deadline),
    votes: votes.map(({ decision, decidedAt }) => ({ approver: decision.approver, at: instant(decidedAt) })),
    extensions: (request.extended?.by ?? []).map(({ decision, decidedAt }) => ({
      approver: decision.approver,
      at: instant(decidedAt),
      until: decision.until,
    })),
    ...(isFixed(state) ? { asItIs: true as const } : {}),
  };
}

function decisionOf(kind: Permission, run: Run, approver: Person, nth: number): Decision {
  const over = { ...shown(run, 't1.c0'), decisionId: `d-${nth}`, approver };
  switch (kind) {
    case 'edit':
      return edit({ path: 'other.txt' }, over);
    case 'extend':
      return extension({ ...over, until: instant(ms(LATEST)) });
    case 'respond':
      return answer(over);
    case 'reject':
      return rejection(over);
    case 'withdraw':
      return withdrawal(over);
    default:
      return approval(over);
  }
}

function admittedIn(run: Run, who: Person, now: number): Permission[] {
  return KINDS.filter((kind) => admit(run, decisionOf(kind, run, who, 100), runIds(), now).kind === 'accept');
}

describe('a person is offered', () => {
  const event = fc.record({ who: person, kind: fc.constantFrom(...KINDS), wait: fc.integer({ min: 0, max: 40 }) });

  test('exactly what the run admits, whoever has agreed or postponed before', () => {
    const unsure = { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: 'lost' } as const;
    forAll(rules, fc.array(event, { maxLength: 6 }), person, fc.boolean(), (approvers, events, asked, isSure) => {
      const asking = judgedRun(identicalCalls(1), () => ({
        verdict: askVerdict({ approvers, deadlineSeconds: DEADLINE }),
      }));
      // A call that may have run can only be approved or rejected as it is.
      let run = isSure ? asking : { ...asking, calls: [{ ...askingOf(asking, 't1.c0'), unsure }] };
      let now = 0;
      for (const [nth, { who, kind, wait }] of events.entries()) {
        now += wait;
        const offered = permittedTo(shownIn(run), asked, ms(now));
        const admitted = admittedIn(run, asked, ms(now));
        expect([...offered].toSorted()).toEqual(admitted.toSorted());
        const decision = decisionOf(kind, run, who, nth);
        const admission = admit(run, decision, runIds(), ms(now));
        // Only what leaves the request open: votes, withdrawals and postponements.
        if (admission.kind !== 'accept' || kind === 'edit') continue;
        const next = accept(run, admission.state, decision, ms(now)).run;
        if (callOf(next, 't1.c0')?.status === 'waiting-for-consent') run = next;
      }
    });
  });

  const open: Decidable = {
    status: 'open',
    approvers: { allOf: [{ layer: 'run', ids: ['ann'], groups: ['ops'], may: ['edit', 'respond'] }] },
    openedAt: instant(START),
    deadline: instant(ms(DEADLINE)),
  };
  const ann = { id: 'ann', groups: [] };

  test('nothing of what is decided or over, and neither edit nor answer of what has begun', () => {
    expect(permittedTo({ ...open, status: 'approved' }, ann, START).size).toBe(0);
    expect(permittedTo(open, ann, ms(DEADLINE)).size).toBe(0);
    expect([...permittedTo(open, ann, START)]).toEqual(['approve', 'edit', 'reject', 'respond']);
    expect([...permittedTo({ ...open, asItIs: true }, ann, START)]).toEqual(['approve', 'reject']);
  });

  test('an answer, where the request is for something else than consent', () => {
    const about = { kind: 'outcome', message: 'm', attempt: 1 } as const;
    expect([...permittedTo({ ...open, about }, ann, START)]).toEqual(['answer']);
    expect(permittedTo({ ...open, about }, { id: 'zoe', groups: [] }, START).size).toBe(0);
  });

  test('the sight of it: to those who may decide it some day, who agreed, and who started the run', () => {
    const later = { afterSeconds: 50, add: { ids: ['eve'], groups: [] } };
    const approvers: ApproverRule = { allOf: [{ layer: 'run', ids: ['ann'], groups: ['ops'], escalate: later }] };
    const votes = [{ approver: { id: 'bob', groups: [] }, at: instant(START) }];
    const sees = (id: string, groups: string[] = []): boolean =>
      maySee({ ...open, approvers, votes }, { id, groups }, 'zoe');
    expect(['ann', 'eve', 'bob', 'zoe'].map((id) => sees(id))).toEqual([true, true, true, true]);
    expect([sees('mallory'), sees('mallory', ['ops']), sees('ops')]).toEqual([false, true, false]);
    expect(maySee({ ...open, approvers }, { id: 'mallory', groups: [] }, 'zoe')).toBe(false);
  });
});
