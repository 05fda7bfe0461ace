/**
 * What goes beside a value that a worker of the zone writes for a workflow in trust mode `signed` (docs/adr/0047): names in payload
 * metadata, and the header in which a workflow says where an answer belongs.
 */
import { defaultPayloadConverter, type Payload, RawValue } from '@temporalio/common';

/** Canonical JSON of `ZoneClaims`: what the value is. */
export const CLAIMS_FIELD = 'countersign-claims';
/** HMAC-SHA256 over claims, encoding and data. */
export const MAC_FIELD = 'countersign-mac';
/** Id of the key of `MAC_FIELD`. */
export const KEY_FIELD = 'countersign-key';
/** In memory only, set by a worker's codec: the claims, where the MAC holds. */
export const PROVEN_FIELD = 'countersign-proven';
/** In memory only: the MAC is of a key that this worker does not have. */
export const UNKNOWN_KEY_FIELD = 'countersign-unknown-key';

/** Header of an activity: `Place` as JSON. */
export const PLACE_HEADER = 'countersign-place';

/**
 * Where an answer belongs. All three are the same in each replay, and no two activities have them in common: what a reset undoes and
 * does again it does at another time.
 */
export interface Place {
  /** `originalExecutionRunId`, which a reset leaves as it is and continue-as-new does not. */
  readonly chain: string;
  /** The number of the activity in its execution. */
  readonly place: number;
  /** Epoch ms of the workflow task that scheduled it. */
  readonly at: number;
}

/** Of what an activity answers, or fails with. */
export interface AnswerClaims extends Place {
  readonly kind: 'result' | 'failure';
  /** Its type. */
  readonly activity: string;
  readonly namespace: string;
  readonly workflowId: string;
  /** Digest of its arguments. */
  readonly input: string;
}

/** Of what an execution hands to the next one. */
export interface CarryClaims {
  readonly kind: 'carry';
  /** Type of the workflow that goes on. */
  readonly workflow: string;
  readonly namespace: string;
  readonly workflowId: string;
  /** The Temporal run that wrote it. */
  readonly runId: string;
  /** Digest of the arguments beside it. */
  readonly input: string;
}

export type ZoneClaims = AnswerClaims | CarryClaims;

/** What a failure says by the detail that is proven; its other fields are text. */
export interface ProvenFailure {
  readonly type?: string;
  readonly message: string;
  /** The first detail. */
  readonly facts?: unknown;
}

// Claims and marks as bytes in payload metadata (docs/adr/0047), for the sandbox, which has no codec of its own. All of it is ASCII.

/** The value as ever, with what it is. The codec of the worker makes the MAC. @param claims as `claimsText` writes them */
export function claimedValue(value: unknown, claims: string): RawValue {
  const payload = defaultPayloadConverter.toPayload(value);
  const bytes = Uint8Array.from(claims, (character) => character.charCodeAt(0));
  return RawValue.fromPayload({ ...payload, metadata: { ...payload.metadata, [CLAIMS_FIELD]: bytes } });
}

export function fieldOf(payload: Payload | null | undefined, name: string): string | undefined {
  const value = payload?.metadata?.[name];
  return value === undefined || value === null ? undefined : String.fromCharCode(...value);
}
