/**
 * Inputs and answers of a run's own activities. Written into history: no secret in clear (INV-S1).
 *
 * Optional fields of `PreparedRun` switch on behaviour: absent, configuration or policy has no need for it.
 */
import type { PauseKind } from '../schemas/request.ts';
import type { Judgement, ProposedCall } from '../schemas/call.ts';
import type { Config } from '../schemas/config.ts';
import type { ArtifactRef, JsonObject, JsonValue } from '../schemas/json.ts';
import type { LedgerFact } from '../schemas/ledger.ts';
import type { ApproverRule, Policy } from '../schemas/policy.ts';
import type { Initiator, Limits } from '../schemas/run-spec.ts';
import type { Tally } from '../schemas/run-state.ts';
import type { ServerBinding } from '../schemas/tool.ts';
import type { AssistantPart, Message, Usage } from '../schemas/transcript.ts';
import type { TrustSet } from '../schemas/trust.ts';
import type { RunIdentity, RunPriority, SignedSpec, ToolsetRef } from './identity.ts';
import type { PreparedNotify } from './notify.ts';

/** Prices per million tokens, in millionths of the currency. */
export type ModelPrice = NonNullable<Extract<LedgerFact, { kind: 'run.started' }>['price']>;

/** No further model step begins once one of these is reached. The time is that of one attempt. */
export type StretchBounds = Config['execution']['stretch'];

export interface PreparedRun {
  readonly specHash: string;
  readonly policyVersion: string;
  readonly limits: Limits;
  readonly initiator: Initiator;
  readonly servers: readonly ServerBinding[];
  /** The conversation's first messages: instructions, then input. */
  readonly opening: readonly Message[];
  /** The run counts outcomes of earlier calls, since some policy rule reads them. */
  readonly tally?: true;
  /** Price of the model, if configured; the run keeps the price that it began with. */
  readonly price?: ModelPrice;
  readonly priority: RunPriority;
  /** Set in trust mode `signed`; if absent, every message is believed. */
  readonly trust?: TrustSet;
  /** Requests for something other than consent that the run may open. Absent: policy asks nobody. */
  readonly pauses?: readonly PauseKind[];
  /** Servers whose linked resources the model may read. Absent: none. */
  readonly links?: readonly string[];
  /** With `pauses`: who answers for a call that nobody was asked to approve. */
  readonly answerers?: { readonly approvers: ApproverRule; readonly deadlineSeconds: number };
  /** A list of tools refused for its grant waits for another grant. Absent: the run ends. */
  readonly listings?: 'asked';
  /** The run can wait for a server that works on a call as a task. Absent: no server may. */
  readonly tasks?: true;
  /** With `trust`: the signed spec of the run's start. */
  readonly signedSpec?: SignedSpec;
  /** Bounds of the stretches in which the run goes on (docs/adr/0058). Absent: each step is an activity of its own. */
  readonly stretch?: StretchBounds;
  /** A run that has not continued as new stores nothing at its end (docs/adr/0059). Absent: every run is stored. */
  readonly records?: 'history';
  /** The run tells people of its requests. Absent: policy tells nobody. */
  readonly notify?: PreparedNotify;
}

export interface JudgeInput {
  readonly run: RunIdentity;
  readonly toolset: readonly ToolsetRef[];
  readonly runPolicy: Policy | undefined;
  readonly calls: readonly ProposedCall[];
  /** Outcomes of the closed turns. */
  readonly earlier?: Tally;
}

export interface JudgeResult {
  readonly policyVersion: string;
  readonly judgements: readonly Judgement[];
}

export interface ModelStepInput {
  readonly run: RunIdentity;
  /** Temporal run whose `transcript` query returns what this worker has not cached. */
  readonly runId: string;
  readonly model: string;
  readonly turn: number;
  /** The messages before `tail`, by number and chained digest, with the newest stored segment. */
  readonly base: { readonly length: number; readonly digest: string; readonly segment?: ArtifactRef };
  readonly tail: readonly Message[];
  readonly toolset: readonly ToolsetRef[];
  readonly runPolicy?: Policy;
  readonly earlier?: Tally;
  readonly output?: JsonObject;
}

export interface ModelStepResult {
  readonly parts: readonly AssistantPart[];
  /** Calls whose arguments were not a JSON object: call id → reason. */
  readonly malformed?: Readonly<Record<string, string>>;
  readonly usage: Usage;
  readonly finish: 'stop' | 'calls' | 'length' | 'refused';
  /** Verdicts reached where the step ran (docs/adr/0012). Absent if judging failed: the run then judges by itself. */
  readonly judged?: JudgeResult;
  /** Set if the spec has an output schema and the step ended: the parsed answer, or why it does not fit. */
  readonly output?:
    | { readonly kind: 'valid'; readonly value: JsonValue }
    | { readonly kind: 'invalid'; readonly errors: readonly string[] };
}

/** A half-open range: from `from` up to, not including, `to`. */
export interface Stretch {
  readonly from: number;
  readonly to: number;
}

/** The activity reads the content by query: as an input it would double every history, and might be too large. */
export interface StoreSegmentInput {
  readonly workflowId: string;
  readonly previous?: ArtifactRef;
  readonly transcript: Stretch;
  readonly ledger: Stretch;
}
