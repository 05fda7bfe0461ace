/**
 * The activities a run calls, as interfaces: the sandbox may know their shapes and nothing of their code.
 * Inputs are written into history: no secret stands here in clear (INV-S1).
 */
import type { CatalogDiscovery, DiscoverCatalogInput } from './catalog-activities.ts';
import type { DiscoverInput, TurnedAway } from './discovery.ts';
import type { DispatchInput, DispatchResult, ResumeInput } from './dispatch.ts';
import type { Judgement, ProposedCall } from './schemas/call.ts';
import type { ArtifactRef, JsonObject, JsonValue } from './schemas/json.ts';
import type { PauseKind } from './schemas/pause.ts';
import type { ApproverRule, Policy } from './schemas/policy.ts';
import type { Initiator, Limits, RunSpecInput } from './schemas/run-spec.ts';
import type { Tally } from './schemas/tally.ts';
import type { Discovery, ServerBinding } from './schemas/tool.ts';
import type { AssistantPart, Message, Usage } from './schemas/transcript.ts';
import type { TrustSet } from './schemas/trust.ts';
import type { PollInput, PollResult } from './server-task.ts';

/** What is true of a run from its start to its end; small, and sent with each activity. */
export interface RunIdentity {
  readonly namespace: string;
  readonly workflowId: string;
  readonly initiator: Initiator;
  readonly specHash: string;
}

/** The run's tools: one reference per server, in the order of the spec. */
export interface ToolsetRef {
  readonly server: string;
  readonly tools: ArtifactRef;
  readonly allowedTools?: readonly string[];
  /** When the run's grant for the server ends, where that is known. */
  readonly grantExpiresAt?: string;
}

/** Millionths of the currency for a million tokens. */
export interface ModelPrice {
  readonly input: number;
  readonly output: number;
  readonly currency: string;
}

/** Where a run's activities stand in a queue, as Temporal takes it. */
export interface RunPriority {
  readonly priorityKey: number;
  readonly fairnessKey: string;
  readonly fairnessWeight: number;
}

export interface PreparedRun {
  readonly specHash: string;
  readonly policyVersion: string;
  readonly limits: Limits;
  readonly initiator: Initiator;
  readonly servers: readonly ServerBinding[];
  /** The conversation's first messages: instructions, then input. */
  readonly opening: readonly Message[];
  /** Repeats of what was refused are answered without asking anybody. Absent: prepared by an earlier release, which asks. */
  readonly repeats?: 'answered';
  /** The ledger says where the conversation stood; absent from workers that did not write it. */
  readonly messages?: 'hashed';
  /** Some rule asks what became of earlier calls: the run counts them. */
  readonly tally?: true;
  /** A message id stands for one message. Absent: another message under a known id is taken for the first. */
  readonly messageIds?: 'compared';
  /** A decision id stands for one decision. Absent: of another one under a known id, comment, reason and groups are not compared. */
  readonly decisionIds?: 'compared';
  /** Of the model, where the configuration has one: the run keeps what it began with. */
  readonly price?: ModelPrice;
  /** Absent: prepared by an earlier release, whose activities have none. */
  readonly priority?: RunPriority;
  /** In trust mode `signed`; absent, every message is believed. */
  readonly trust?: TrustSet;
  /** What a person is asked of a call besides consent. Absent: prepared by an earlier release, or by one whose policy asks nobody. */
  readonly pauses?: readonly PauseKind[];
  /** Servers whose linked resources the model may read. Absent: none, or prepared by an earlier release. */
  readonly links?: readonly string[];
  /** With `pauses`: who answers where nobody was asked for consent. */
  readonly answerers?: { readonly approvers: ApproverRule; readonly deadlineSeconds: number };
  /** A list that is turned away for want of a grant waits for another one. Absent: prepared by an earlier release; it ends the run. */
  readonly listings?: 'asked';
  /** The ledger says of a request that the grant will not outlive it; absent from workers that did not write it. */
  readonly grantEnds?: 'recorded';
  /** The run can wait for a server that works on a call as a task. Absent: prepared by an earlier release, whose calls are none. */
  readonly tasks?: true;
  /** With `trust`: what was signed when the run was started. */
  readonly signedSpec?: SignedSpec;
  /** Of a call whose worker is lost, its server is asked for the answer. Absent: prepared by an earlier release, which does not. */
  readonly lostAnswers?: 'resumed';
  /** The run is shown as over once all of it is stored. Absent: prepared by an earlier release, which showed it before. */
  readonly endings?: 'stored';
  /** Of a call whose outcome is not known, only a worker says that it left. Absent: prepared by an earlier release, which took it for sent. */
  readonly sentTimes?: 'told';
  /** A server that is away when its tools are listed is waited for. Absent: prepared by an earlier release, which ends the run after some tries. */
  readonly awayServers?: 'awaited';
  /** A call that is withdrawn after it was handed to Temporal may have run. Absent: prepared by an earlier release, which took it for not made. */
  readonly withdrawals?: 'doubted';
}

/** A spec as its starter signed it: what dispatch believes of a run, whatever else it is told. */
export interface SignedSpec {
  /** Canonical JSON of the spec without its signature, whose hash was signed. */
  readonly spec: ArtifactRef;
  readonly signature: string;
}

export interface JudgeInput {
  readonly run: RunIdentity;
  readonly toolset: readonly ToolsetRef[];
  readonly runPolicy: Policy | undefined;
  readonly calls: readonly ProposedCall[];
  /** Of the turns before. */
  readonly earlier?: Tally;
}

export interface JudgeResult {
  readonly policyVersion: string;
  readonly judgements: readonly Judgement[];
}

/** Where the messages before `tail` are: their number, their chained digest, and the newest stored segment. */
export interface TranscriptBase {
  readonly length: number;
  readonly digest: string;
  readonly segment?: ArtifactRef;
}

export interface ModelStepInput {
  readonly run: RunIdentity;
  /** Temporal run whose `transcript` query has what this worker has not cached. */
  readonly runId: string;
  readonly model: string;
  readonly turn: number;
  readonly base: TranscriptBase;
  readonly tail: readonly Message[];
  readonly toolset: readonly ToolsetRef[];
  readonly runPolicy?: Policy;
  readonly earlier?: Tally;
  /** JSON Schema of the final answer. */
  readonly output?: JsonObject;
}

export interface ModelStepResult {
  /** Call ids are already ours. */
  readonly parts: readonly AssistantPart[];
  /** Calls whose arguments were no JSON object: call id → reason. */
  readonly malformed?: Readonly<Record<string, string>>;
  readonly usage: Usage;
  readonly finish: 'stop' | 'calls' | 'length' | 'refused';
  /**
   * The verdicts on the calls, reached where the step ran (docs/adr/0012). Absent where judging failed after the model had
   * answered: the run then judges in an activity of its own, and the answer is not lost.
   */
  readonly judged?: JudgeResult;
  /** Set where the spec has an output schema and the step ended: the parsed answer, or why it does not fit. */
  readonly output?:
    | { readonly kind: 'valid'; readonly value: JsonValue }
    | { readonly kind: 'invalid'; readonly errors: readonly string[] };
}

/** Half-open: from `from` up to, not including, `to`. */
export interface Stretch {
  readonly from: number;
  readonly to: number;
}

/** What is stored is read by query of the run that asks: it would double every history, and may be more than one input can hold. */
export interface StoreSegmentInput {
  readonly workflowId: string;
  readonly previous?: ArtifactRef;
  readonly transcript: Stretch;
  readonly ledger: Stretch;
}

/** Short and repeatable, on the run's own workers. */
export interface RunActivities {
  /** Validates what a starter sent. Fails with a code and the path. */
  prepareRun(spec: RunSpecInput): Promise<PreparedRun>;
  /** The keys as they are now, for runs of a tenant; undefined in trust mode `temporal`. */
  readTrust(tenant: string): Promise<TrustSet | undefined>;
  judge(input: JudgeInput): Promise<JudgeResult>;
  storeSegment(input: StoreSegmentInput): Promise<ArtifactRef>;
}

export interface ModelActivities {
  modelStep(input: ModelStepInput): Promise<ModelStepResult>;
}

/** Run where the server's credentials are. */
export interface ToolActivities {
  discoverTools(input: DiscoverInput): Promise<Discovery | TurnedAway>;
  callTool(input: DispatchInput): Promise<DispatchResult>;
  /** Sends no call. */
  resumeCall(input: ResumeInput): Promise<DispatchResult>;
  /** Executes nothing, and may be repeated. */
  pollTask(input: PollInput): Promise<PollResult>;
  discoverCatalog(input: DiscoverCatalogInput): Promise<CatalogDiscovery>;
}
