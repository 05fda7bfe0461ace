/**
 * The state of a run without its journal, and of each of its calls: small, immutable, and all of it carried through
 * continue-as-new. Also the run's status, and how long its open requests have waited.
 *
 * 1. Calls are independent: a transition of one never touches another (INV-G3).
 * 2. Every transition of a run returns the facts that it adds to the ledger; nothing changes without a fact.
 * 3. A settled call never changes again; the first terminal transition wins (INV-G2).
 * 4. A call is sent only from `cleared` (policy allowed it), `approved` (a person did), or `throttled`, which either of
 *    them becomes while its server takes no more (INV-G1).
 * 5. A call that may have run ends as `unknown` until its outcome is known (INV-X2).
 *
 * One file, because a run is little but its calls: whoever changes what a call may be has to see what a run makes of
 * it.
 */
import { defined } from '../../contracts/defined.ts';
import type { Judgement, Outcome, ProposedCall } from '../../contracts/schemas/call.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { InputPause, Pause, RequestStatus, SignedDecision } from '../../contracts/schemas/request.ts';
import type { Grant } from '../../contracts/schemas/run-spec.ts';
import type { RunState, RunStatus } from '../../contracts/schemas/run-state.ts';
import type { Usage } from '../../contracts/schemas/transcript.ts';
import type {
  Agreed,
  AnsweredPause,
  Authorized,
  CarriedRun,
  Consent,
  MadeDecision,
  OpenRequest,
  PauseEnding,
  PauseRequest,
  Proposed,
  QuestionProgress,
  Remembered,
  Resolved,
  ServerTask,
  Settled,
  Unsure,
  Vote,
  Wait,
} from '../../contracts/wire/carry.ts';
import type { ModelStepResult } from '../../contracts/wire/run.ts';

export type EndStatus = NonNullable<RunState['endsAs']>;

/** The stage that the workflow is in; `statusOf` refines `acting` by the states of the calls. */
export type Phase = 'preparing' | 'thinking' | 'acting' | EndStatus;

export function askingCalls(run: Run): readonly Asking[] {
  return run.calls.filter(isAsking);
}

export function statusOf(phase: Phase, run: Run): RunStatus {
  if (phase !== 'acting') return phase;
  const open = run.calls.filter(({ status }) => status !== 'settled');
  return open.length > 0 && open.every(isAsking) ? 'waiting' : 'acting';
}

/** Returns the earliest deadline and the earliest opening time of the open requests, in epoch ms. */
export function waitOf(run: Run): { readonly nextDeadline?: number; readonly waitingSince?: number } {
  const asking = askingCalls(run);
  if (asking.length === 0) return {};
  return {
    nextDeadline: Math.min(...asking.map(({ request }) => request.deadline)),
    waitingSince: Math.min(...asking.map(({ request }) => request.openedAt)),
  };
}

export function isSettled(state: CallState): state is Settled {
  return state.status === 'settled';
}

/**
 * Temporal runs in which a decision counts (INV-G2), oldest first: this one and the chain's earlier ones since a reset.
 * @param originalRunId differs from `runId` in a run made by a reset (Temporal `WorkflowInfo`)
 */
export function decidedIn(runId: string, originalRunId: string, earlier: readonly string[]): readonly string[] {
  return runId === originalRunId ? [...earlier, runId] : [runId];
}

/** Most execution ids that are carried on; a decision made in an older execution is stale. */
const MOST_EARLIER = 200;

export function carriedExecutions(counting: readonly string[]): readonly string[] {
  return counting.slice(-MOST_EARLIER);
}

export function isPauseAnswer(known: Remembered): known is AnsweredPause {
  return 'answer' in known.ack;
}

export interface RunIds {
  readonly namespace: string;
  readonly workflowId: string;
  readonly tenant: string;
  /** The current Temporal run. The digests that it shows depend on this id. */
  readonly runId: string;
}

/** The record of a run, with its calls in the states that transitions know. */
export interface Run extends Omit<CarriedRun, 'calls'> {
  readonly calls: readonly CallState[];
}

export interface Change {
  readonly run: Run;
  readonly facts: readonly LedgerFact[];
}

/** Number of decision ids that a run remembers; DESIGN "Transcript and size". */
export const MOST_ANSWERED = 1_000;
export const MOST_PAUSES_ANSWERED = 200;

/** Remembers an answer, and forgets the oldest of its kind if there are too many. */
export function answeredWith(run: Run, known: Remembered): Run {
  const isAlike = (other: Remembered): boolean => isPauseAnswer(other) === isPauseAnswer(known);
  const isFull = run.answered.filter(isAlike).length >= (isPauseAnswer(known) ? MOST_PAUSES_ANSWERED : MOST_ANSWERED);
  const oldest = isFull ? run.answered.find(isAlike) : undefined;
  return { ...run, answered: [...run.answered.filter((each) => each !== oldest), known] };
}

export function startRun(startedAt: number): Run {
  return {
    startedAt,
    turn: 0,
    calls: [],
    totalCalls: 0,
    usage: { inputTokens: 0, outputTokens: 0 },
    repairs: 0,
    answered: [],
    expired: [],
    queue: [],
    heard: [],
    heardHashes: [],
    refusals: [],
  };
}

/** Opens a turn; no calls mean a final answer. @param cost millionths, if the model has a price */
export function proposed(run: Run, calls: readonly ProposedCall[], usage: Usage, cost?: number): Change {
  const turn = run.turn + 1;
  return {
    run: {
      ...run,
      turn,
      calls: calls.map((call) => ({ status: 'proposed', call })),
      totalCalls: run.totalCalls + calls.length,
      usage: {
        inputTokens: run.usage.inputTokens + usage.inputTokens,
        outputTokens: run.usage.outputTokens + usage.outputTokens,
      },
      ...(cost === undefined ? {} : { spent: (run.spent ?? 0) + cost }),
    },
    facts: [{ kind: 'turn.proposed', turn, calls: calls.length, usage, ...defined({ cost }) }],
  };
}

export function callOf(run: Run, callId: string): CallState | undefined {
  return run.calls.find(({ call }) => call.callId === callId);
}

export function replaceCall(run: Run, next: CallState): Run {
  return { ...run, calls: run.calls.map((state) => (state.call.callId === next.call.callId ? next : state)) };
}

export interface Moved {
  readonly call: CallState;
  readonly facts: readonly LedgerFact[];
}

/** Lifts a transition of one call to the run; a call in another state than these stays as it is. */
export function move<From extends CallStatus>(
  run: Run,
  callId: string,
  from: readonly From[],
  transition: (state: Extract<CallState, { status: From }>) => Moved,
): Change {
  const isFrom = (state: CallState | undefined): state is Extract<CallState, { status: From }> =>
    from.some((status) => status === state?.status);
  const state = callOf(run, callId);
  if (!isFrom(state)) return { run, facts: [] };
  const { call, facts } = transition(state);
  return { run: replaceCall(run, call), facts };
}

/** Counts the one repair turn that a final answer gets if its shape does not fit `agent.output`. */
export function repaired(run: Run): Run {
  return { ...run, repairs: run.repairs + 1 };
}

export function callsOf({ parts, malformed }: Pick<ModelStepResult, 'parts' | 'malformed'>): ProposedCall[] {
  return parts.flatMap((part) => {
    if (part.type !== 'call') return [];
    const { callId, providerCallId, name, approvalRequestId, storedAnswerId } = part;
    const reason = malformed?.[callId];
    return [
      {
        callId,
        providerCallId,
        name,
        arguments: part.arguments,
        ...defined({ malformed: reason, approvalRequestId, storedAnswerId }),
      },
    ];
  });
}

/** Returns the answer that gave a server its newest grant, as a list of none or one. */
export function grantsFor({ grants = [] }: Run, server: string): readonly Authorized[] {
  return grants.filter(({ request }) => request.about.server === server);
}

/** The fields by which every answer names the request that it answers. */
export type Answerable = Pick<SignedDecision, 'decisionId' | 'callId' | 'digest' | 'runId' | 'approver'>;

export interface Cleared extends Resolved {
  readonly status: 'cleared';
  readonly consent?: never;
}

export interface WaitingForConsent extends Resolved {
  readonly status: 'waiting-for-consent';
  readonly request: ConsentRequest;
  readonly votes?: readonly Vote[];
  readonly consent?: never;
}

/** Nothing is under way; the call needs an answer of another kind than consent before it leaves again or ends. */
export interface WaitingForAnswer<About extends Pause = Pause> extends Resolved {
  readonly status: 'waiting-for-answer';
  readonly request: PauseRequest<About>;
  /** The consent with which the call left; absent if policy allowed the call. The same in the states below. */
  readonly consent?: Consent;
  /** Consents to the requested scopes so far, if the rule needs several. */
  readonly agreed?: readonly Agreed[];
}

export interface Approved extends Resolved {
  readonly status: 'approved';
  readonly consent: Consent;
}

/** The call may run, but its server takes no more just now. */
export interface Throttled extends Resolved {
  readonly status: 'throttled';
  readonly wait: Wait;
  readonly consent?: Consent;
}

interface Sent extends Resolved {
  readonly consent?: Consent;
  /** Set if the server has asked something on the open connection of this dispatch. */
  readonly questions?: QuestionProgress;
  /** The grant with which the call was sent, kept here once a newer grant has replaced it in the run. */
  readonly grant?: Grant;
}

export interface InFlight extends Sent {
  readonly status: 'in-flight';
}

/** A dispatch is under way, and its server waits on the open connection for what people answer. */
export interface AskingOnConnection extends Resolved {
  readonly status: 'asking-on-connection';
  readonly request: PauseRequest<InputPause>;
  readonly questions: Pick<QuestionProgress, 'rounds' | 'waited'>;
  readonly consent?: Consent;
  readonly grant?: Grant;
}

/** The server works on the call as a task; no connection is open. */
export interface OnTask extends Sent {
  readonly status: 'on-task';
  readonly task: ServerTask;
}

/** Calls that have left and have no outcome yet. */
export type Dispatched = InFlight | OnTask;
/** Calls with an open request, whatever it asks for. */
export type Asking = WaitingForConsent | WaitingForAnswer | AskingOnConnection;
/** Calls that nothing but time keeps from being sent. */
export type Sendable = Cleared | Approved | Throttled;
export type CallState = Proposed | Sendable | Asking | Dispatched | Settled;
export type CallStatus = CallState['status'];

export const DISPATCHED = ['in-flight', 'on-task'] as const satisfies readonly CallStatus[];
export const ASKING = [
  'waiting-for-consent',
  'waiting-for-answer',
  'asking-on-connection',
] as const satisfies readonly CallStatus[];

export function isDispatched(state: CallState | undefined): state is Dispatched {
  return DISPATCHED.some((status) => status === state?.status);
}

export function isAsking(state: CallState | undefined): state is Asking {
  return ASKING.some((status) => status === state?.status);
}

export function isSendable(state: CallState | undefined): state is Sendable {
  return state?.status === 'cleared' || state?.status === 'approved' || state?.status === 'throttled';
}

/** Returns the open request of a call, else the one whose answer let the call leave or ended it. */
export function requestOf(state: CallState): OpenRequest | undefined {
  if (state.status === 'proposed') return undefined;
  return state.status === 'settled' || isAsking(state) ? state.request : state.consent?.request;
}

export function decisionOn(state: CallState): MadeDecision | undefined {
  if (state.status === 'proposed') return undefined;
  return state.status === 'settled' ? state.made : state.consent?.made;
}

export function judgementOf(state: CallState): Judgement | undefined {
  return state.status === 'proposed' ? undefined : state.judgement;
}

export function requestStatusOf(state: CallState): RequestStatus {
  if (isAsking(state)) return 'open';
  if (state.status !== 'settled') return 'approved';
  if (state.pause !== undefined) return state.pause.status;
  switch (state.outcome.kind) {
    case 'rejected':
      return 'rejected';
    case 'expired':
      return 'expired';
    case 'answered':
      return 'answered';
    default:
      if (state.made === undefined) return 'cancelled';
      return state.made.decision.kind === 'approve' ? 'approved' : 'rejected';
  }
}

export function withRequest<State extends Asking>(
  state: State,
  change: Partial<Pick<OpenRequest, 'deadline' | 'extended' | 'told'>>,
): State {
  return { ...state, request: { ...state.request, ...change } };
}

/** Applies the verdict of the judge to a proposed call. @param at epoch ms */
export function judged(call: ProposedCall, judgement: Judgement, at: number): CallState {
  const { verdict, target } = judgement;
  const denied = (code: string, message: string): Settled => ({
    status: 'settled',
    call,
    judgement,
    outcome: { kind: 'denied', code, message },
  });
  if (verdict.kind === 'deny') return denied(verdict.code, verdict.message);
  // A judge that passes a call without resolving its tool is broken; fail closed (INV-G4).
  if (target === undefined) return denied('TOOL_UNKNOWN', 'The tool is not known.');
  const resolved = { ...judgement, target };
  if (verdict.kind === 'allow') return { status: 'cleared', call, judgement: resolved, attempts: 0 };
  return {
    status: 'waiting-for-consent',
    call,
    judgement: resolved,
    attempts: 0,
    request: {
      generation: 1,
      approvers: verdict.approvers,
      openedAt: at,
      deadline: at + verdict.deadlineSeconds * 1_000,
    },
  };
}

export function duplicate(state: CallState, duplicateOf: string | undefined): CallState {
  if (duplicateOf === undefined || (state.status !== 'waiting-for-consent' && state.status !== 'cleared')) return state;
  return { ...state, duplicateOf };
}

/** Applies a decision that settles the request: the last approval needed, a rejection, or an answer. */
export function decided(
  state: WaitingForConsent,
  made: Vote & { readonly decision: Exclude<SignedDecision, { kind: 'withdraw' | 'extend' }> },
): Approved | Settled {
  const { decision } = made;
  if (decision.kind === 'approve') return approved(state, made, state.votes);
  const by = decision.approver.id;
  if (decision.kind === 'reject') return settled(state, { kind: 'rejected', by, reason: decision.reason }, made);
  // The answer travels with the outcome; once is enough.
  const kept = { ...made, decision: { ...decision, answer: '' } };
  return settled(state, { kind: 'answered', by, answer: decision.answer }, kept);
}

/** @param further the approvals given before `made` */
export function approved(state: WaitingForConsent, made: MadeDecision, further: readonly Vote[] = []): Approved {
  const consent = { request: state.request, made: { ...made, ...(further.length === 0 ? {} : { further }) } };
  return { status: 'approved', ...resolvedOf(state), consent };
}

export function agreedOn(state: Asking): readonly string[] {
  if (state.status === 'waiting-for-consent') return (state.votes ?? []).map(({ decision }) => decision.approver.id);
  return state.status === 'waiting-for-answer' ? (state.agreed ?? []).map(({ answer }) => answer.approver.id) : [];
}

/** Records the approvals so far, after one was given or withdrawn, while others are still needed. */
export function voted(state: WaitingForConsent, votes: readonly Vote[]): WaitingForConsent {
  const { votes: _, ...asked } = state;
  return { ...asked, ...(votes.length === 0 ? {} : { votes }) };
}

export function sent(state: Sendable): InFlight {
  const { consent } = state;
  return { status: 'in-flight', ...resolvedOf(state), attempts: state.attempts + 1, ...defined({ consent }) };
}

/**
 * Returns a call in flight to the state that it was sent from, so that it can be sent again; the attempt stays counted.
 * @param unsure set if the attempt may have run, and the operator declares the call repeatable
 * @param isAnew false: a person's word that the call is sent again stays (patch `as-documented`)
 */
export function notSent(state: Dispatched, unsure?: Unsure, isAnew = true): Cleared | Approved {
  const { retry, ...resolved } = resolvedOf(state);
  // That word is for one sending that may have run.
  const next = unsure !== undefined && isAnew ? { again: true as const } : defined({ retry });
  return sendable({ ...resolved, ...defined({ unsure }), ...next }, state.consent);
}

/** Has the attempts of a call count anew, since people are asked about it or have changed it. */
export function countedAnew({ attempts }: Pick<Resolved, 'attempts'>): Pick<Resolved, 'holds'> {
  return attempts === 0 ? {} : { holds: { count: attempts } };
}

/** @param consent absent if policy allowed the call */
export function sendable(resolved: Resolved, consent: Consent | undefined): Cleared | Approved {
  return consent === undefined ? { status: 'cleared', ...resolved } : { status: 'approved', ...resolved, consent };
}

/** Prepares a call for a request to people. The time held back is dropped: the wait starts anew after an answer. */
export function askable(state: Resolved): Resolved {
  const resolved = resolvedOf(state);
  return state.holds === undefined ? resolved : { ...resolved, holds: { count: state.holds.count } };
}

export function resolvedOf({
  call,
  judgement,
  attempts,
  duplicateOf,
  unsure,
  again,
  edit,
  asked,
  retry,
  input,
  holds,
  authorized,
}: Resolved): Resolved {
  return {
    call,
    judgement,
    attempts,
    ...defined({ duplicateOf, unsure, again, edit, asked, retry, holds, input, authorized }),
  };
}

export type ConsentRequest = OpenRequest & { readonly about?: never };

/**
 * Settles a call. An earlier dispatch that may have run keeps the outcome `unknown` (invariant 3).
 * @param made the decision that ended the call, if another one than that which let the call leave
 * @param ending how an open pause closed; by default `expired` or `cancelled`, by the outcome
 */
export function settled(
  state: Exclude<CallState, Settled>,
  outcome: Outcome,
  made?: MadeDecision,
  ending?: PauseEnding,
): Settled {
  const { call } = state;
  if (state.status === 'proposed') return { status: 'settled', call, outcome, ...defined({ made, pause: ending }) };
  const { judgement, unsure, duplicateOf, edit } = state;
  return {
    status: 'settled',
    call,
    outcome: unsure !== undefined && !isKnown(outcome) ? unsure : outcome,
    judgement,
    ...defined({
      request: requestOf(state),
      made: made ?? state.consent?.made,
      duplicateOf,
      edit,
      pause: ending ?? endingOf(state, outcome),
    }),
  };
}

/** How an unanswered request for something other than consent closes together with its call. */
function endingOf({ status }: Exclude<CallState, Settled>, outcome: Outcome): PauseEnding | undefined {
  if (status !== 'waiting-for-answer' && status !== 'asking-on-connection') return undefined;
  return { status: outcome.kind === 'expired' ? 'expired' : 'cancelled' };
}

/** True if the call ran, or if a person recorded its outcome. */
function isKnown(outcome: Outcome): boolean {
  return outcome.kind === 'succeeded' || (outcome.kind === 'failed' && outcome.executed);
}

/** An approval with other arguments than were shown (`domain/request/edit.ts`). */
export type EditDecision = Extract<SignedDecision, { kind: 'approve' }> & { readonly arguments: JsonObject };

/** Drops the comment, which the ledger has. A signed decision is kept whole, as its signature covers it. */
export function withoutComment<Decision extends SignedDecision>(decision: Decision): Decision {
  if (decision.signature !== undefined) return decision;
  const { comment: _, ...said } = { comment: undefined, ...decision };
  // Sound: a comment may be missing.
  return said as Decision;
}

export function isEdit(decision: SignedDecision): decision is EditDecision {
  return decision.kind === 'approve' && decision.arguments !== undefined;
}
