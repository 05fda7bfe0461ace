/**
 * Postponing the deadline of an open request.
 *
 * 1. Only as far as the rule permits, which stands in the digest: whoever decides has seen how long it may be open.
 * 2. An extension is no vote: it leaves digest, generation and approvals as they are.
 */
import type { Decision } from '../contracts/schemas/decision.ts';
import type { ApproverRule } from '../contracts/schemas/policy.ts';
import { mayDecide } from './approver.ts';
import type { Asking } from './call-state.ts';
import type { Postponement } from './open-request.ts';
import { type Refusal, refuse } from './refusal.ts';

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
