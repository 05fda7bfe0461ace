/**
 * What this code may do otherwise than a run that waits has recorded, though the command is the same: each with its decision.
 *
 * Owns: the exact values of before and now. Does not own: other commands, or another order, which need a patch
 * (`workflows/versions.ts`). What is not listed here is a difference.
 */
import { isFields } from '../domain/field-checks.ts';
import type { Deed } from './replay-deeds.ts';

interface WantedChange {
  readonly what: Deed['what'];
  readonly part: string;
  /** What was recorded, or as it would be recorded now where the change is wanted. */
  adopt(before: unknown, now: unknown): unknown;
  /** Why it harms no run that waits. */
  readonly decision: string;
}

const WANTED: readonly WantedChange[] = [
  {
    what: 'activity callTool',
    part: 'startToCloseMs',
    adopt: (before, now) => (typeof now === 'number' && before === now - 60_000 ? now : before),
    decision: 'docs/adr/0019',
  },
  {
    what: 'activity storeSegment',
    part: 'maximumAttempts',
    adopt: (before, now) => (before === 20 && now === 0 ? now : before),
    decision: 'docs/adr/0019',
  },
  {
    // Of a run that a newer worker prepared, while an older one still decided what it did next.
    what: 'activity callTool',
    part: 'input',
    adopt: (before, now) => (isResumable(now) && !isResumable(before) ? withResumable(before) : before),
    decision: 'docs/adr/0039',
  },
];

/** The recorded parts as a run would have recorded them with what was wanted since. */
export function withWantedChanges(recorded: Deed, planned: Deed): Deed['parts'] {
  const parts = { ...recorded.parts };
  for (const { what, part, adopt } of WANTED)
    if (recorded.what === what) parts[part] = adopt(parts[part], planned.parts[part]);
  return parts;
}

function isResumable(input: unknown): boolean {
  const [dispatch] = listOf(input);
  return isFields(dispatch) && dispatch['resumable'] === true;
}

function listOf(input: unknown): readonly unknown[] {
  return Array.isArray(input) ? input : [];
}

/** A worker that is not told so leaves no place where the answer comes: such a call is asked about as before. */
function withResumable(input: unknown): unknown {
  const [dispatch, ...rest] = listOf(input);
  return isFields(dispatch) && dispatch['resumable'] === undefined
    ? [{ ...dispatch, resumable: true }, ...rest]
    : input;
}
