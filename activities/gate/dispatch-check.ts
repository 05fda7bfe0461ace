/**
 * Checks whether a dispatch may leave this worker, and describes the proven call for its token.
 *
 * It trusts nothing in its input (INV-G1). It compares everything with this worker's configuration, the pinned
 * definition, and Temporal's own word on who scheduled the dispatch.
 * 1. Only a stricter result of judging again matters; a looser one changes nothing.
 * 2. The digest of what would be sent is computed again, and must be the one to which a person consented (INV-G2).
 * 3. A changed definition is described in one bounded line. The server's words in it are quoted as JSON and cut; the
 *    viewer escapes the line like any text of a server.
 * 4. A token names a call only after all checks here and in `statement-checks.ts`, and `provenCall` serves nothing else
 *    (INV-G1).
 */
import { RUN_WORKFLOW } from '../../contracts/names.ts';
import type { Verdict } from '../../contracts/schemas/call.ts';
import type { CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import type { IssuedCall, IssuedConsent } from '../../contracts/schemas/credentials.ts';
import type { JsonValue } from '../../contracts/schemas/json.ts';
import type { Decision } from '../../contracts/schemas/request.ts';
import type { ServerBinding, ToolDefinition } from '../../contracts/schemas/tool.ts';
import type { RunIdentity } from '../../contracts/wire/identity.ts';
import type { DispatchProof, RetryProof, ShownRequest } from '../../contracts/wire/proofs.ts';
import type { DispatchInput, DispatchResult } from '../../contracts/wire/tools.ts';
import { definitionDiff } from '../../domain/catalog/discovery.ts';
import { describeForgotten, describeSend } from '../../domain/history/discarded-send.ts';
import { isMet, isStaged, mayDecide, type Voter } from '../../domain/policy/approvers.ts';
import { describeLapse, lapsedSince, provenDeadline } from '../../domain/request/deadline.ts';
import { type DigestParts, requestDigest } from '../../domain/request/digest.ts';
import { isEdit, permits } from '../../domain/request/rights.ts';
import type { OfferedTool } from '../../domain/run/toolset.ts';
import { canonicalJson, hashOf } from '../../domain/text/canonical.ts';
import { bounded, visible } from '../../domain/text/escape.ts';
import type { ToolNow } from '../catalog/reader.ts';
import { forbidden, type Refused, type Scheduler } from '../kit/activity.ts';
import { shownOf } from '../policy/judge.ts';
import type { ReadDiscarded } from '../run/discarded-tail.ts';

type DecisionProof = Extract<DispatchProof, { kind: 'decision' }>;
type Ended = Extract<DispatchResult, { kind: 'ended' }>;

/** Checks that the run named in the input scheduled the activity. Tools are listed and called for runs only. */
export function checkRun(run: RunIdentity, { workflowType, workflowId, namespace }: Scheduler): Refused | undefined {
  if (workflowType !== RUN_WORKFLOW) return forbidden('Tools are called only by runs.');
  if (workflowId !== run.workflowId || namespace !== run.namespace)
    return forbidden('The call names another run than the one that scheduled it.');
  return undefined;
}

/** Checks that the Temporal run which scheduled the call is the one named in the input. */
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
 * Checks that Temporal hands this dispatch to a worker for the first time. A run has its dispatch attempted once.
 * Anyone who may write to the namespace can make Temporal hand it out again and restart the attempt count. Only in the
 * first attempt does the attempt's time equal the activity's. In any other, the call may have left, and nobody can say
 * that it was not made.
 */
export function checkFirst({ attempt, scheduledAt, attemptAt }: Scheduler): Ended | undefined {
  if (attempt === 1 && attemptAt === scheduledAt) return undefined;
  const message =
    'Temporal was made to hand this call to a worker anew, by somebody who has failed, paused or reset its activity: it may have left before, and was not sent again. Find out at the server before anything is done again.';
  return { kind: 'ended', outcome: { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message } };
}

/** Checks that the tool is the one that was judged. */
export function checkTool({ target, server }: DispatchInput, tool: OfferedTool | undefined): Refused | undefined {
  if (tool === undefined) return forbidden('The tool is not among those the run may use.');
  const same =
    tool.server === target.server &&
    tool.serverUrl === target.serverUrl &&
    tool.definition.name === target.tool &&
    server.name === tool.server &&
    // The judgement and signature name an address; the call goes to the address of the binding.
    server.url === target.serverUrl;
  return same ? undefined : forbidden('The call names another tool than the one that was judged.');
}

/** Checks that the definition is the one shown. If it is not, the fresh decision is about the new definition. */
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

/** Refuses a call through a missing catalog, if the run reached its server through one. */
export function checkCatalog(server: ServerBinding, catalog: CatalogSnapshot | undefined): Refused | undefined {
  if (server.catalog !== true || catalog !== undefined) return undefined;
  return {
    kind: 'refused',
    code: 'CATALOG_NOT_FOUND',
    message: `The catalog of ${server.name} is gone, and with it who may call what.`,
  };
}

/**
 * Checks that the proof carries the verdict that this worker reaches now.
 * @param now epoch ms
 */
export function checkProof(input: DispatchInput, verdict: Verdict, now: number): Refused | undefined {
  if (verdict.kind === 'deny') return { kind: 'refused', code: verdict.code, message: verdict.message };
  const { proof } = input;
  // Standing decisions are proven in `statement-checks.ts`.
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

/**
 * Checks that the decision came before the deadline, and that the rule permits every extension. An invalid time is
 * never in time.
 */
function isInTime({ approvers, deadline, decidedAt, extended }: DecisionProof): boolean {
  const proven = provenDeadline(approvers, {
    openedAt: Date.parse(extended?.openedAt ?? ''),
    deadline: Date.parse(deadline),
    extensions: (extended?.by ?? []).map((each) => ({ ...each, decidedAt: Date.parse(each.decidedAt) })),
  });
  return proven !== undefined && Date.parse(decidedAt) < proven;
}

/** Lists who approved and, if the rule needs it, how long after the request opened. */
function votersOf({ decision, further = [], decidedAt, voted }: DecisionProof): Voter[] {
  const times = [decidedAt, ...(voted?.further ?? [])].map((at) => Date.parse(at) - Date.parse(voted?.openedAt ?? ''));
  return [decision, ...further].map(({ approver }, index) =>
    voted === undefined ? approver : { ...approver, after: times[index] ?? Number.NaN },
  );
}

/**
 * Checks the time of each vote, if the rule lets time decide who may vote: not before the request opened, not after the
 * last vote.
 */
function areTimed(proof: DecisionProof): boolean {
  const { approvers, voted, extended, edit, decidedAt } = proof;
  if (voted === undefined) return ![approvers, ...(edit === undefined ? [] : [edit.approvers])].some(isStaged);
  const last = Date.parse(decidedAt) - Date.parse(voted.openedAt);
  return (
    votersOf(proof).every(({ after = Number.NaN }) => after >= 0 && after <= last) &&
    (extended === undefined || extended.openedAt === voted.openedAt)
  );
}

/** Puts the new question once, to the people whom policy names now and to nobody else. */
function askedOf(verdict: Verdict): Pick<Extract<DispatchResult, { kind: 'reopen' }>, 'approvers' | 'deadlineSeconds'> {
  if (verdict.kind !== 'ask') return {};
  return { approvers: verdict.approvers, deadlineSeconds: verdict.deadlineSeconds };
}

/**
 * Checks that the decision covers what would be sent. The author of a plain decision was shown exactly that. The author
 * of an edit was shown other arguments, was allowed to change them, and names what would be sent.
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

/** True if a person chose the arguments, which the judge of the model's turn has not seen. */
export function hasEditedArguments({ proof }: DispatchInput): boolean {
  return proof.kind === 'decision' && proof.edit !== undefined;
}

/** Reopens the call for the approvers of the stricter verdict; the caller adds the message. */
export function stricter({
  approvers,
  deadlineSeconds,
}: Extract<Verdict, { kind: 'ask' }>): Extract<DispatchResult, { kind: 'reopen' }> {
  return { kind: 'reopen', code: 'VERDICT_STRICTER', message: '', approvers, deadlineSeconds };
}

function saidBy({ explain = [] }: Extract<Verdict, { kind: 'ask' }>): string {
  return explain.map(({ text }) => ` ${visible(text)}`).join('');
}

// Changes of a definition since it was shown, for the people who are asked again.

const MOST_FIELDS = 5;
const VALUE_CHARACTERS = 120;

/** @param before the definition as it was shown; absent if unknown */
export function describeDrift(before: ToolDefinition | undefined, now: ToolDefinition): string {
  const changed = 'The definition of the tool is not the one that was shown';
  if (before === undefined) return `${changed}.`;
  const fields = definitionDiff(before, now);
  const told = fields.slice(0, MOST_FIELDS).map(({ path, before: was, after: is }) => {
    const name = bounded(path, VALUE_CHARACTERS);
    if (was === undefined) return `${name} is new: ${quoted(is)}`;
    return is === undefined ? `${name} is gone, was ${quoted(was)}` : `${name} was ${quoted(was)}, is ${quoted(is)}`;
  });
  const more = fields.length > told.length ? [`and ${fields.length - told.length} more fields`] : [];
  return `${changed}: ${[...told, ...more].join('; ')}.`;
}

function quoted(value: JsonValue | undefined): string {
  return bounded(canonicalJson(value ?? null), VALUE_CHARACTERS);
}

/** @param verdict the verdict that this worker reached */
export function provenCall(input: DispatchInput, tool: OfferedTool, verdict: Verdict): IssuedCall {
  return {
    callId: input.callId,
    executionId: input.runId,
    tool: tool.definition.name,
    definition: tool.hash,
    arguments: hashOf(input.arguments),
    consent: consentIn(input, verdict),
  };
}

function consentIn({ proof }: DispatchInput, verdict: Verdict): IssuedConsent {
  switch (proof.kind) {
    case 'policy':
      return { kind: 'policy', rules: [...verdict.rules] };
    case 'decision':
      return {
        kind: 'decision',
        digest: proof.decision.digest,
        approvers: namesOf([proof.decision, ...(proof.further ?? [])]),
      };
    case 'standing': {
      const { callId, decisions } = proof;
      return { kind: 'standing', digest: decisions[0]?.digest ?? '', approvers: namesOf(decisions), callId };
    }
  }
}

function namesOf(decisions: readonly Decision[]): string[] {
  return [...new Set(decisions.map(({ approver }) => approver.id))];
}

// Computes the digest under which somebody was shown a request about the call of a dispatch.
//
// 1. The run, its tenant, the tool and the call come from the dispatch; a proof says only what else was shown. Nothing
//    more is read from the proof, whatever it holds. Otherwise a decision on one tool would be proof for another
//    (INV-G2).

type Shown = Pick<DigestParts, 'arguments' | 'generation' | 'approvers' | 'about'>;

/** Digest of a request for consent. */
export function digestOfConsent(
  input: DispatchInput,
  { generation, arguments: shown, approvers }: ShownRequest,
  runId: string,
): string {
  return digestOf(input, runId, input.target.definitionHash, { generation, arguments: shown, approvers });
}

/** Digest of another request about the call; the tool may have had another definition then. */
export function digestOfPause(
  input: DispatchInput,
  {
    generation,
    approvers,
    definitionHash,
    about,
  }: Pick<RetryProof, 'generation' | 'approvers' | 'definitionHash' | 'about'>,
  runId: string,
): string {
  return digestOf(input, runId, definitionHash, { generation, arguments: input.arguments, approvers, about });
}

function digestOf({ run, callId, target }: DispatchInput, runId: string, definitionHash: string, shown: Shown): string {
  const { namespace, workflowId, initiator } = run;
  const { tenant } = initiator;
  return requestDigest({
    ...shown,
    namespace,
    tenant,
    workflowId,
    runId,
    callId,
    target: { ...target, definitionHash },
  });
}

// Finds calls that were sent in history that a reset has discarded.
//
// Such a call is a lost answer (INV-X1). A person is asked what became of it, as for every lost answer, and nothing is
// sent before.

/**
 * @param isRepeatable true if the operator calls the tool repeatable
 * @throws CountersignError `ENGINE_UNAVAILABLE`
 */
export async function lostInReset(
  input: DispatchInput,
  { workflowId, runId }: Pick<Scheduler, 'workflowId' | 'runId'>,
  isRepeatable: boolean,
  readDiscarded: ReadDiscarded | undefined,
): Promise<Extract<DispatchResult, { kind: 'ended' }> | undefined> {
  // A retry decision was proven before; it belongs to this run and not to the discarded history.
  if (isRepeatable || input.retry !== undefined || workflowId === undefined || runId === undefined) return undefined;
  const discarded = await readDiscarded?.(workflowId, runId, input);
  if (discarded === undefined) return undefined;
  if (discarded.kind === 'forgotten') return { kind: 'ended', outcome: unknown(describeForgotten()) };
  const { send } = discarded;
  return {
    kind: 'ended',
    outcome: unknown(describeSend(input.callId, send)),
    sent: { at: new Date(send.at).toISOString() },
  };
}

function unknown(message: string): Extract<DispatchResult, { kind: 'ended' }>['outcome'] {
  return { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message };
}
