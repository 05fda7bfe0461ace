/**
 * The part that every activity of a run receives beside its own input. Written into history: no secret in clear
 * (INV-S1).
 */
import type { ArtifactRef } from '../schemas/json.ts';
import type { Initiator } from '../schemas/run-spec.ts';

/** Constant for the whole run; small, since every activity receives it. */
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
  readonly grantExpiresAt?: string;
}

/** Priority and fairness of a run's activities in a queue, in Temporal's terms. */
export interface RunPriority {
  readonly priorityKey: number;
  readonly fairnessKey: string;
  readonly fairnessWeight: number;
}

/** A spec as its starter signed it. A dispatch trusts this spec, whatever else its input says. */
export interface SignedSpec {
  /** Canonical JSON of the spec without its signature; its hash was signed. */
  readonly spec: ArtifactRef;
  readonly signature: string;
}

/** Bytes of one result that the model sees. */
export interface ResultRoom {
  readonly resultBytes: number;
  /** Number of calls that share the turn's room, if that makes `resultBytes` less than `limits.resultBytes`. */
  readonly sharedBy?: number;
}
