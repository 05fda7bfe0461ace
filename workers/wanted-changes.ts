/**
 * What this code may do otherwise than a run that waits has recorded, though the command is the same: each with its decision.
 *
 * Owns: the exact values of before and now. Does not own: other commands, or another order, which need a patch
 * (`workflows/versions.ts`). What is not listed here is a difference.
 */
import type { Deed } from './replay-deeds.ts';

interface WantedChange {
  readonly what: Deed['what'];
  readonly part: string;
  isWanted(before: unknown, now: unknown): boolean;
  /** Why it harms no run that waits. */
  readonly decision: string;
}

const WANTED: readonly WantedChange[] = [
  {
    what: 'activity callTool',
    part: 'startToCloseMs',
    isWanted: (before, now) => typeof now === 'number' && before === now - 60_000,
    decision: 'docs/adr/0019',
  },
  {
    what: 'activity storeSegment',
    part: 'maximumAttempts',
    isWanted: (before, now) => before === 20 && now === 0,
    decision: 'docs/adr/0019',
  },
];

/** The recorded parts as a run would have recorded them with what was wanted since. */
export function withWantedChanges(recorded: Deed, planned: Deed): Deed['parts'] {
  const parts = { ...recorded.parts };
  for (const { what, part, isWanted } of WANTED) {
    const now = planned.parts[part];
    if (recorded.what === what && isWanted(parts[part], now)) parts[part] = now;
  }
  return parts;
}
