/**
 * What a dispatch of one call is given, and what it answers. It is written into history: no secret stands here in clear (INV-S1).
 */
import type { PauseKind } from '../schemas/answer.ts';
import type { Outcome, TokenEvidence, ToolTarget } from '../schemas/call.ts';
import type { InputRequests, SealedState } from '../schemas/input.ts';
import type { JsonObject } from '../schemas/json.ts';
import type { ApproverRule, Policy } from '../schemas/policy.ts';
import type { Grant, Limits } from '../schemas/run-spec.ts';
import type { Tally } from '../schemas/run-state.ts';
import type { HeldBy } from '../schemas/throttled.ts';
import type { ServerBinding, ToolAnnotations } from '../schemas/tool.ts';
import type { BegunTask, HeldTold } from './legacy-2025.ts';
import type { ResultRoom, RunIdentity, SignedSpec, ToolsetRef } from './identity.ts';
import type {
  AuthorizationNeed,
  AuthorizationProof,
  DispatchProof,
  InputLeg,
  ProvisionProof,
  RetryProof,
} from './proofs.ts';

export interface DispatchInput {
  readonly run: RunIdentity;
  /** Temporal run that scheduled this; one that a reset revived is refused. */
  readonly runId: string;
  /** Temporal runs of the chain in which a decision may have been made. */
  readonly decidedIn: readonly string[];
  readonly callId: string;
  readonly name: string;
  readonly target: ToolTarget;
  readonly arguments: JsonObject;
  readonly proof: DispatchProof;
  /** Where an earlier attempt may have run, and a person said that it is sent again. */
  readonly retry?: RetryProof;
  /** What people said where the server wanted another authorization. */
  readonly authorizations?: readonly AuthorizationProof[];
  readonly toolset: readonly ToolsetRef[];
  readonly runPolicy?: Policy;
  /** As the judge saw it. */
  readonly earlier?: Tally;
  readonly server: ServerBinding;
  readonly grant?: Grant;
  readonly limits: ResultRoom & Pick<Limits, 'callTimeoutSeconds'>;
  /** From 1; a further attempt is made only where nothing was sent, or the tool may be repeated by the operator's word. */
  readonly attempt: number;
  /** The same for every attempt of this call; what its server is told is made anew of run and call. */
  readonly idempotencyKey: string;
  readonly signedSpec?: SignedSpec;
  /** Of a read: the message whose result links to the resource. To be looked at, not believed. */
  readonly link?: { readonly at: number };
  /** Where the run knows how to wait for input; absent: the server is told that it may not ask. */
  readonly input?: DispatchedInput;
  /** Where the run knows what to do with what a lost worker leaves; absent: it leaves nothing. */
  readonly resumable?: true;
  /** The run can wait for a task. */
  readonly tasks?: true;
  /** The run puts what the server asks on the open connection before people, for so long in all. Absent: the server may not ask. */
  readonly hold?: { readonly seconds: number };
}

/** A dispatch whose worker is lost, once more: nothing is sent for it, only its server is asked for the answer. */
export interface ResumeInput extends DispatchInput {
  /** What the lost worker left, where the answer comes. */
  readonly resume: SealedState;
}

/** What a request shows of a definition, and its hash. */
export interface ShownDefinition {
  readonly hash: string;
  readonly description?: string | undefined;
  readonly annotations?: ToolAnnotations | undefined;
}

export type DispatchResult =
  /** The call ended. */
  | {
      readonly kind: 'ended';
      readonly outcome: Outcome;
      readonly token?: TokenEvidence;
      /** Where nothing has run for want of an authorization that people can give. */
      readonly authorization?: AuthorizationNeed;
      /** Where it is not known whether it ran: when it left, bytes of an answer that came in part, the server's last progress. */
      readonly sent?: { readonly at: string; readonly bytes?: number; readonly progress?: number };
      /** Where it is not known because this worker went: where another one can ask for the answer. */
      readonly resume?: SealedState;
      /** What its server was told to what it asked on the open connection, in that order. Absent: it asked nothing, or nobody knows. */
      readonly held?: readonly HeldTold[];
    }
  /** Proven not sent; may be sent again after the delay. */
  | {
      readonly kind: 'not-sent';
      readonly code: string;
      readonly message: string;
      readonly retryAfterMs?: number;
      /** Its server takes no more just now: the call waits for its turn, which is no attempt. */
      readonly held?: { readonly by: HeldBy; readonly atMostSeconds: number };
    }
  /** The proof no longer holds; nothing was sent. The request is opened (again). */
  | {
      readonly kind: 'reopen';
      readonly code: string;
      readonly message: string;
      readonly approvers?: ApproverRule;
      readonly deadlineSeconds?: number;
      /** The tool is another one than was shown: what the fresh decision is about. */
      readonly definition?: ShownDefinition;
      /** What does not hold is an answer about something else than consent: this is asked again. */
      readonly asks?: PauseKind;
    }
  /** The server asks for input before it goes on; some of it nobody has answered. */
  | (InputLeg & { readonly kind: 'input'; readonly requests: InputRequests; readonly token?: TokenEvidence })
  /** It was sent, and the server works on it: nobody holds a connection. */
  | {
      readonly kind: 'task';
      readonly task: BegunTask;
      readonly token?: TokenEvidence;
      readonly held?: readonly HeldTold[];
    }
  /** Refused for good; nothing was sent. */
  | { readonly kind: 'refused'; readonly code: string; readonly message: string };

// Between a run and the activity that lists the tools of one of its servers. Written into history: no secret in clear (INV-S1).

export interface DiscoverInput {
  readonly run: RunIdentity;
  readonly server: ServerBinding;
  readonly grant?: Grant;
  readonly signedSpec?: SignedSpec;
  /** The run knows which resources may be read: the tool for it is offered where the server has them. */
  readonly links?: true;
  /** The run waits for what servers work on as tasks: tools that can only be called so are offered. */
  readonly tasks?: true;
  /** The run can ask for another grant. Absent: every failure ends it. */
  readonly mayAsk?: true;
  /** With a grant that took the place of the run's own: what was said, and the Temporal runs in which it may have been said. */
  readonly authorizations?: readonly AuthorizationProof[];
  readonly decidedIn?: readonly string[];
}

/** No list, for want of a grant that its subject can give. Only for runs that say `mayAsk`. */
export interface TurnedAway {
  readonly server: string;
  readonly authorization: AuthorizationNeed;
}

// What a dispatch is given of the questions that a server asked before, and of people's answers.

interface DispatchedInput {
  /** Oldest first. */
  readonly provided: readonly ProvisionProof[];
  /** What was asked last; each question has its answer. Absent: the call begins. */
  readonly leg?: InputLeg;
}
