/**
 * The life of one call, as a state machine. Every state fixes which fields exist.
 *
 * 1. A settled call never changes again; the first terminal transition wins (INV-G2).
 * 2. A call reaches `in-flight` only from `cleared` (policy allowed it) or `approved` (a person did) (INV-G1).
 */
import type { ShownRequest } from '../contracts/dispatch-proof.ts';
import type { Judgement, Outcome, ProposedCall, TokenEvidence, ToolTarget } from '../contracts/schemas/call.ts';
import type { Approver, SignedDecision } from '../contracts/schemas/decision.ts';
import type { HeldBy } from '../contracts/schemas/held.ts';
import type { SealedState } from '../contracts/schemas/input.ts';
import type { JsonObject } from '../contracts/schemas/json.ts';
import type { Grant } from '../contracts/schemas/run-spec.ts';
import type { OpenRequest } from './open-request.ts';
import type { Agreed, Authorized, HeldProgress, InputProgress, Retry } from './pause-answers.ts';
import { settled } from './settlement.ts';

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
export type PauseEnding =
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
