/**
 * INV-G2, INV-D3, E-1, F-2, F-3, F17, F19: whatever happens to a request in whatever order, the run does what a page of
 * plain rules says. The model knows people, lists and seconds; it shares no code with the run.
 */
import fc from 'fast-check';
import { expect, test } from '@jest/globals';
import type { ApproverRule } from '../../../../contracts/schemas/policy.ts';
import type { Decision } from '../../../../contracts/schemas/request.ts';
import { tell } from '../../../../domain/request/deadline.ts';
import { accept, admit } from '../../../../domain/request/decision.ts';
import { ended } from '../../../../domain/request/transitions.ts';
import { callOf, type Change, type Run } from '../../../../domain/state/run.ts';
import { identicalCalls } from '../../../support/builders/call.ts';
import { approval, extension, rejection, shown, withdrawal } from '../../../support/builders/decision.ts';
import { askVerdict, clauseFor } from '../../../support/builders/judgement.ts';
import { judgedRun, runIds, START } from '../../../support/builders/run.ts';
import { forMany } from '../../../support/for-all.ts';

/** Deadline, reminder, and how far the deadline may be postponed. */
const [DEADLINE, REMINDER, LATEST] = [100, 30, 160];

/** Who counts for which clause, from which second (inclusive) to which (exclusive). */
interface Plan {
  readonly name: string;
  readonly rule: ApproverRule['allOf'];
  readonly clauses: readonly {
    readonly need: number;
    readonly who: Readonly<Record<string, readonly [number, number]>>;
  }[];
  readonly escalations: readonly number[];
}
const ALWAYS = [0, Infinity] as const;
const ZOE = { ids: ['zoe'], groups: [] };
const PLANS: readonly Plan[] = [
  {
    name: 'two of a list to which others are added',
    rule: [clauseFor(['ann', 'bob'], { need: 2, escalate: { afterSeconds: 50, add: ZOE } })],
    clauses: [{ need: 2, who: { ann: ALWAYS, bob: ALWAYS, zoe: [50, Infinity] } }],
    escalations: [50],
  },
  {
    name: 'one of each of two lists, one of which is replaced',
    rule: [
      clauseFor(['ann'], { escalate: { afterSeconds: 50, replace: ZOE } }),
      clauseFor(['bob', 'zoe'], {
        layer: 'run',
        not: ['ann'],
        escalate: { afterSeconds: 120, add: { ids: ['ann', 'cy'], groups: [] } },
      }),
    ],
    clauses: [
      { need: 1, who: { ann: [0, 50], zoe: [50, Infinity] } },
      { need: 1, who: { bob: ALWAYS, zoe: ALWAYS, cy: [120, Infinity] } },
    ],
    escalations: [50, 120],
  },
];

type Kind = Exclude<Decision['kind'], 'respond'>;
type Event =
  | { readonly kind: Kind; readonly who: string; readonly until: number; readonly wait: number; readonly nth: number }
  | { readonly kind: 'wake' | 'carry'; readonly wait: number };

/** A page of plain rules. Times in seconds after the opening. */
class Model {
  end: 'approved' | 'rejected' | 'expired' | undefined;
  deadline = DEADLINE;
  readonly votes = new Map<string, number>();
  readonly told = new Set<number>();
  readonly ledger: string[] = [];
  readonly plan: Plan;
  constructor(plan: Plan) {
    this.plan = plan;
  }

  counts(clause: Plan['clauses'][number], who: string, at: number): boolean {
    const [from, to] = clause.who[who] ?? [Infinity, 0];
    return at >= from && at < to;
  }

  missing(clause: Plan['clauses'][number]): number {
    return clause.need - [...this.votes].filter(([who, at]) => this.counts(clause, who, at)).length;
  }

  tell(at: number): void {
    for (const time of [REMINDER, ...this.plan.escalations]) {
      if (time > at || time >= this.deadline || this.told.has(time)) continue;
      this.told.add(time);
      this.ledger.push(time === REMINDER ? 'request.reminded' : 'request.escalated');
    }
  }

  decide({ kind, who, until }: Extract<Event, { who: string }>, at: number): string {
    if (this.end === 'expired') return 'DECISION_EXPIRED';
    if (this.end !== undefined) return 'ALREADY_DECIDED';
    if (at >= this.deadline) return 'DECISION_EXPIRED';
    const named = this.plan.clauses.filter((clause) => this.counts(clause, who, at));
    if (kind !== 'withdraw' && named.length === 0) return 'APPROVER_NOT_ENTITLED';
    if (kind === 'withdraw' && !this.votes.has(who)) return 'REQUEST_NOT_OPEN';
    if (kind === 'extend' && until <= this.deadline) return 'DECISION_INVALID';
    if (kind === 'extend' && until > LATEST) return 'EXTENSION_FORBIDDEN';
    if (kind === 'approve' && this.votes.has(who)) return 'ALREADY_DECIDED';
    if (kind === 'approve' && !named.some((clause) => this.missing(clause) > 0)) return 'APPROVER_NOT_ENTITLED';
    this.tell(at);
    this.ledger.push(`decision.accepted ${kind}`);
    switch (kind) {
      case 'reject':
        this.end = 'rejected';
        return 'rejected';
      case 'withdraw':
        this.votes.delete(who);
        return 'withdrawn';
      case 'extend':
        this.deadline = until;
        return 'extended';
      case 'approve':
        this.votes.set(who, at);
        if (this.plan.clauses.some((clause) => this.missing(clause) > 0)) return 'counted';
        this.end = 'approved';
        return 'approved';
    }
  }

  wake(at: number): void {
    if (this.end !== undefined) return;
    if (at >= this.deadline) {
      this.end = 'expired';
      this.ledger.push('request.closed');
    } else this.tell(at);
  }
}

/** The run itself, woken and spoken to as its workflow does. */
class Subject {
  run: Run;
  readonly ledger: string[] = [];
  readonly #decide: Pick<Decision, 'callId' | 'digest' | 'runId'>;
  constructor({ rule }: Plan) {
    const approvers: ApproverRule = {
      allOf: rule,
      ...(rule.length > 1 ? { together: true as const } : {}),
      remindAfterSeconds: REMINDER,
      extendableToSeconds: LATEST,
    };
    this.run = judgedRun(identicalCalls(1), () => ({ verdict: askVerdict({ approvers, deadlineSeconds: DEADLINE }) }));
    this.#decide = shown(this.run, 't1.c0');
  }

  decide({ kind, who, until, nth }: Extract<Event, { who: string }>, at: number): string {
    const make = { approve: approval, reject: rejection, withdraw: withdrawal, extend: extension };
    const over = { ...this.#decide, decisionId: `d-${nth}`, approver: { id: who, groups: [] } };
    const decision = kind === 'extend' ? extension({ ...over, until: instant(until) }) : make[kind](over);
    const admission = admit(this.run, decision, runIds(), ms(at));
    if (admission.kind === 'refuse') return admission.code;
    if (admission.kind === 'repeat') return `again ${admission.ack.status}`;
    const { ack, ...change } = accept(this.run, admission.state, decision, ms(at));
    this.#commit(change);
    return ack.status;
  }

  wake(at: number): void {
    const state = callOf(this.run, 't1.c0');
    if (state?.status !== 'waiting-for-consent') return;
    const { deadline } = state.request;
    if (ms(at) < deadline) return this.#commit(tell(this.run, 't1.c0', ms(at)));
    this.#commit(ended(this.run, 't1.c0', { kind: 'expired', deadline: new Date(deadline).toISOString() }));
  }

  carry(): void {
    // Sound: continue-as-new carries it as JSON.
    this.run = JSON.parse(JSON.stringify(this.run)) as Run;
  }

  get end(): Model['end'] {
    const state = callOf(this.run, 't1.c0');
    if (state?.status === 'approved') return 'approved';
    if (state?.status !== 'settled') return undefined;
    return state.outcome.kind === 'rejected' ? 'rejected' : 'expired';
  }

  #commit({ run, facts }: Change): void {
    this.run = run;
    for (const fact of facts)
      if (fact.kind !== 'outcome') this.ledger.push('decision' in fact ? `${fact.kind} ${fact.decision}` : fact.kind);
  }
}
const ms = (seconds: number): number => START + seconds * 1_000;
const instant = (seconds: number): string => new Date(ms(seconds)).toISOString();

/** Often on the edge itself, or a millisecond beside it. */
const wait = fc.oneof(
  fc.integer({ min: 0, max: 20 }),
  fc.constantFrom(0, 0.001, 9.999, 10, 19.999, 20, 20.001, 29.999, 30, 49.999, 50, 60),
);
const event: fc.Arbitrary<Event> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc
      .record({
        kind: fc.constantFrom<Kind>('approve', 'approve', 'approve', 'withdraw', 'extend', 'extend', 'reject'),
        who: fc.constantFrom('ann', 'bob', 'zoe', 'cy', 'mallory'),
        until: fc.constantFrom(99, 100, 120, 130, 160, 160.001),
        wait,
      })
      .map((made) => ({ ...made, nth: 0 })),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom('wake' as const, 'carry' as const), wait }) },
);

test.each(PLANS.map((plan) => [plan.name, plan] as const))('%s', (_, plan) => {
  const ends = new Set<string | undefined>();
  forMany({ numRuns: 1_500 }, fc.array(event, { maxLength: 14 }), (events) => {
    const [model, subject] = [new Model(plan), new Subject(plan)];
    let now = 0;
    for (const [nth, each] of events.entries()) {
      // Whole milliseconds, as a clock has them.
      now = Math.round((now + each.wait) * 1_000) / 1_000;
      if ('who' in each) expect(subject.decide({ ...each, nth }, now)).toBe(model.decide(each, now));
      else if (each.kind === 'carry') subject.carry();
      else {
        model.wake(now);
        subject.wake(now);
      }
      expect(subject.end).toBe(model.end);
      expect(subject.ledger).toEqual(model.ledger);
    }
    ends.add(model.end);
  });
  // A property of stories in which nothing happens would hold as well.
  expect(ends).toEqual(new Set([undefined, 'approved', 'rejected', 'expired']));
});
