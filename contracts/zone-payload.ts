/** Claims and marks as bytes in payload metadata (docs/adr/0047), for the sandbox, which has no codec of its own. */
import { defaultPayloadConverter, type Payload, RawValue } from '@temporalio/common';
import { decode, encode } from '@temporalio/common/lib/encoding.js';
import { CLAIMS_FIELD } from './zone.ts';

/** The value as ever, with what it is. The codec of the worker makes the MAC. @param claims as `claimsText` writes them */
export function claimedValue(value: unknown, claims: string): RawValue {
  const payload = defaultPayloadConverter.toPayload(value);
  return RawValue.fromPayload({ ...payload, metadata: { ...payload.metadata, [CLAIMS_FIELD]: encode(claims) } });
}

export function fieldOf(payload: Payload | null | undefined, name: string): string | undefined {
  const value = payload?.metadata?.[name];
  return value === undefined || value === null ? undefined : decode(value);
}
