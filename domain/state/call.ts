/**
 * The life of one call, as a state machine. Every state fixes which fields exist.
 *
 * 1. A settled call never changes again; the first terminal transition wins (INV-G2).
 * 2. A call reaches `in-flight` only from `cleared` (policy allowed it) or `approved` (a person did) (INV-G1).
 */
import type {
  Approver,
  AuthorizationPause,
  InputPause,
  Pause,
  SignedAuthorization,
  SignedDecision,
  SignedProvision,
  SignedResolution,
} from '../../contracts/schemas/answer.ts';
import type { Judgement, Outcome, ProposedCall, TokenEvidence, ToolTarget } from '../../contracts/schemas/call.ts';
import type { SealedState } from '../../contracts/schemas/input.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { ApproverRule } from '../../contracts/schemas/policy.ts';
import type { Grant } from '../../contracts/schemas/run-spec.ts';
import type { HeldBy } from '../../contracts/schemas/throttled.ts';
import type { InputLeg, ShownRequest } from '../../contracts/wire/proofs.ts';

export interface MadeDecision {
  readonly decision: SignedDecision;
  readonly decidedAt: number;
  /** Of those who agreed before, where one was not enough. */
  readonly further?: readonly Vote[];
  /** Set where it was made on an earlier call, and stands (`standing.ts`). */
  readonly standing?: string;
}

/** One of several approvals that a request needs. */
export type Vote = Omit<MadeDecision, 'further' | 'standing'>;

/** What let a call leave that was asked for. */
export interface Consent {
  readonly request: OpenRequest;
  readonly made: MadeDecision;
}

/** How a request about something else than consent was closed. */
type PauseEnding =
  | { readonly status: 'resolved'; readonly by: Approver; readonly at: number }
  | { readonly status: 'expired' | 'cancelled' };

/** What every answer to a request says of which one it is. */
export type Answerable = Pick<SignedDecision, 'decisionId' | 'callId' | 'digest' | 'runId' | 'approver'>;

export type Unsure = Extract<Outcome, { kind: 'unknown' }>;

/** Whose arguments a call has, where they are not the model's. The decision that put them there is among those that let it run. */
export interface Edit {
  readonly by: string;
  /** Epoch ms. */
  readonly at: number;
  readonly decisionId: string;
  /** What the model proposed, however often it was changed since. */
  readonly proposed: JsonObject;
  /** What the editor read, whose digest the decision echoes; without arguments where these were the proposed ones. */
  readonly shown: Pick<ShownRequest, 'generation' | 'approvers'> & Partial<Pick<ShownRequest, 'arguments'>>;
}

/** A call that policy let pass, or lets a person decide: its tool is known. */
export type ResolvedJudgement = Judgement & { readonly target: ToolTarget };

interface Common {
  readonly call: ProposedCall;
}
interface Resolved extends Common {
  readonly judgement: ResolvedJudgement;
  /** Dispatches so far. */
  readonly attempts: number;
  /** The first call of the turn with the same tool and arguments. */
  readonly duplicateOf?: string;
  /** An earlier dispatch may have run: whatever becomes of the call, it cannot be said that it did not. */
  readonly unsure?: Unsure;
  readonly edit?: Edit;
  /** Generation of the newest request, where that was about something else than consent. */
  readonly asked?: number;
  readonly retry?: Retry;
  readonly input?: InputProgress;
  /** In the order in which it was asked about. */
  readonly authorized?: readonly Authorized[];
  /**
   * Dispatches that do not count as attempts: those that its server held back (`held.ts`), and all before people were last asked about
   * it. Since it was last let run: held from when (epoch ms), and by what the last time.
   */
  readonly holds?: { readonly count: number; readonly since?: number; readonly by?: HeldBy };
}

/** What a call that its server holds back waits for. */
export interface Wait {
  /** Times are epoch ms. */
  readonly since: number;
  readonly until: number;
  readonly by: HeldBy;
  readonly message: string;
}

/** A call that its server works on as a task (`server-task.ts`). Times are epoch ms. */
export interface ServerTask {
  readonly sealed: SealedState;
  readonly since: number;
  /** When it is given up. */
  readonly until: number;
  /** When the server is asked next. */
  readonly next: number;
  readonly polls: number;
  /** What the server wants between two questions. */
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
      /** Of a request about something else: the consent with which the call left; none where policy had allowed it. */
      readonly consented?: Consent;
      /** Who has consented to what its server wants, where it takes others, too. */
      readonly agreed?: readonly Agreed[];
      /** Its dispatch is still under way: the server waits on an open connection (`held-input.ts`). */
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
      /** Its server works on it, and nobody holds a connection. */
      readonly task?: ServerTask;
      /** Of this dispatch, where its server has asked on the open connection. */
      readonly heldInput?: HeldProgress;
      /** Given to the run, and what the call was sent with; kept here once another one has taken its place. */
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

/** @param at epoch ms */
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
    // A judge that lets pass what it could not resolve is broken; fail closed (INV-G4).
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

/** Marks a call that is the same as an earlier one of its turn. */
export function duplicate(state: CallState, duplicateOf: string | undefined): CallState {
  if (duplicateOf === undefined || (state.status !== 'asking' && state.status !== 'cleared')) return state;
  return { ...state, duplicateOf };
}

/** Whatever policy says of it now: the same call was refused before. */
export function refusedAgain(call: ProposedCall, judgement: Judgement, outcome: Outcome): CallState {
  return { status: 'settled', call, judgement, outcome };
}

/** Enough have agreed, or one has rejected or answered. */
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

/** One has agreed, or taken it back, and others are still needed. */
export function voted(state: Asking, votes: readonly Vote[]): Asking {
  const { votes: _, ...asked } = state;
  return { ...asked, ...(votes.length === 0 ? {} : { votes }) };
}

export function sent(state: Sendable): InFlight {
  const consent = state.status === 'approved' ? { request: state.request, made: state.made } : {};
  return { status: 'in-flight', ...resolvedOf(state), attempts: state.attempts + 1, ...consent };
}

/**
 * To be sent again: back to where it came from, the attempt counted.
 * @param unsure where the attempt may have run, and the call may be repeated all the same
 */
export function notSent(state: InFlight, unsure?: Unsure): Sendable {
  const { request, made } = state;
  const resolved = { ...resolvedOf(state), ...(unsure === undefined ? {} : { unsure }) };
  if (request !== undefined && made !== undefined) return { status: 'approved', ...resolved, request, made };
  return { status: 'cleared', ...resolved };
}

/** As it is asked: how long it waited for its server before says nothing of what is let run then. */
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
    ...(duplicateOf === undefined ? {} : { duplicateOf }),
    ...(unsure === undefined ? {} : { unsure }),
    ...(edit === undefined ? {} : { edit }),
    ...(asked === undefined ? {} : { asked }),
    ...(retry === undefined ? {} : { retry }),
    ...(holds === undefined ? {} : { holds }),
    ...(input === undefined ? {} : { input }),
    ...(authorized === undefined ? {} : { authorized }),
  };
}

// A request to people that is open, and how its deadline came to be what it is.

/** Times are epoch ms. */
export interface OpenRequest {
  readonly generation: number;
  readonly approvers: ApproverRule;
  readonly openedAt: number;
  /** As it is now, postponed or not. */
  readonly deadline: number;
  /** Where it was postponed: the first deadline, and by whom, oldest first. */
  readonly extended?: { readonly from: number; readonly by: readonly Extension[] };
  /** Of what happens by time alone (`deadline.ts`), the time of the last thing that people were told. */
  readonly told?: number;
  readonly because?: string;
  /** What is asked, where it is not consent to the call (`pause.ts`). */
  readonly about?: Pause;
}

export type Postponement = Extract<SignedDecision, { kind: 'extend' }>;

/** `decidedAt` epoch ms. */
export interface Extension {
  readonly decision: Postponement;
  readonly decidedAt: number;
}

// How a call is closed.
//
// 1. A call that may have run is `unknown`, whatever becomes of it later, until it is known (INV-X2).

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
    ...(decision === undefined ? {} : { made: decision }),
    ...('duplicateOf' in state && state.duplicateOf !== undefined ? { duplicateOf: state.duplicateOf } : {}),
    ...('edit' in state && state.edit !== undefined ? { edit: state.edit } : {}),
    ...(pause === undefined ? {} : { pause }),
  };
}

/** Of a request about something else than consent that nobody has answered. */
function endingOf(state: Exclude<CallState, { status: 'settled' }>, outcome: Outcome): PauseEnding | undefined {
  if (state.status !== 'asking' || state.request.about === undefined) return undefined;
  return { status: outcome.kind === 'expired' ? 'expired' : 'cancelled' };
}

/** It ran, or a person has said what became of it. */
function isKnown(outcome: Outcome): boolean {
  return outcome.kind === 'succeeded' || (outcome.kind === 'failed' && outcome.executed);
}

// What people said of a call besides consent, each with what they read: proven again where the call leaves.

/** Somebody's word that a call which may have run is sent again, and what they read. */
export interface Retry {
  readonly resolution: Extract<SignedResolution, { kind: 'retry' }>;
  /** Epoch ms. */
  readonly decidedAt: number;
  readonly request: OpenRequest & { readonly about: Pause };
  /** The tool as it was shown then. */
  readonly definitionHash: string;
}

/** Somebody's answer to what a server asked, and what they read. */
export interface Provided {
  readonly provision: SignedProvision;
  /** Epoch ms. */
  readonly decidedAt: number;
  readonly request: OpenRequest & { readonly about: InputPause };
  /** The tool as it was shown then. */
  readonly definitionHash: string;
}

/** Of a call whose server has asked for something: where it is taken up again, and what was answered, oldest first. */
export interface InputProgress {
  readonly leg: InputLeg;
  readonly provided: readonly Provided[];
}

/** What a server asked on the open connection of one dispatch, which waits for it (`held-input.ts`). */
export interface HeldProgress {
  /** Times that it asked. */
  readonly rounds: number;
  /** Ms that people were waited for, all in all. */
  readonly waited: number;
  /** What became of the last question. `deadline` epoch ms. */
  readonly last:
    | { readonly kind: 'answered'; readonly provided: Provided }
    | { readonly kind: 'expired'; readonly deadline: number }
    | { readonly kind: 'cancelled' };
}

/** Somebody's consent, where it takes others, too. */
interface Agreed {
  readonly answer: Extract<SignedAuthorization, { kind: 'consent' }>;
  /** Epoch ms. */
  readonly decidedAt: number;
}

/** Somebody's word on what a server wanted of a call, and what they read. */
export interface Authorized {
  readonly answer: Extract<SignedAuthorization, { kind: 'consent' | 'grant' }>;
  /** Of those who consented before, where one was not enough. */
  readonly further?: readonly Agreed[];
  /** Epoch ms. */
  readonly decidedAt: number;
  readonly request: OpenRequest & { readonly about: AuthorizationPause };
  /** The tool as it was shown then. */
  readonly definitionHash: string;
}
