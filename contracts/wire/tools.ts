/** Inputs and results of activities that talk to tool servers. Written into history: no secret in clear (INV-S1). */
import type { PauseKind } from '../schemas/request.ts';
import type { HeldBy, Outcome, ProposedCall, TokenEvidence, ToolTarget } from '../schemas/call.ts';
import type { InputRequests, SealedState } from '../schemas/input.ts';
import type { JsonObject } from '../schemas/json.ts';
import type { ApproverRule, Policy } from '../schemas/policy.ts';
import type { Grant, Limits } from '../schemas/run-spec.ts';
import type { Tally } from '../schemas/run-state.ts';
import type { ServerBinding, ToolDefinition } from '../schemas/tool.ts';
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

export interface DispatchInput extends Readonly<Pick<ProposedCall, 'approvalRequestId' | 'storedAnswerId'>> {
  readonly run: RunIdentity;
  /** Temporal run that scheduled the dispatch; a dispatch revived by a reset is refused. */
  readonly runId: string;
  /** Temporal runs of the chain in which a decision may have been made. */
  readonly decidedIn: readonly string[];
  readonly callId: string;
  readonly name: string;
  readonly target: ToolTarget;
  readonly arguments: JsonObject;
  readonly proof: DispatchProof;
  /** Set if an earlier attempt may have run, and a person answered that the call is sent again. */
  readonly retry?: RetryProof;
  /** An earlier attempt may have run, and nobody was asked since: it leaves only if the tool is repeatable now. */
  readonly mayHaveRun?: true;
  /** People's answers after the server required another authorization. */
  readonly authorizations?: readonly AuthorizationProof[];
  readonly toolset: readonly ToolsetRef[];
  readonly runPolicy?: Policy;
  /** Outcomes of earlier calls, as the judge saw them. */
  readonly earlier?: Tally;
  readonly server: ServerBinding;
  readonly grant?: Grant;
  readonly limits: ResultRoom & Pick<Limits, 'callTimeoutSeconds'>;
  /** From 1. There is another only if nothing was sent, or if the operator calls the tool repeatable. */
  readonly attempt: number;
  /** The same for every attempt of this call; the key that the server sees is derived from run and call. */
  readonly idempotencyKey: string;
  readonly signedSpec?: SignedSpec;
  /** For a read: the message whose result links to the resource. The dispatch checks it. */
  readonly link?: { readonly at: number };
  /** Set if the run can wait for input; if absent, the server is told that it may not ask. */
  readonly input?: {
    /** Oldest first. */
    readonly provided: readonly ProvisionProof[];
    /** The newest questions, each of which has an answer. Absent: the call begins. */
    readonly leg?: InputLeg;
  };
  /** Set if the run can use what a lost worker leaves; if absent, the worker leaves nothing. */
  readonly resumable?: true;
  readonly tasks?: true;
  /** Total time for which the server may wait for people on its open connection. Absent: it may not ask. */
  readonly hold?: { readonly seconds: number };
}

/** Repeats a dispatch whose worker is lost: nothing is sent, only the server is asked for the answer. */
export interface ResumeInput extends DispatchInput {
  /** Sealed place, left by the lost worker, at which the answer can be asked for. */
  readonly resume: SealedState;
}

/** The parts of a definition that a request shows, and the definition's hash. */
export interface ShownDefinition extends Readonly<Pick<ToolDefinition, 'description' | 'annotations'>> {
  readonly hash: string;
}

export type DispatchResult =
  | {
      readonly kind: 'ended';
      readonly outcome: Outcome;
      readonly token?: TokenEvidence;
      /** Set if nothing has run for lack of an authorization that people can give. */
      readonly authorization?: AuthorizationNeed;
      /** Set if the outcome is unknown: the time of sending, bytes of a partial answer, the server's last progress. */
      readonly sent?: { readonly at: string; readonly bytes?: number; readonly progress?: number };
      /** Set if the outcome is unknown and nothing was sent now: the tool is not repeatable any more. */
      readonly notRepeated?: true;
      /** Set if the outcome is unknown because this worker stops: where another one can ask for the answer. */
      readonly resume?: SealedState;
      /** Answers given to questions on the open connection, in order. Absent: no questions, or nobody knows. */
      readonly held?: readonly HeldTold[];
    }
  /** Proven not sent; the call may be sent again after the delay. */
  | {
      readonly kind: 'not-sent';
      readonly code: string;
      readonly message: string;
      readonly retryAfterMs?: number;
      /** Set if the server's limits allow no call now: the call waits for its turn, and this is no attempt. */
      readonly held?: { readonly by: HeldBy; readonly atMostSeconds: number };
    }
  /** The proof no longer holds; nothing was sent. The run asks for the call (again). */
  | {
      readonly kind: 'reopen';
      readonly code: string;
      readonly message: string;
      readonly approvers?: ApproverRule;
      readonly deadlineSeconds?: number;
      /** The current definition, if it differs from the shown one; the fresh decision is about it. */
      readonly definition?: ShownDefinition;
      /** Set if an answer other than consent no longer holds: the run asks for it again. */
      readonly asks?: PauseKind;
    }
  /** The server asks for input before it goes on; some of its questions have no answer yet. */
  | (InputLeg & { readonly kind: 'input'; readonly requests: InputRequests; readonly token?: TokenEvidence })
  /** The call was sent, and the server works on it as a task; no connection is open. */
  | {
      readonly kind: 'task';
      readonly task: BegunTask;
      readonly token?: TokenEvidence;
      readonly held?: readonly HeldTold[];
    }
  | { readonly kind: 'refused'; readonly code: string; readonly message: string };

/** `authorizations` are the answers that gave another grant, `decidedIn` the Temporal runs in which they count. */
export interface DiscoverInput
  extends
    Pick<DispatchInput, 'run' | 'server' | 'grant' | 'signedSpec' | 'authorizations'>,
    Partial<Pick<DispatchInput, 'decidedIn'>> {
  /** Set if the run records links: the tool for reading linked resources is offered, if the server has resources. */
  readonly links?: true;
  /** Set if the run can wait for tasks: tools that require task execution are offered. */
  readonly tasks?: true;
  /** Set if the run can ask for another grant. Absent: every failure ends the run. */
  readonly mayAsk?: true;
}

/** The list was refused for lack of a grant that its subject can give. Only returned to runs that set `mayAsk`. */
export interface TurnedAway {
  readonly server: string;
  readonly authorization: AuthorizationNeed;
}
