/**
 * Postponing the deadline of an open request.
 *
 * 1. Only as far as the rule permits, which stands in the digest: whoever decides has seen how long it may be open.
 * 2. An extension is no vote: it leaves digest, generation and approvals as they are.
 */
import type { Decision } from '../../contracts/schemas/answer.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { ApproverRule } from '../../contracts/schemas/policy.ts';
import { mayDecide, ruleAt } from '../policy/approvers.ts';
import { callOf, type Change, replaceCall, type Run } from '../state/run.ts';
import { type Refusal, refuse } from '../text/refusal.ts';
import type { Asking, OpenRequest, Postponement } from '../state/call.ts';

/** Each is carried with the request and proven at the dispatch. */
export const MOST_EXTENSIONS = 20;

/** @param endsAt when the run's own time is over, epoch ms */
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

export function extended(state: Asking, decision: Postponement, decidedAt: number): Asking {
  const { request } = state;
  // What was said with it stands in the ledger; what was signed is kept as it was signed.
  const { comment: _, ...unsigned } = decision;
  const kept = decision.signature === undefined ? unsigned : decision;
  const { from = request.deadline, by = [] } = request.extended ?? {};
  return {
    ...state,
    request: {
      ...request,
      deadline: Date.parse(decision.until),
      extended: { from, by: [...by, { decision: kept, decidedAt }] },
    },
  };
}

/** What a dispatch is told of a request's times; all of it is epoch ms, and none of it trusted. */
export interface ClaimedTimes {
  readonly openedAt: number;
  /** As the request opened. */
  readonly deadline: number;
  readonly extensions: readonly { readonly decision: Decision; readonly decidedAt: number }[];
}

/**
 * The deadline that counted in the end, or undefined where an extension was not one: made too late, by somebody who may not
 * decide, or further than the rule permits. Written so that a time that is none (`NaN`) proves nothing.
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

function instantOf(ms: number): string {
  return new Date(ms).toISOString();
}

// What happens to an open request by time alone: a reminder, escalations.
//
// 1. Times are absolute, and what was told is remembered: nothing is told twice, also after continue-as-new (INV-D3).
// 2. Telling changes what people see. Who may decide depends on the time alone (`domain/policy/approvers.ts`), never on what was told.
// 3. What would come at the deadline or later never comes.

interface Step {
  readonly kind: 'reminder' | 'escalation';
  /** Epoch ms. */
  readonly at: number;
}

/** In the order in which they come. */
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

/** The next thing that happens to a request, if nobody decides. */
export function nextStep(request: OpenRequest): Step | undefined {
  return stepsOf(request).find(({ at }) => isUntold(request, at) && at < request.deadline);
}

function isUntold({ told }: OpenRequest, at: number): boolean {
  return told === undefined || at > told;
}

/** Tells what is due. @param now epoch ms */
export function tellDue(state: Asking, now: number): { readonly state: Asking; readonly facts: readonly LedgerFact[] } {
  const { call, request } = state;
  const due = stepsOf(request).filter(({ at }) => isUntold(request, at) && at <= now && at < request.deadline);
  const last = due.at(-1);
  if (last === undefined) return { state, facts: [] };
  const about = { callId: call.callId, generation: request.generation };
  const facts = due.map(({ kind, at }): LedgerFact =>
    kind === 'reminder'
      ? { kind: 'request.reminded', ...about, deadline: new Date(request.deadline).toISOString() }
      : { kind: 'request.escalated', ...about, approvers: ruleAt(request.approvers, at - request.openedAt) },
  );
  return { state: { ...state, request: { ...request, told: last.at } }, facts };
}

/** The same for a call of a run; nothing where it does not ask. @param now epoch ms */
export function tell(run: Run, callId: string, now: number): Change {
  const asking = callOf(run, callId);
  if (asking?.status !== 'asking') return { run, facts: [] };
  const { state, facts } = tellDue(asking, now);
  return { run: replaceCall(run, state), facts };
}

/** What people are shown of it. Epoch ms. */
export interface Shown {
  readonly remindedAt?: number;
  /** The last time. */
  readonly escalatedAt?: number;
  /** Who decides by now, as far as it was told. */
  readonly approvers: ApproverRule;
}

export function shownOf(request: OpenRequest): Shown {
  const past = stepsOf(request).filter(({ at }) => !isUntold(request, at));
  const reminder = past.find(({ kind }) => kind === 'reminder');
  const escalation = past.findLast(({ kind }) => kind === 'escalation');
  return {
    ...(reminder === undefined ? {} : { remindedAt: reminder.at }),
    ...(escalation === undefined ? {} : { escalatedAt: escalation.at }),
    approvers:
      escalation === undefined ? request.approvers : ruleAt(request.approvers, escalation.at - request.openedAt),
  };
}

// How long an approval holds: consent to a call is consent to it now, or soon.
//
// 1. Counted from the decision that completed it; of several rules the shortest counts.

/**
 * When the approval ceased to hold, where it has. Epoch ms.
 * @param decidedAt of the decision that completed it
 */
export function lapsedSince(decidedAt: number, now: number, ...rules: readonly ApproverRule[]): number | undefined {
  const stated = rules.flatMap(({ validForSeconds }) => validForSeconds ?? []);
  if (stated.length === 0) return undefined;
  const end = decidedAt + Math.min(...stated) * 1_000;
  return now < end ? undefined : end;
}

/** For people and the ledger. @param end epoch ms */
export function describeLapse(end: number): string {
  return `The approval held until ${new Date(end).toISOString()}; it needs a fresh one.`;
}
