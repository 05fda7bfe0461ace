/**
 * Holds the life of one call as a state machine: its states, what each one carries, and the plain
 * transitions.
 *
 * The file owns how a call is judged, decided, sent and settled. Pauses live in `domain/request/pause.ts`, deadlines in
 * `domain/request/deadline.ts`. One file, because the union of states
 * makes sense only beside the records that its states carry.
 *
 * 1. A settled call never changes again; the first terminal transition wins (INV-G2).
 * 2. A call reaches `in-flight` only from `cleared` (policy allowed it) or `approved` (a person did) (INV-G1).
 * 3. A call that may have run ends as `unknown` until its outcome is known (INV-X2).
 */
import { defined } from '../../contracts/defined.ts';
import type {
  Approver,
  AuthorizationPause,
  InputPause,
  Pause,
  SignedAuthorization,
  SignedDecision,
  SignedProvision,
  SignedResolution,
} from '../../contracts/schemas/request.ts';
import type {
  HeldBy,
  Judgement,
  Outcome,
  ProposedCall,
  TokenEvidence,
  ToolTarget,
} from '../../contracts/schemas/call.ts';
import type { SealedState } from '../../contracts/schemas/input.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { ApproverRule } from '../../contracts/schemas/policy.ts';
import type { Grant } from '../../contracts/schemas/run-spec.ts';
import type { InputLeg, ShownRequest } from '../../contracts/wire/proofs.ts';

export interface MadeDecision {
  readonly decision: SignedDecision;
  readonly decidedAt: number;
  /** The approvals given before this one, if the rule needs several. */
  readonly further?: readonly Vote[];
  /** Id of the standing decision, if the decision was made on an earlier call (`domain/request/standing.ts`). */
  readonly standing?: string;
}

/** One of the approvals that a request with a quorum needs. */
export type Vote = Omit<MadeDecision, 'further' | 'standing'>;

/** The request and the decision that let an asked call leave. */
export interface Consent {
  readonly request: OpenRequest;
  readonly made: MadeDecision;
}

/** How a request closed that asked for something other than consent. */
type PauseEnding =
  | { readonly status: 'resolved'; readonly by: Approver; readonly at: number }
  | { readonly status: 'expired' | 'cancelled' };

/** The fields by which every answer names the request that it answers. */
export type Answerable = Pick<SignedDecision, 'decisionId' | 'callId' | 'digest' | 'runId' | 'approver'>;

export type Unsure = Extract<Outcome, { kind: 'unknown' }>;

/**
 * A person's change of the arguments that the model proposed. One of the decisions that let the call run made the
 * change.
 */
export interface Edit {
  readonly by: string;
  /** Epoch ms. */
  readonly at: number;
  readonly decisionId: string;
  /** The model's arguments, before the first of possibly several edits. */
  readonly proposed: JsonObject;
  /**
   * The request as the editor read it; the decision echoes its digest. `arguments` is absent if the editor read
   * `proposed`.
   */
  readonly shown: Pick<ShownRequest, 'generation' | 'approvers'> & Partial<Pick<ShownRequest, 'arguments'>>;
}

/** The judgement of a call that policy allows or asks about; its tool is known. */
export type ResolvedJudgement = Judgement & { readonly target: ToolTarget };

interface Common {
  readonly call: ProposedCall;
}
interface Resolved extends Common {
  readonly judgement: ResolvedJudgement;
  /** Number of dispatches so far. */
  readonly attempts: number;
  /** Call id of the first call of the turn with the same tool and arguments. */
  readonly duplicateOf?: string;
  /** Set if an earlier dispatch may have run. No later outcome may then claim that the call did not run. */
  readonly unsure?: Unsure;
  readonly edit?: Edit;
  /** Generation of the newest request, if that request asked for something other than consent. */
  readonly asked?: number;
  readonly retry?: Retry;
  readonly input?: InputProgress;
  /** Answers to authorization requests, oldest first. */
  readonly authorized?: readonly Authorized[];
  /**
   * Dispatches that do not count as attempts. Two kinds are counted here: dispatches that the server's limits held back
   * (`domain/request/throttling.ts`), and all dispatches before people were last asked. `since` (epoch ms) and `by`
   * tell since when, and by which limit, the call has been held back; both start anew when people let the call run.
   */
  readonly holds?: { readonly count: number; readonly since?: number; readonly by?: HeldBy };
}

/** How long, and why, a throttled call waits for its server. */
export interface Wait {
  /** Epoch ms, as is `until`. */
  readonly since: number;
  readonly until: number;
  readonly by: HeldBy;
  readonly message: string;
}

/** A call that its server works on as an MCP task (`domain/legacy-2025/tasks.ts`). Times are epoch ms. */
export interface ServerTask {
  readonly sealed: SealedState;
  readonly since: number;
  /** Time at which the run gives the task up. */
  readonly until: number;
  /** Time of the next poll. */
  readonly next: number;
  readonly polls: number;
  /** Poll interval that the server asks for, in ms. */
  readonly pollMs?: number;
  readonly message?: string;
  readonly token?: TokenEvidence;
}

export type CallState =
  | (Common & { readonly status: 'proposed' })
  | (Resolved & { readonly status: 'cleared'; readonly held?: Wait })
  | (Resolved & {
      readonly status: 'asking';
      readonly request: OpenRequest;
      readonly votes?: readonly Vote[];
      /**
       * Only for a request that does not ask for consent: the consent with which the call left. Absent if policy
       * allowed it.
       */
      readonly consented?: Consent;
      /** Consents to the requested scopes so far, if the rule needs several. */
      readonly agreed?: readonly Agreed[];
      /**
       * Set while the dispatch is still under way: the server waits on an open connection
       * (`domain/legacy-2025/open-question.ts`).
       */
      readonly heldOpen?: Pick<HeldProgress, 'rounds' | 'waited'>;
    })
  | (Resolved & {
      readonly status: 'approved';
      readonly request: OpenRequest;
      readonly made: MadeDecision;
      readonly held?: Wait;
    })
  | (Resolved & {
      readonly status: 'in-flight';
      readonly request?: OpenRequest;
      readonly made?: MadeDecision;
      /** Set if the server works on the call as a task; no connection is open then. */
      readonly task?: ServerTask;
      /** Set if the server has asked something on the open connection of this dispatch. */
      readonly heldInput?: HeldProgress;
      /** The grant with which the call was sent, kept here once a newer grant has replaced it in the run. */
      readonly grant?: Grant;
    })
  | (Common & {
      readonly status: 'settled';
      readonly outcome: Outcome;
      readonly judgement?: Judgement;
      readonly request?: OpenRequest;
      readonly made?: MadeDecision;
      readonly duplicateOf?: string;
      readonly edit?: Edit;
      readonly pause?: PauseEnding;
    });

export type CallStatus = CallState['status'];
export type Asking = Extract<CallState, { status: 'asking' }>;
export type Sendable = Extract<CallState, { status: 'cleared' | 'approved' }>;
export type Approved = Extract<CallState, { status: 'approved' }>;
export type InFlight = Extract<CallState, { status: 'in-flight' }>;

/**
 * Applies the verdict of the judge to a proposed call.
 * @param at epoch ms
 */
export function judged(call: ProposedCall, judgement: Judgement, at: number): CallState {
  const { verdict, target } = judgement;
  if (verdict.kind === 'deny')
    return {
      status: 'settled',
      call,
      judgement,
      outcome: { kind: 'denied', code: verdict.code, message: verdict.message },
    };
  if (target === undefined) {
    // A judge that passes a call without resolving its tool is broken; fail closed (INV-G4).
    return {
      status: 'settled',
      call,
      judgement,
      outcome: { kind: 'denied', code: 'TOOL_UNKNOWN', message: 'The tool is not known.' },
    };
  }
  const resolved = { ...judgement, target };
  if (verdict.kind === 'allow') return { status: 'cleared', call, judgement: resolved, attempts: 0 };
  return {
    status: 'asking',
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

/** Marks a call that repeats an earlier one of its turn. */
export function duplicate(state: CallState, duplicateOf: string | undefined): CallState {
  if (duplicateOf === undefined || (state.status !== 'asking' && state.status !== 'cleared')) return state;
  return { ...state, duplicateOf };
}

/** Settles a call that repeats a refused one with the earlier outcome, whatever policy says now. */
export function refusedAgain(call: ProposedCall, judgement: Judgement, outcome: Outcome): CallState {
  return { status: 'settled', call, judgement, outcome };
}

/** Applies a decision that settles the request: the last approval needed, a rejection, or an answer. */
export function decided(
  state: Asking,
  made: Vote & { readonly decision: Exclude<SignedDecision, { kind: 'withdraw' | 'extend' }> },
): CallState {
  const { decision } = made;
  const { votes: further = [], ...asked } = state;
  if (decision.kind === 'approve')
    return { ...asked, status: 'approved', made: { ...made, ...(further.length === 0 ? {} : { further }) } };
  const by = decision.approver.id;
  return decision.kind === 'reject'
    ? settled(state, { kind: 'rejected', by, reason: decision.reason }, made)
    : // It travels with the outcome; once is enough.
      settled(
        state,
        { kind: 'answered', by, answer: decision.answer },
        { ...made, decision: { ...decision, answer: '' } },
      );
}

/** Records the approvals so far, after one was given or withdrawn, while others are still needed. */
export function voted(state: Asking, votes: readonly Vote[]): Asking {
  const { votes: _, ...asked } = state;
  return { ...asked, ...(votes.length === 0 ? {} : { votes }) };
}

/** Sends a cleared or approved call, and counts the attempt. */
export function sent(state: Sendable): InFlight {
  const consent = state.status === 'approved' ? { request: state.request, made: state.made } : {};
  return { status: 'in-flight', ...resolvedOf(state), attempts: state.attempts + 1, ...consent };
}

/**
 * Returns a call in flight to the state that it was sent from, so that it can be sent again; the attempt stays counted.
 * @param unsure set if the attempt may have run, and the operator declares the call repeatable
 */
export function notSent(state: InFlight, unsure?: Unsure): Sendable {
  const { request, made } = state;
  const resolved = { ...resolvedOf(state), ...defined({ unsure }) };
  if (request !== undefined && made !== undefined) return { status: 'approved', ...resolved, request, made };
  return { status: 'cleared', ...resolved };
}

/**
 * Prepares a call for a request to people. The time spent held back is dropped, since the wait starts anew after an
 * answer.
 */
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
    ...defined({ duplicateOf, unsure, edit, asked, retry, holds, input, authorized }),
  };
}

// An open request states its approvers, and how its deadline became what it is.

/** A request that waits for people. Times are epoch ms. */
export interface OpenRequest {
  readonly generation: number;
  readonly approvers: ApproverRule;
  readonly openedAt: number;
  /** The deadline in force, extensions included. */
  readonly deadline: number;
  /** Set if the deadline was postponed: the first deadline, and the extensions, oldest first. */
  readonly extended?: { readonly from: number; readonly by: readonly Extension[] };
  /** Time of the last reminder, escalation or other event that happens by time alone (`domain/request/deadline.ts`). */
  readonly told?: number;
  readonly because?: string;
  /** The subject of the request, if not consent to the call (`domain/request/pause.ts`). */
  readonly about?: Pause;
}

export type Postponement = Extract<SignedDecision, { kind: 'extend' }>;

/** A decision that postpones the deadline. `decidedAt` is epoch ms. */
export interface Extension {
  readonly decision: Postponement;
  readonly decidedAt: number;
}

// A call is settled in one way, whatever ended it.

/**
 * Settles a call. An earlier dispatch that may have run keeps the outcome `unknown` (invariant 3).
 * @param made the decision that ended the call, if another one than that which let the call leave
 * @param ending how an open pause closed; by default `expired` or `cancelled`, by the outcome
 */
export function settled(
  state: Exclude<CallState, { status: 'settled' }>,
  outcome: Outcome,
  made?: MadeDecision,
  ending?: PauseEnding,
): Extract<CallState, { status: 'settled' }> {
  const consented = state.status === 'asking' ? state.consented?.made : undefined;
  const decision = made ?? ('made' in state ? state.made : consented);
  const unsure = 'unsure' in state && !isKnown(outcome) ? state.unsure : undefined;
  const pause = ending ?? endingOf(state, outcome);
  return {
    status: 'settled',
    call: state.call,
    outcome: unsure ?? outcome,
    ...('judgement' in state ? { judgement: state.judgement } : {}),
    ...('request' in state && state.request !== undefined ? { request: state.request } : {}),
    ...defined({ made: decision }),
    ...('duplicateOf' in state && state.duplicateOf !== undefined ? { duplicateOf: state.duplicateOf } : {}),
    ...('edit' in state && state.edit !== undefined ? { edit: state.edit } : {}),
    ...defined({ pause }),
  };
}

/** How an unanswered request for something other than consent closes together with its call. */
function endingOf(state: Exclude<CallState, { status: 'settled' }>, outcome: Outcome): PauseEnding | undefined {
  if (state.status !== 'asking' || state.request.about === undefined) return undefined;
  return { status: outcome.kind === 'expired' ? 'expired' : 'cancelled' };
}

/** True if the call ran, or if a person recorded its outcome. */
function isKnown(outcome: Outcome): boolean {
  return outcome.kind === 'succeeded' || (outcome.kind === 'failed' && outcome.executed);
}

// People give other answers than consent, recorded here with what they read. The dispatch proves each of them again.

/** A person's answer that a call which may have run is sent again. */
export interface Retry {
  readonly resolution: Extract<SignedResolution, { kind: 'retry' }>;
  /** Epoch ms. */
  readonly decidedAt: number;
  readonly request: OpenRequest & { readonly about: Pause };
  /** Hash of the tool's definition as the request showed it. */
  readonly definitionHash: string;
}

/** A person's answer to questions of a server. */
export interface Provided {
  readonly provision: SignedProvision;
  /** Epoch ms. */
  readonly decidedAt: number;
  readonly request: OpenRequest & { readonly about: InputPause };
  /** Hash of the tool's definition as the request showed it. */
  readonly definitionHash: string;
}

/** The place at which a call resumes after its server asked for input, and the answers so far, oldest first. */
export interface InputProgress {
  readonly leg: InputLeg;
  readonly provided: readonly Provided[];
}

/**
 * Questions of a server on the open connection of one dispatch, which waits (`domain/legacy-2025/open-question.ts`).
 */
export interface HeldProgress {
  /** Number of rounds of questions so far. */
  readonly rounds: number;
  /** Total wait for people over all rounds, in ms. */
  readonly waited: number;
  /** How the last round ended. `deadline` is epoch ms. */
  readonly last:
    | { readonly kind: 'answered'; readonly provided: Provided }
    | { readonly kind: 'expired'; readonly deadline: number }
    | { readonly kind: 'cancelled' };
}

/** One of several consents to scopes. */
interface Agreed {
  readonly answer: Extract<SignedAuthorization, { kind: 'consent' }>;
  /** Epoch ms. */
  readonly decidedAt: number;
}

/** A person's answer to what the server required: consent to scopes, or another grant. */
export interface Authorized {
  readonly answer: Extract<SignedAuthorization, { kind: 'consent' | 'grant' }>;
  /** The consents given before this one, if the rule needs several. */
  readonly further?: readonly Agreed[];
  /** Epoch ms. */
  readonly decidedAt: number;
  readonly request: OpenRequest & { readonly about: AuthorizationPause };
  /** Hash of the tool's definition as the request showed it. */
  readonly definitionHash: string;
}
