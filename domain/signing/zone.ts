/**
 * Claims of a zone say, as bytes, what a value is; a workflow compares them with what it waits for (docs/adr/0047).
 *
 * 1. Claims are compared as canonical JSON: equal claims have one text, and no field escapes the comparison.
 */
import type { ZoneClaims } from '../../contracts/zone.ts';
import { isFields } from '../shapes/inputs.ts';
import { canonicalJson, sha256Hex } from '../text/canonical.ts';

/** Returns ASCII only: the sandbox makes bytes of the text and reads them without a decoder. */
export function claimsText(claims: ZoneClaims): string {
  return canonicalJson(claims).replaceAll(
    /[^\x20-\x7e]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** @param proven the claims of a payload whose MAC holds; undefined if there is none */
export function isProven(proven: string | undefined, expected: ZoneClaims): boolean {
  return proven !== undefined && proven === claimsText(expected);
}

/** Hashes arguments alike for senders and receivers: JSON that was read and is written again is the same text. */
export function digestOfArguments(args: readonly unknown[]): string {
  return sha256Hex(JSON.stringify(args));
}

/** Hashes an input without what a reset changes, so that an answer that was asked for before it counts (INV-D4). */
export function digestOfInput([first, ...others]: readonly unknown[]): string {
  if (!isFields(first)) return digestOfArguments([first, ...others]);
  const { runId: _, decidedIn: __, ...lasting } = first;
  return digestOfArguments([lasting, ...others]);
}
