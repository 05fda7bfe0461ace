/**
 * Four things depend on time here: the deadline of a request, its reminder and escalations, how long an approval holds,
 * and whether the grant of a call ends before its deadline.
 *
 * 1. A deadline moves only as far as the rule permits. The rule is part of the digest, so approvers have seen the
 *    bound.
 * 2. An extension is no vote: digest, generation and approvals stay as they are.
 * 3. Reminders and escalations have absolute times, and the last one told is remembered. Nothing is told twice, also
 *    after continue-as-new (INV-D3).
 * 4. Telling changes what people see. The right to decide depends on the time alone (`domain/policy/approvers.ts`).
 * 5. A reminder or escalation due at the deadline or later never happens.
 * 6. An approval holds from the decision that completed it; of several rules the shortest validity counts.
 */
import { defined } from '../../contracts/defined.ts';
import { isListing } from '../../contracts/names.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { ApproverRule } from '../../contracts/schemas/policy.ts';
import type { Decision } from '../../contracts/schemas/request.ts';
import type { RunState } from '../../contracts/schemas/run-state.ts';
import type { OpenRequest, Postponement } from '../../contracts/wire/carry.ts';
import type { ToolsetRef } from '../../contracts/wire/identity.ts';
import { mayDecide, ruleAt } from '../policy/approvers.ts';
import {
  type Asking,
  ASKING,
  askingCalls,
  callOf,
  type Change,
  grantsFor,
  judgementOf,
  move,
  type Run,
  type WaitingForConsent,
  withoutComment,
  withRequest,
} from '../state/run.ts';
import { type Refusal, refuse } from '../text/refusal.ts';

/** The bound keeps small what is carried with the request and proven at the dispatch. */
export const MOST_EXTENSIONS = 20;

/** Refuses a postponement that the rule, the run's end or the number of extensions forbids. @param endsAt epoch ms */
export function refuseExtension({ request }: Asking, decision: Postponement, endsAt: number): Refusal | undefined {
  const { callId, until } = decision;
  const forbid = (why: string): Refusal => refuse('EXTENSION_FORBIDDEN', `${why} Nothing was changed.`, { callId });
  const latest = latestDeadline(request.approvers, request.openedAt);
  if (latest === undefined) return forbid(`The policy that asks for call ${callId} lets nobody postpone its deadline.`);
  const wanted = Date.parse(until);
  if (wanted <= request.deadline) {
    return refuse('DECISION_INVALID', `until must be later than the deadline, ${instantOf(request.deadline)}.`, {
      callId,
      path: 'until',
    });
  }
  if (wanted > latest)
    return forbid(`The deadline of call ${callId} may be postponed to ${instantOf(latest)} at the latest.`);
  if (wanted > endsAt)
    return forbid(
      `The run itself ends at ${instantOf(endsAt)} (limits.wallClockSeconds); call ${callId} cannot wait longer.`,
    );
  if ((request.extended?.by.length ?? 0) >= MOST_EXTENSIONS)
    return forbid(`The deadline of call ${callId} was postponed ${MOST_EXTENSIONS} times.`);
  return undefined;
}

export function extended(state: WaitingForConsent, decision: Postponement, decidedAt: number): WaitingForConsent {
  const { request } = state;
  const { from = request.deadline, by = [] } = request.extended ?? {};
  return withRequest(state, {
    deadline: Date.parse(decision.until),
    extended: { from, by: [...by, { decision: withoutComment(decision), decidedAt }] },
  });
}

/** The times of a request as a dispatch receives them; epoch ms, and not trusted. */
export interface ClaimedTimes {
  readonly openedAt: number;
  /** The first deadline, before any extension. */
  readonly deadline: number;
  readonly extensions: readonly { readonly decision: Decision; readonly decidedAt: number }[];
}

/**
 * Returns the deadline after all extensions. Undefined if one of them was made too late, by a person who may not
 * decide, or for longer than the rule permits. The comparisons fail for `NaN`, so that an invalid time proves nothing.
 */
export function provenDeadline(
  rule: ApproverRule,
  { openedAt, deadline, extensions }: ClaimedTimes,
): number | undefined {
  const latest = latestDeadline(rule, openedAt) ?? Number.NaN;
  let current = deadline;
  for (const { decision, decidedAt } of extensions) {
    const voter = { ...decision.approver, after: decidedAt - openedAt };
    if (decision.kind !== 'extend' || !mayDecide(rule, voter)) return undefined;
    const until = Date.parse(decision.until);
    if (!(openedAt <= decidedAt && decidedAt < current && current < until && until <= latest)) return undefined;
    current = until;
  }
  return current;
}

function latestDeadline({ extendableToSeconds }: ApproverRule, openedAt: number): number | undefined {
  return extendableToSeconds === undefined ? undefined : openedAt + extendableToSeconds * 1_000;
}

/** @param ms epoch ms */
export function instantOf(ms: number): string {
  return new Date(ms).toISOString();
}

interface Step {
  readonly kind: 'reminder' | 'escalation';
  /** Epoch ms. */
  readonly at: number;
}

function stepsOf({ approvers, openedAt }: OpenRequest): Step[] {
  const { remindAfterSeconds, allOf } = approvers;
  const at = (seconds: number): number => openedAt + seconds * 1_000;
  const escalations = new Set(
    allOf.flatMap(({ escalate }) => (escalate === undefined ? [] : [at(escalate.afterSeconds)])),
  );
  const steps: Step[] = [...escalations].map((time) => ({ kind: 'escalation', at: time }));
  if (remindAfterSeconds !== undefined) steps.push({ kind: 'reminder', at: at(remindAfterSeconds) });
  return steps.sort((one, other) => one.at - other.at);
}

export function nextStep(request: OpenRequest): Step | undefined {
  return stepsOf(request).find(({ at }) => isUntold(request, at) && at < request.deadline);
}

function isUntold({ told }: OpenRequest, at: number): boolean {
  return told === undefined || at > told;
}

/** Records the reminders and escalations that are due. @param now epoch ms */
export function tellDue<State extends Asking>(
  state: State,
  now: number,
): { readonly state: State; readonly facts: readonly LedgerFact[] } {
  const { call, request } = state;
  const due = stepsOf(request).filter(({ at }) => isUntold(request, at) && at <= now && at < request.deadline);
  const last = due.at(-1);
  if (last === undefined) return { state, facts: [] };
  const about = { callId: call.callId, generation: request.generation };
  const facts = due.map(({ kind, at }): LedgerFact =>
    kind === 'reminder'
      ? { kind: 'request.reminded', ...about, deadline: instantOf(request.deadline) }
      : { kind: 'request.escalated', ...about, approvers: ruleAt(request.approvers, at - request.openedAt) },
  );
  return { state: withRequest(state, { told: last.at }), facts };
}

/** Does the same for a call of a run; a call that does not ask stays unchanged. @param now epoch ms */
export function tell(run: Run, callId: string, now: number): Change {
  return move(run, callId, ASKING, (asking) => {
    const { state: call, facts } = tellDue(asking, now);
    return { call, facts };
  });
}

/** Reminders and escalations as people see them. Times are epoch ms. */
export interface Shown {
  readonly remindedAt?: number;
  readonly escalatedAt?: number;
  /** The rule with all escalations told so far. */
  readonly approvers: ApproverRule;
}

export function shownOf(request: OpenRequest): Shown {
  const past = stepsOf(request).filter(({ at }) => !isUntold(request, at));
  const reminder = past.find(({ kind }) => kind === 'reminder');
  const escalation = past.findLast(({ kind }) => kind === 'escalation');
  return {
    ...defined({ remindedAt: reminder?.at, escalatedAt: escalation?.at }),
    approvers:
      escalation === undefined ? request.approvers : ruleAt(request.approvers, escalation.at - request.openedAt),
  };
}

// An approval holds for a limited time: consent to a call means consent to it now, or soon.

/** When the approval ceased to hold, epoch ms; undefined while it holds. @param decidedAt epoch ms */
export function lapsedSince(decidedAt: number, now: number, ...rules: readonly ApproverRule[]): number | undefined {
  const stated = rules.flatMap(({ validForSeconds }) => validForSeconds ?? []);
  if (stated.length === 0) return undefined;
  const end = decidedAt + Math.min(...stated) * 1_000;
  return now < end ? undefined : end;
}

/** Describes the lapse for people and the ledger. @param end epoch ms */
export function describeLapse(end: number): string {
  return `The approval held until ${instantOf(end)}; it needs a fresh one.`;
}

// A run's grant may end before the deadline of a request; a call approved after that end has no authorization (F13).
// The ledger says so when the request opens, so that nobody approves days later what cannot be called any more.

interface Held {
  readonly run: Run;
  readonly toolset: readonly ToolsetRef[];
}

/** The end of the grant, if before the deadline and nobody has replaced it. @param deadline epoch ms */
export function grantEnd({ run, toolset }: Held, server: string, deadline: number): { grantExpiresAt?: string } {
  const grantExpiresAt = toolset.find((each) => each.server === server)?.grantExpiresAt;
  // A grant given for the list of tools is the one whose end is known, and does not count as a replacement.
  const isReplaced = grantsFor(run, server).some(({ answer }) => !isListing(answer.callId));
  if (grantExpiresAt === undefined || isReplaced || !(Date.parse(grantExpiresAt) < deadline)) return {};
  return { grantExpiresAt };
}

export function grantEnds(held: Held): Pick<RunState, 'grantEnds'> {
  const ends = askingCalls(held.run).flatMap(({ call, judgement, request }) => {
    const { server } = judgement.target;
    const { grantExpiresAt: at } = grantEnd(held, server, request.deadline);
    return at === undefined ? [] : [{ callId: call.callId, server, at }];
  });
  return ends.length === 0 ? {} : { grantEnds: ends };
}

export function withGrantEnd(fact: LedgerFact, held: Held): LedgerFact {
  if (fact.kind !== 'request.opened') return fact;
  const state = callOf(held.run, fact.callId);
  const target = state && judgementOf(state)?.target;
  return target === undefined ? fact : { ...fact, ...grantEnd(held, target.server, Date.parse(fact.deadline)) };
}
