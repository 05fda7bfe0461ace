/**
 * A conversation's chained digest: names every message before a point in 32 bytes.
 *
 * 1. Extending costs the new message only, so bytes and work per turn do not grow with the run (INV-D2).
 */
import type { Message } from '../contracts/schemas/transcript.ts';
import { canonicalJson, sha256Hex } from './canonical.ts';

/** Digest of no message. */
export const EMPTY_DIGEST = '0'.repeat(64);

export function extendDigest(digest: string, message: Message): string {
  return sha256Hex(digest + canonicalJson(message));
}
