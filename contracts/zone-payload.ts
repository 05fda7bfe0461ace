/** Claims and marks as bytes in payload metadata (docs/adr/0047), for the sandbox, which has no codec of its own. All of it is ASCII. */
import { defaultPayloadConverter, type Payload, RawValue } from '@temporalio/common';
import { CLAIMS_FIELD } from './zone.ts';

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
