/**
 * A bounded view of a result that is too large for the model and for history.
 *
 * 1. The parts of the view, as JSON, take at most the given bytes; text is cut between characters.
 * 2. The last part says how much was cut and where the whole is.
 */
import type { ResultPart } from '../../contracts/schemas/call.ts';
import type { ArtifactRef, JsonValue } from '../../contracts/schemas/json.ts';
import { byteLength } from '../../domain/canonical.ts';

export interface Whole {
  readonly content: readonly ResultPart[];
  readonly structured?: JsonValue;
  /** UTF-8 bytes of the JSON of the above. */
  readonly bytes: number;
  /** Absent where it could not be stored. */
  readonly full?: ArtifactRef;
  /** Calls that share the room of their turn: why it is cut so short. */
  readonly sharedBy?: number;
}

export function previewOf(whole: Whole, maxBytes: number): ResultPart[] {
  // Where a server sent a structured result alone, its text is shown in its place.
  const source: readonly ResultPart[] =
    whole.content.length > 0 || whole.structured === undefined
      ? whole.content
      : [{ type: 'text', text: JSON.stringify(whole.structured) }];
  const shown: ResultPart[] = [];
  // One byte more: a list has a bracket at both ends.
  const room = maxBytes - 1 - sizeOf(noteOn(whole, whole.bytes, source.length, source.length));
  let left = room;
  for (const part of source) {
    const fitting = sizeOf(part) <= left ? part : cutToFit(part, left);
    if (fitting === undefined) break;
    shown.push(fitting);
    left -= sizeOf(fitting);
    if (fitting !== part) break;
  }
  return [...shown, noteOn(whole, room - left, shown.length, source.length)];
}

function noteOn({ bytes, full, sharedBy }: Whole, shownBytes: number, shown: number, parts: number): ResultPart {
  const where =
    full === undefined ? 'The whole could not be stored.' : `The whole is artifact ${full.sha256.slice(0, 12)}.`;
  const shared = sharedBy === undefined ? '' : ` ${sharedBy} calls share the room of this turn.`;
  return {
    type: 'text',
    text: `[Cut: ${shownBytes} of ${bytes} bytes of this result are shown, in ${shown} of ${parts} part(s).${shared} ${where}]`,
  };
}

function cutToFit(part: ResultPart, maxBytes: number): ResultPart | undefined {
  if (part.type === 'text') {
    const text = longestPrefix(part.text, maxBytes, (prefix) => sizeOf({ ...part, text: prefix }) <= maxBytes);
    return text === '' ? undefined : { ...part, text };
  }
  if (part.type !== 'resource' || part.text === undefined) return undefined;
  const text = longestPrefix(part.text, maxBytes, (prefix) => sizeOf({ ...part, text: prefix }) <= maxBytes);
  return text === '' ? undefined : { ...part, text };
}

/** By halving: escaping and UTF-8 make the size of a prefix no plain function of its length. */
function longestPrefix(text: string, maxBytes: number, fits: (prefix: string) => boolean): string {
  let low = 0;
  // A character takes at least one byte.
  let high = Math.min(text.length, Math.max(0, maxBytes));
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (fits(text.slice(0, middle))) low = middle;
    else high = middle - 1;
  }
  const half = /[\ud800-\udbff]$/.test(text.slice(0, low));
  return text.slice(0, half ? low - 1 : low);
}

/** With the comma or bracket that joins it to the next. */
function sizeOf(part: ResultPart): number {
  return byteLength(JSON.stringify(part)) + 1;
}
