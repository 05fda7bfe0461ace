/**
 * The state that an execution hands to the next at continue-as-new. It is written into history: a build reads what an
 * earlier one wrote. `domain/run/carry.ts` is the codec: free to change in `domain/state` are the statuses of a call,
 * the fields that it renames, and how answers are remembered; other fields are recorded by their names.
 */
import type {
  Approver,
  AuthorizationPause,
  DecisionAck,
  ForgetAck,
  InputPause,
  Pause,
  PauseAck,
  Say,
  SignedAuthorization,
  SignedDecision,
  SignedProvision,
  SignedResolution,
  Stop,
} from '../schemas/request.ts';
import type { HeldBy, Judgement, Outcome, ProposedCall, TokenEvidence, ToolTarget } from '../schemas/call.ts';
import type { SealedState } from '../schemas/input.ts';
import type { ArtifactRef, JsonObject } from '../schemas/json.ts';
import type { ApproverRule } from '../schemas/policy.ts';
import type { InputLeg, ShownRequest } from './proofs.ts';
import type { Grant } from '../schemas/run-spec.ts';
import type { Tally } from '../schemas/run-state.ts';
import type { Usage } from '../schemas/transcript.ts';
import type { LedgerEntry } from '../schemas/ledger.ts';
import type { CarriedMessages } from './notify.ts';
import type { PreparedRun } from './run.ts';
import type { ToolsetRef } from './identity.ts';

/** Raised by a changed shape, or by state that an older build would misread; an unknown version is refused. */
export const CARRY_VERSION = 1;

export interface Carry {
  readonly version: typeof CARRY_VERSION;
  readonly prepared: Omit<PreparedRun, 'opening'>;
  readonly toolset: readonly ToolsetRef[];
  readonly run: CarriedRun;
  readonly journal: JournalHead;
  /** Temporal run ids of earlier executions, see `domain/state/run.ts`. */
  readonly earlier: readonly string[];
  /** Time of the last read of the trust set, epoch ms; only in trust mode `signed`. */
  readonly trustReadAt?: number;
  /** Only of a run that tells people of its requests. */
  readonly messages?: CarriedMessages;
  /** The client of a run that dispatches on return is there until then, epoch ms. */
  readonly presentUntil?: number;
}

/** The ends of both chains: all that the next execution needs to go on. */
export interface JournalHead {
  readonly ledgerLength: number;
  readonly ledgerHead: string;
  readonly transcriptLength: number;
  readonly transcriptDigest: string;
  readonly segment?: ArtifactRef;
  /** Entries recorded while the segment was being stored; the run need not wait for a moment without new entries. */
  readonly since?: readonly LedgerEntry[];
}

export interface CarriedRun {
  /** Epoch ms of the first execution's start. */
  readonly startedAt: number;
  readonly turn: number;
  readonly calls: readonly CarriedCall[];
  readonly totalCalls: number;
  readonly usage: Usage;
  /** Cost so far in millionths of the currency; absent if the model has no price. */
  readonly spent?: number;
  readonly repairs: number;
  /** The newest answers of people, oldest first. */
  readonly answered: readonly Remembered[];
  /** Grants that replaced the run's own, at most one per server. */
  readonly grants?: readonly Authorized[];
  /** Requests whose deadline passed, kept so that a late decision learns why it is refused. */
  readonly expired: readonly { readonly callId: string; readonly deadline: string }[];
  readonly queue: readonly Say[];
  readonly heard: readonly string[];
  /** Hashes of the heard messages, in the order of `heard`. */
  readonly heardHashes: readonly string[];
  readonly stop?: Stop;
  /** Refusals with which repeated calls are answered. */
  readonly refusals: readonly RefusedCall[];
  /** Outcomes of the closed turns, counted only if some policy rule reads them. */
  readonly tally?: Tally;
  /** Resources that results have linked to, newest last; absent if the model may read none. */
  readonly links?: readonly Link[];
  /** Standing decisions: approvals that also answer later calls. */
  readonly standing?: readonly Standing[];
  readonly forgotten?: readonly ForgetAck[];
}

/** An accepted answer of any kind, remembered so that a resent answer gets the same acknowledgement (INV-D3). */
export type Remembered = Answered | AnsweredPause;

export interface Answered {
  readonly ack: DecisionAck;
  readonly message: string;
}

export interface AnsweredPause {
  readonly ack: PauseAck;
  readonly content: string;
}

/** A standing decision. `deadline` and `decidedAt` are epoch ms. */
export interface Standing {
  /** Id of the decision that settled the request. */
  readonly id: string;
  readonly callId: string;
  readonly target: ToolTarget;
  readonly generation: number;
  readonly arguments: JsonObject;
  readonly approvers: ApproverRule;
  readonly deadline: number;
  readonly decidedAt: number;
  /** The approvals, without their comments. */
  readonly decisions: readonly SignedDecision[];
  /** Paths in `arguments` that lists and summaries leave out, as policy said when the call was judged. */
  readonly redact?: readonly string[];
  readonly connection?: string;
  readonly grant?: string;
}

export interface Link {
  readonly server: string;
  readonly uri: string;
  /** Index of the transcript message that holds the result. */
  readonly at: number;
}

/** How a call was refused, and the outcome that its repeats get. */
export interface RefusedCall {
  /** Hash of server, tool and canonical arguments. */
  readonly key: string;
  readonly outcome: Extract<Outcome, { kind: 'rejected' | 'denied' }>;
}

/** A call as it is recorded: six statuses, of which some stand for several states. */
export type CarriedCall =
  | Proposed
  | Settled
  | (Resolved & { readonly status: 'cleared'; readonly held?: Wait })
  | (Resolved & { readonly status: 'approved'; readonly held?: Wait } & Consent)
  | (Resolved & {
      readonly status: 'asking';
      readonly request: OpenRequest;
      readonly votes?: readonly Vote[];
      readonly consented?: Consent;
      readonly agreed?: readonly Agreed[];
      readonly heldOpen?: Pick<QuestionProgress, 'rounds' | 'waited'>;
      readonly grant?: Grant;
    })
  | (Resolved & {
      readonly status: 'in-flight';
      readonly request?: OpenRequest;
      readonly made?: MadeDecision;
      readonly task?: ServerTask;
      readonly heldInput?: QuestionProgress;
      readonly grant?: Grant;
    });

export interface MadeDecision {
  readonly decision: SignedDecision;
  readonly decidedAt: number;
  /** The approvals given before this one, if the rule needs several. */
  readonly further?: readonly Vote[];
  /** Id of the standing decision, if the decision was made on an earlier call (`domain/request/standing.ts`). */
  readonly standing?: string;
}

export type Vote = Omit<MadeDecision, 'further' | 'standing'>;

/** The request and the decision that let an asked call leave. */
export interface Consent {
  readonly request: OpenRequest;
  readonly made: MadeDecision;
}

/** How a request closed that asked for something other than consent. */
export type PauseEnding =
  | { readonly status: 'resolved'; readonly by: Approver; readonly at: number }
  | { readonly status: 'expired' | 'cancelled' };

export type Unsure = Extract<Outcome, { kind: 'unknown' }>;

/** A person's change of the model's arguments, made by one of the decisions that let the call run. */
export interface Edit {
  readonly by: string;
  /** Epoch ms. */
  readonly at: number;
  readonly decisionId: string;
  /** The model's arguments, before the first of possibly several edits. */
  readonly proposed: JsonObject;
  /** The request as the editor read it; the decision echoes its digest. `arguments`: absent if that was `proposed`. */
  readonly shown: Pick<ShownRequest, 'generation' | 'approvers'> & Partial<Pick<ShownRequest, 'arguments'>>;
}

/** The judgement of a call that policy allows or asks about; its tool is known. */
export type ResolvedJudgement = Judgement & { readonly target: ToolTarget };

export interface Resolved extends Pick<Proposed, 'call'> {
  readonly judgement: ResolvedJudgement;
  readonly attempts: number;
  /** Call id of the first call of the turn with the same tool and arguments. */
  readonly duplicateOf?: string;
  /** Set if an earlier dispatch may have run. No later outcome may then claim that the call did not run. */
  readonly unsure?: Unsure;
  /** The run sends the call again by itself after an attempt that may have run, and nobody was asked since. */
  readonly again?: true;
  readonly edit?: Edit;
  /** Generation of the newest request, if that request asked for something other than consent. */
  readonly asked?: number;
  readonly retry?: Retry;
  readonly input?: InputProgress;
  /** Answers to authorization requests, oldest first. */
  readonly authorized?: readonly Authorized[];
  /**
   * Dispatches that are no attempts: held back by limits of the server, or made before people were last asked. `since`
   * (epoch ms) and `by` say since when and by what the call is held back, anew once people let it run.
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

/** The model proposed the call; policy has not judged it yet. */
export interface Proposed {
  readonly status: 'proposed';
  readonly call: ProposedCall;
}

export interface Settled extends Pick<Proposed, 'call'> {
  readonly status: 'settled';
  readonly outcome: Outcome;
  readonly judgement?: Judgement;
  /** The newest request, and the decision that let the call leave or ended it. */
  readonly request?: OpenRequest;
  readonly made?: MadeDecision;
  readonly duplicateOf?: string;
  readonly edit?: Edit;
  readonly pause?: PauseEnding;
}

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

export type PauseRequest<About extends Pause = Pause> = OpenRequest & { readonly about: About };

export type Postponement = Extract<SignedDecision, { kind: 'extend' }>;

/** A decision that postpones the deadline. `decidedAt` is epoch ms. */
export interface Extension {
  readonly decision: Postponement;
  readonly decidedAt: number;
}

// People give other answers than consent, recorded here with what they read. The dispatch proves each of them again.

export interface Asked<About extends Pause = Pause> {
  /** Epoch ms. */
  readonly decidedAt: number;
  readonly request: PauseRequest<About>;
  /** Hash of the tool's definition as the request showed it. */
  readonly definitionHash: string;
}

/** A person's answer that a call which may have run is sent again. */
export interface Retry extends Asked {
  readonly resolution: Extract<SignedResolution, { kind: 'retry' }>;
}

export interface Provided extends Asked<InputPause> {
  readonly provision: SignedProvision;
}

/** The place at which a call resumes after its server asked for input, and the answers so far, oldest first. */
export interface InputProgress {
  readonly leg: InputLeg;
  readonly provided: readonly Provided[];
}

/** Questions of a server on the open connection of one dispatch, which waits. */
export interface QuestionProgress {
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

export interface Agreed {
  readonly answer: Extract<SignedAuthorization, { kind: 'consent' }>;
  /** Epoch ms. */
  readonly decidedAt: number;
}

/** A person's answer to what the server required: consent to scopes, or another grant. */
export interface Authorized extends Asked<AuthorizationPause> {
  readonly answer: Extract<SignedAuthorization, { kind: 'consent' | 'grant' }>;
  /** The consents given before this one, if the rule needs several. */
  readonly further?: readonly Agreed[];
}
