/**
 * Whether a dispatch may leave this worker. Trusts nothing in its input (INV-G1): everything is compared with this worker's
 * own configuration, the pinned definition, and Temporal's own word on who scheduled it.
 *
 * 1. Only a stricter result of judging again matters; a looser one changes nothing.
 * 2. What a person consented to is recomputed from what would be sent: the digest must be theirs (INV-G2).
 */
import type { RunIdentity } from '../../contracts/activities.ts';
import type { DispatchInput, DispatchResult } from '../../contracts/dispatch.ts';
import type { DispatchProof } from '../../contracts/dispatch-proof.ts';
import { RUN_WORKFLOW } from '../../contracts/names.ts';
import type { Verdict } from '../../contracts/schemas/call.ts';
import type { CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import type { Decision } from '../../contracts/schemas/decision.ts';
import type { ServerBinding } from '../../contracts/schemas/tool.ts';
import { isMet, isStaged, mayDecide, type Voter } from '../../domain/approver.ts';
import { canonicalJson } from '../../domain/canonical.ts';
import { isEdit, permits } from '../../domain/decision-rights.ts';
import { provenDeadline } from '../../domain/extension.ts';
import { describeLapse, lapsedSince } from '../../domain/validity.ts';
import { visible } from '../../domain/escape.ts';
import type { ToolNow } from '../catalog/layer.ts';
import { shownOf } from '../policy/judge.ts';
import { describeDrift } from './drift.ts';
import { digestOfConsent } from './shown-digest.ts';
import type { OfferedTool } from '../../domain/toolset.ts';

/** What Temporal says of the scheduler, not what the input says. */
export interface Scheduler {
  readonly namespace: string;
  readonly workflowType: string | undefined;
  readonly workflowId: string | undefined;
  readonly runId: string | undefined;
  readonly attempt: number;
  /** Epoch ms: when the activity was scheduled, and when this attempt of it was. */
  readonly scheduledAt: number;
  readonly attemptAt: number;
}

type DecisionProof = Extract<DispatchProof, { kind: 'decision' }>;
type Ended = Extract<DispatchResult, { kind: 'ended' }>;
export type Refused = Extract<DispatchResult, { kind: 'reopen' | 'refused' }>;

/** Was this scheduled by the run that it names? Tools are listed and called for runs only. */
export function checkRun(run: RunIdentity, { workflowType, workflowId, namespace }: Scheduler): Refused | undefined {
  if (workflowType !== RUN_WORKFLOW) return forbidden('Tools are called only by runs.');
  if (workflowId !== run.workflowId || namespace !== run.namespace)
    return forbidden('The call names another run than the one that scheduled it.');
  return undefined;
}

/** And in the Temporal run that lives now? */
export function checkScheduler(input: DispatchInput, scheduler: Scheduler): Refused | undefined {
  const mistaken = checkRun(input.run, scheduler);
  if (mistaken !== undefined) return mistaken;
  if (scheduler.runId !== input.runId) {
    return {
      kind: 'reopen',
      code: 'DISPATCH_STALE_RUN',
      message:
        'The call was scheduled before the run was reset, and may have been sent then; it needs a fresh decision.',
    };
  }
  return undefined;
}

/**
 * Was this handed out before, or may it have been? Runs have a dispatch attempted once. Whoever may write to the namespace can have
 * Temporal hand it out again, and count attempts anew; the time of an attempt stays that of the activity only in the first one. The
 * call may have left by then: that it was not made is what nobody can say.
 */
export function checkFirst({ attempt, scheduledAt, attemptAt }: Scheduler): Ended | undefined {
  if (attempt === 1 && attemptAt === scheduledAt) return undefined;
  const message =
    'Temporal was made to hand this call to a worker anew, by somebody who has failed, paused or reset its activity: it may have left before, and was not sent again. Find out at the server before anything is done again.';
  return { kind: 'ended', outcome: { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message } };
}

/** Is it the tool that was judged? */
export function checkTool({ target, server }: DispatchInput, tool: OfferedTool | undefined): Refused | undefined {
  if (tool === undefined) return forbidden('The tool is not among those the run may use.');
  const same =
    tool.server === target.server &&
    tool.serverUrl === target.serverUrl &&
    tool.definition.name === target.tool &&
    server.name === tool.server &&
    // What was judged and signed names an address; the call goes to that of the binding.
    server.url === target.serverUrl;
  return same ? undefined : forbidden('The call names another tool than the one that was judged.');
}

/** Is it as it was shown? Else the fresh decision is about what it is now. */
export function checkDefinition(
  { target }: DispatchInput,
  { tool, pinned }: ToolNow,
  verdict: Verdict,
): Refused | undefined {
  if (tool.hash === target.definitionHash) return undefined;
  const shown = pinned.hash === target.definitionHash ? pinned.definition : undefined;
  return {
    kind: 'reopen',
    code: 'DEFINITION_CHANGED',
    message: describeDrift(shown, tool.definition),
    definition: { hash: tool.hash, ...shownOf(tool) },
    ...askedOf(verdict),
  };
}

/** A server that the run reached through a catalog is not called without it. */
export function checkCatalog(server: ServerBinding, catalog: CatalogSnapshot | undefined): Refused | undefined {
  if (server.catalog !== true || catalog !== undefined) return undefined;
  return {
    kind: 'refused',
    code: 'CATALOG_NOT_FOUND',
    message: `The catalog of ${server.name} is gone, and with it who may call what.`,
  };
}

/** Does the proof carry the verdict that this worker reaches now? @param now epoch ms */
export function checkProof(input: DispatchInput, verdict: Verdict, now: number): Refused | undefined {
  if (verdict.kind === 'deny') return { kind: 'refused', code: verdict.code, message: verdict.message };
  const { proof } = input;
  // What stands is proven apart (`standing-check.ts`).
  if (proof.kind === 'standing') return forbidden('The decision does not cover this call.');
  if (proof.kind === 'policy') {
    if (verdict.kind === 'allow') return undefined;
    return {
      ...stricter(verdict),
      message: `Policy asks for a decision now (${verdict.rules.join(', ')}).${saidBy(verdict)}`,
    };
  }
  const decisions = [proof.decision, ...(proof.further ?? [])];
  const people = votersOf(proof);
  const extensions = (proof.extended?.by ?? []).map(({ decision }) => decision);
  const isConsent =
    decisions.every(({ kind }) => kind === 'approve') &&
    [...decisions, ...extensions].every(
      (decision, index) =>
        decision.callId === input.callId && covers(input, proof, decision, people[index] ?? decision.approver),
    ) &&
    isInTime(proof) &&
    areTimed(proof) &&
    isMet(proof.approvers, people);
  if (!isConsent) return forbidden('The decision does not cover this call.');
  if ([...decisions, ...extensions].some(({ runId }) => !input.decidedIn.includes(runId))) {
    return {
      kind: 'reopen',
      code: 'DECISION_STALE_RUN',
      message: 'The decision was made before the run was reset; it needs a fresh one.',
    };
  }
  const editor = decisions.find(isEdit)?.approver.id;
  if (editor !== undefined && verdict.kind === 'ask' && !permits(verdict.approvers, 'edit')) {
    return {
      kind: 'refused',
      code: 'DECISION_NOT_PERMITTED',
      message: `Policy no longer lets arguments be edited, as ${editor} did.`,
    };
  }
  if (verdict.kind === 'ask' && !isMet(verdict.approvers, people)) {
    return {
      ...stricter(verdict),
      message: `Policy now asks others to decide than ${people.map(({ id }) => id).join(', ')}.${saidBy(verdict)}`,
    };
  }
  const rules = verdict.kind === 'ask' ? [proof.approvers, verdict.approvers] : [proof.approvers];
  const end = lapsedSince(Date.parse(proof.decidedAt), now, ...rules);
  if (end === undefined) return undefined;
  return { ...askedOf(verdict), kind: 'reopen', code: 'APPROVAL_LAPSED', message: describeLapse(end) };
}

/** Before the deadline, which was postponed only as its rule permits? A time that is none is never in time. */
function isInTime({ approvers, deadline, decidedAt, extended }: DecisionProof): boolean {
  const proven = provenDeadline(approvers, {
    openedAt: Date.parse(extended?.openedAt ?? ''),
    deadline: Date.parse(deadline),
    extensions: (extended?.by ?? []).map((each) => ({ ...each, decidedAt: Date.parse(each.decidedAt) })),
  });
  return proven !== undefined && Date.parse(decidedAt) < proven;
}

/** Who said yes, and where it matters how long after the request opened. */
function votersOf({ decision, further = [], decidedAt, voted }: DecisionProof): Voter[] {
  const times = [decidedAt, ...(voted?.further ?? [])].map((at) => Date.parse(at) - Date.parse(voted?.openedAt ?? ''));
  return [decision, ...further].map(({ approver }, index) =>
    voted === undefined ? approver : { ...approver, after: times[index] ?? Number.NaN },
  );
}

/** Each vote in its time, where who may decide depends on it: not before the request opened, not after the last. */
function areTimed(proof: DecisionProof): boolean {
  const { approvers, voted, extended, edit, decidedAt } = proof;
  if (voted === undefined) return ![approvers, ...(edit === undefined ? [] : [edit.approvers])].some(isStaged);
  const last = Date.parse(decidedAt) - Date.parse(voted.openedAt);
  return (
    votersOf(proof).every(({ after = Number.NaN }) => after >= 0 && after <= last) &&
    (extended === undefined || extended.openedAt === voted.openedAt)
  );
}

/** Of those whom policy names now: they are asked once, and nobody else. */
function askedOf(verdict: Verdict): Pick<Extract<DispatchResult, { kind: 'reopen' }>, 'approvers' | 'deadlineSeconds'> {
  if (verdict.kind !== 'ask') return {};
  return { approvers: verdict.approvers, deadlineSeconds: verdict.deadlineSeconds };
}

/**
 * Is what would be sent what this decision lets be sent? A plain one was shown it. One that changed the arguments was shown others,
 * by somebody who was allowed to change them, and names what would be sent.
 */
function covers(input: DispatchInput, proof: DecisionProof, decision: Decision, voter: Voter): boolean {
  if (!isEdit(decision)) {
    const { generation, approvers } = proof;
    return (
      decision.digest === digestOfConsent(input, { generation, approvers, arguments: input.arguments }, decision.runId)
    );
  }
  const { edit } = proof;
  return (
    edit !== undefined &&
    permits(edit.approvers, 'edit') &&
    mayDecide(edit.approvers, voter) &&
    canonicalJson(decision.arguments) === canonicalJson(input.arguments) &&
    decision.digest === digestOfConsent(input, edit, decision.runId)
  );
}

/** Arguments that a person chose were not seen by the judge of the model's turn. */
export function hasEditedArguments({ proof }: DispatchInput): boolean {
  return proof.kind === 'decision' && proof.edit !== undefined;
}

export function stricter({
  approvers,
  deadlineSeconds,
}: Extract<Verdict, { kind: 'ask' }>): Extract<DispatchResult, { kind: 'reopen' }> {
  return { kind: 'reopen', code: 'VERDICT_STRICTER', message: '', approvers, deadlineSeconds };
}

function saidBy({ explain = [] }: Extract<Verdict, { kind: 'ask' }>): string {
  return explain.map(({ text }) => ` ${visible(text)}`).join('');
}

export function forbidden(message: string): Refused {
  return { kind: 'refused', code: 'DISPATCH_FORBIDDEN', message };
}
