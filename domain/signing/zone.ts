/**
 * What a worker of the zone says that a value is, as bytes, and whether that is what a workflow waits for (docs/adr/0047).
 *
 * Pure. Does not own the MAC over it (`workers/zone.ts`), nor where it stands in a payload (`contracts/zone.ts`).
 * 1. One text for one meaning: claims are compared as canonical JSON, so that no field is left out of the comparison.
 */
import type { ZoneClaims } from '../../contracts/zone.ts';
import { isFields } from '../shapes/fields.ts';
import { canonicalJson, sha256Hex } from '../text/canonical.ts';

/** ASCII: the sandbox makes bytes of it and reads them without a decoder. */
export function claimsText(claims: ZoneClaims): string {
  return canonicalJson(claims).replaceAll(
    /[^\x20-\x7e]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** @param proven the claims of a payload whose MAC holds; undefined where it has none */
export function isProven(proven: string | undefined, expected: ZoneClaims): boolean {
  return proven !== undefined && proven === claimsText(expected);
}

/** The same for those who send arguments and those who receive them: JSON that was read and is written again is the same text. */
export function digestOfArguments(args: readonly unknown[]): string {
  return sha256Hex(JSON.stringify(args));
}

/**
 * Of what an activity is given, without what differs after a reset: an answer to what was scheduled before it still counts (INV-D4).
 * In which Temporal run it was scheduled its worker knows from Temporal.
 */
export function digestOfInput([first, ...others]: readonly unknown[]): string {
  if (!isFields(first)) return digestOfArguments([first, ...others]);
  const { runId: _, decidedIn: __, ...lasting } = first;
  return digestOfArguments([lasting, ...others]);
}
