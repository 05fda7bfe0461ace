/**
 * What happens to an open request by time alone: a reminder, escalations.
 *
 * 1. Times are absolute, and what was told is remembered: nothing is told twice, also after continue-as-new (INV-D3).
 * 2. Telling changes what people see. Who may decide depends on the time alone (`approver.ts`), never on what was told.
 * 3. What would come at the deadline or later never comes.
 */
import type { LedgerFact } from '../contracts/schemas/ledger.ts';
import type { ApproverRule } from '../contracts/schemas/policy.ts';
import { ruleAt } from './approver.ts';
import type { Asking } from './call-state.ts';
import type { OpenRequest } from './open-request.ts';
import { callOf, type Change, replaceCall, type Run } from './run.ts';

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
