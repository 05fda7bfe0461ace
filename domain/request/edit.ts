/**
 * An edit is an approval with other arguments than were shown; an activity judges it before `acceptEdit`.
 *
 * 1. Only the arguments change: server, tool and call id are those that were asked about.
 * 2. Other arguments are another proposal. Earlier approvals do not count for it; the editor's does (INV-G1).
 * 3. An edit gains nothing: no later deadline, and no vote for a person who may not decide the edited call.
 */
import { defined } from '../../contracts/defined.ts';
import type { Judgement, ToolTarget } from '../../contracts/schemas/call.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { Approver, DecisionAck } from '../../contracts/schemas/request.ts';
import type { Limits } from '../../contracts/schemas/run-spec.ts';
import type { Edit, Resolved, ResolvedJudgement, Vote } from '../../contracts/wire/carry.ts';
import type { ShownRequest } from '../../contracts/wire/proofs.ts';
import { isMet, isWanted } from '../policy/approvers.ts';
import {
  type CallState,
  type Change,
  type ConsentRequest,
  type EditDecision,
  type InFlight,
  countedAnew,
  replaceCall,
  type Run,
  type RunIds,
  type WaitingForConsent,
  withoutComment,
} from '../state/run.ts';
import { byteLength, canonicalJson, hashOf } from '../text/canonical.ts';
import { type Refusal, refuse } from '../text/refusal.ts';
import { acceptedFact, answeredBy, namedIn, notPermitted, permits } from './decision.ts';
import { requestOpenedFact, verdictFact } from './digest.ts';

/** Most edits of one run that are judged at the same time, since each needs an activity. */
export const MOST_JUDGED_EDITS = 8;

/** Refuses an edit for reasons known before the edited call is judged. */
export function refuseEdit(
  run: Run,
  state: WaitingForConsent,
  decision: EditDecision,
  limits: Pick<Limits, 'argumentBytes' | 'argumentBytesPerTurn'>,
): Refusal | undefined {
  const { call } = state;
  const { callId } = decision;
  const about = { callId, path: 'arguments' };
  if (hashOf(decision.arguments) === hashOf(call.arguments))
    return refuse(
      'DECISION_INVALID',
      `The arguments are those that call ${callId} has; approve it without any.`,
      about,
    );
  const bytes = bytesOf(decision.arguments);
  if (bytes > limits.argumentBytes)
    return refuse('ARGUMENTS_TOO_LARGE', `Arguments have ${bytes} bytes; ${limits.argumentBytes} are allowed.`, about);
  // The run keeps the edit beside the model's arguments and those that the editor read, so all of them count.
  const held = run.calls.reduce((sum, each) => sum + (each.call.callId === callId ? 0 : bytesHeld(each)), 0);
  const before = bytesOf(call.arguments) + (state.edit === undefined ? 0 : bytesOf(state.edit.proposed));
  const total = held + before + 2 * bytes;
  return total > limits.argumentBytesPerTurn
    ? refuse(
        'ARGUMENTS_TOO_LARGE',
        `With these the arguments of the turn have ${total} bytes; ${limits.argumentBytesPerTurn} are allowed.`,
        about,
      )
    : undefined;
}

export interface EditVerdict {
  readonly judgement: Judgement;
  readonly policyVersion: string;
}

/**
 * Records an admitted and judged edit: the call is approved, or waits for others to agree.
 * @param at epoch ms
 * @param isAnew the attempts count anew (patch `as-documented`)
 */
export function acceptEdit(
  run: Run,
  state: WaitingForConsent,
  decision: EditDecision,
  { judgement, policyVersion }: EditVerdict,
  ids: RunIds,
  at: number,
  isAnew = true,
): (Change & { readonly kind: 'accept'; readonly ack: DecisionAck }) | Refusal {
  const { callId } = decision;
  const { verdict } = judgement;
  if (verdict.kind === 'deny')
    return refuse(
      verdict.code,
      `Call ${callId} may not be made with these arguments; it waits as it was. ${verdict.message}`,
      { callId, path: 'arguments' },
    );
  const target = sameTool(state.judgement, judgement);
  if (target === undefined)
    return refuse('TOOL_UNKNOWN', `Call ${callId} is of another tool than was shown; it waits as it was.`, { callId });
  // If policy would now allow the call, the first approvers still decide: only a stricter rule counts.
  const rule = verdict.kind === 'ask' ? verdict.approvers : state.request.approvers;
  if (!permits(rule, 'edit')) return notPermitted('edit', callId);

  const isSeen = target.definitionHash === state.judgement.target.definitionHash;
  const approver = namedIn([state.request.approvers, rule], decision.approver);
  // The vote does not count if the editor has not seen the tool's current definition.
  const voter = { ...approver, after: at - state.request.openedAt };
  const counts = isSeen && isWanted(rule, [], voter);
  const isEnough = counts && isMet(rule, [voter]);
  const edited: Resolved = {
    call: { ...state.call, arguments: decision.arguments },
    // The judge returns no description for an allowed call, so the known one is kept.
    judgement: { ...(isSeen ? shownOf(state.judgement) : {}), ...judgement, target },
    attempts: state.attempts,
    ...(isAnew ? countedAnew(state) : {}),
    edit: editBy(approver.id, decision.decisionId, state, at),
  };
  // Extensions belong to the former request and are dropped; the time that they gave stays.
  const { extended: _extended, ...asked } = state.request;
  const request = { ...asked, approvers: rule };
  const next: CallState = isEnough
    ? { status: 'approved', ...edited, consent: { request, made: voteOf(decision, approver, at) } }
    : {
        status: 'waiting-for-consent',
        ...edited,
        request: askedAnew(request, verdict.kind === 'ask' ? verdict.deadlineSeconds : undefined, approver.id, at),
        ...(counts ? { votes: [voteOf(decision, approver, at)] } : {}),
      };
  const status = isEnough ? 'approved' : 'edited';
  return {
    kind: 'accept',
    ...answeredBy(replaceCall(run, next), decision, status, at),
    facts: [
      acceptedFact(state, { ...decision, approver }, status),
      verdictFact(edited.call, edited.judgement, policyVersion),
      ...(next.status === 'waiting-for-consent' ? [requestOpenedFact(next, ids)] : []),
    ],
  };
}

function voteOf(decision: EditDecision, approver: Approver, at: number): Vote {
  const isSigned = decision.signature !== undefined;
  return { decision: isSigned ? decision : withoutComment({ ...decision, approver }), decidedAt: at };
}

function editBy(by: string, decisionId: string, { call, edit, request }: WaitingForConsent, at: number): Edit {
  return {
    by,
    at,
    decisionId,
    proposed: edit?.proposed ?? call.arguments,
    shown: {
      generation: request.generation,
      approvers: request.approvers,
      ...defined({ arguments: edit && call.arguments }),
    },
  };
}

/** The request that the editor read, if the edit is among the decisions that let the call run. For a dispatch. */
export function shownToEditor({ edit, consent }: Pick<InFlight, 'edit' | 'consent'>): ShownRequest | undefined {
  const decisions = consent === undefined ? [] : [consent.made, ...(consent.made.further ?? [])];
  return edit !== undefined && decisions.some(({ decision }) => decision.decisionId === edit.decisionId)
    ? { arguments: edit.proposed, ...edit.shown }
    : undefined;
}

function askedAnew(
  request: ConsentRequest,
  deadlineSeconds: number | undefined,
  by: string,
  at: number,
): ConsentRequest {
  const deadline = deadlineSeconds === undefined ? request.deadline : at + deadlineSeconds * 1_000;
  // The rule may have changed, so its reminders and escalations start anew.
  const { told: _, ...asked } = request;
  return {
    ...asked,
    generation: request.generation + 1,
    deadline: Math.min(request.deadline, deadline),
    because: `${by} changed the arguments.`,
  };
}

function sameTool({ target: was }: ResolvedJudgement, { target: is }: Judgement): ToolTarget | undefined {
  return is?.server === was.server && is.serverUrl === was.serverUrl && is.tool === was.tool ? is : undefined;
}

function shownOf({ description, annotations }: Judgement): Pick<Judgement, 'description' | 'annotations'> {
  return defined({ description, annotations });
}

/** Bytes of all arguments kept for a call; an edit's arguments also stand in its decision. */
function bytesHeld(state: CallState): number {
  const own = bytesOf(state.call.arguments);
  const edit = 'edit' in state ? state.edit : undefined;
  if (edit === undefined) return own;
  const { proposed, shown } = edit;
  return 2 * own + bytesOf(proposed) + (shown.arguments === undefined ? 0 : bytesOf(shown.arguments));
}

function bytesOf(args: JsonObject): number {
  return byteLength(canonicalJson(args));
}
