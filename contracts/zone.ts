/**
 * In trust mode `signed`, workers of a zone prove what they write for workflows (docs/adr/0047): names of the proofs in
 * payload metadata, and the header that says where an answer belongs.
 */
import { defaultPayloadConverter, type Payload, RawValue } from '@temporalio/common';

/** Canonical JSON of `ZoneClaims`, which says what the value is. */
export const CLAIMS_FIELD = 'countersign-claims';
/** HMAC-SHA256 over claims, encoding and data. */
export const MAC_FIELD = 'countersign-mac';
/** Id of the key of `MAC_FIELD`. */
export const KEY_FIELD = 'countersign-key';
/** In memory only, set by a worker's codec: the claims, if the MAC holds. */
export const PROVEN_FIELD = 'countersign-proven';
/** In memory only: the MAC was made with a key that this worker does not have. */
export const UNKNOWN_KEY_FIELD = 'countersign-unknown-key';

/** Header of an activity: `Place` as JSON. */
export const PLACE_HEADER = 'countersign-place';

/** Where an answer belongs. Replays agree on it, and no two activities do: what a reset undoes has another time. */
export interface Place {
  /** `originalExecutionRunId`, which stays the same after a reset and changes at continue-as-new. */
  readonly chain: string;
  /** Number of the activity in its execution. */
  readonly place: number;
  /** Epoch ms of the workflow task that scheduled it. */
  readonly at: number;
}

export interface AnswerClaims extends Place {
  readonly kind: 'result' | 'failure';
  readonly activity: string;
  readonly namespace: string;
  readonly workflowId: string;
  readonly input: string;
}

export interface CarryClaims {
  readonly kind: 'carry';
  readonly workflow: string;
  readonly namespace: string;
  readonly workflowId: string;
  /** The Temporal run that wrote the carry. */
  readonly runId: string;
  readonly input: string;
}

export type ZoneClaims = AnswerClaims | CarryClaims;

/** The proven detail of a failure; its other fields are unproven text. */
export interface ProvenFailure {
  readonly type?: string;
  readonly message: string;
  readonly facts?: unknown;
}

// The sandbox has no codec of its own, so claims become bytes here. All of them are ASCII.

/** Adds claims to a value's payload; the worker's codec adds the MAC. @param claims as `claimsText` writes them */
export function claimedValue(value: unknown, claims: string): RawValue {
  const payload = defaultPayloadConverter.toPayload(value);
  const bytes = Uint8Array.from(claims, (character) => character.charCodeAt(0));
  return RawValue.fromPayload({ ...payload, metadata: { ...payload.metadata, [CLAIMS_FIELD]: bytes } });
}

/** Bytes; claims name a workflow id, of 1,000 characters at the most. */
const LONGEST_FIELD = 10_000;

/** Reads a field of metadata. One that is longer than any of ours counts as none. */
export function fieldOf(payload: Payload | null | undefined, name: string): string | undefined {
  const value = payload?.metadata?.[name];
  return value === null || value === undefined || value.length > LONGEST_FIELD
    ? undefined
    : String.fromCharCode(...value);
}
