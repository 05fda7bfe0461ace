/** What an activity is told of the run that asks, beside its own question. Written into history: no secret stands here in clear (INV-S1). */
import type { ArtifactRef } from '../schemas/json.ts';
import type { Initiator } from '../schemas/run-spec.ts';

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

/** Where a run's activities stand in a queue, as Temporal takes it. */
export interface RunPriority {
  readonly priorityKey: number;
  readonly fairnessKey: string;
  readonly fairnessWeight: number;
}

/** A spec as its starter signed it: what dispatch believes of a run, whatever else it is told. */
export interface SignedSpec {
  /** Canonical JSON of the spec without its signature, whose hash was signed. */
  readonly spec: ArtifactRef;
  readonly signature: string;
}

/** What the model sees of one call's result. */
export interface ResultRoom {
  readonly resultBytes: number;
  /** Calls of the turn, where it is less than `limits.resultBytes` because they share the turn's room. */
  readonly sharedBy?: number;
}
