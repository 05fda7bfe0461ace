/** Turns values into plain JSON values, and bounds those of servers. */
import type { JsonValue } from '../../contracts/schemas/json.ts';

/** Returns a copy without the parts that JSON cannot hold, such as undefined fields. */
export function jsonOf(value: unknown): JsonValue {
  // Sound: JSON.parse returns a JSON value.
  return JSON.parse(JSON.stringify(value)) as JsonValue;
}

/**
 * Deepest nesting allowed in a JSON value of a server. Recursive code, such as canonical JSON in a workflow, would
 * overflow the stack on a deeper value, and a run could not go on.
 */
export const MAX_NESTING = 100;

/** Looks no deeper than the limit itself. */
export function nestsTooDeeply(value: unknown, levelsLeft = MAX_NESTING): boolean {
  if (value === null || typeof value !== 'object') return false;
  return levelsLeft === 0 || Object.values(value).some((inner) => nestsTooDeeply(inner, levelsLeft - 1));
}

/**
 * Numbers of a server that JSON can write and this service cannot keep. `1e999` is read as infinity, which has no
 * canonical form (RFC 8785 §3.2.2.3) and so no hash, and is written as null.
 */
export const ENDLESS_NUMBER = 'a number beyond what can be kept (1e999, for instance)';

/** @param value nests no deeper than `MAX_NESTING` */
export function holdsEndlessNumber(value: unknown): boolean {
  if (typeof value === 'number') return !Number.isFinite(value);
  return typeof value === 'object' && value !== null && Object.values(value).some(holdsEndlessNumber);
}

/** Whole numbers that are read as another one: ids of 64 bits, for instance. */
export const ROUNDED_NUMBER =
  'a whole number that would be rounded (beyond 9007199254740992); give it as text where the tool takes that';

/** @param text JSON */
export function roundsNumber(text: string): boolean {
  // No shorter number is rounded.
  if (!/\d{16}/.test(text)) return false;
  for (const token of unquoted(text)) if (/^-?\d{16,}$/.test(token) && String(Number(token)) !== token) return true;
  return false;
}

/**
 * True if nothing of the text is lost in its value. Whoever else reads the text may take another one of several members
 * of the same name, or the number that was rounded.
 * @param text JSON of the value
 */
export function isWholly(text: string, value: JsonValue): boolean {
  let members = 0;
  for (const token of unquoted(text)) if (token === ':') members += 1;
  return members === membersIn(value) && !roundsNumber(text);
}

function membersIn(value: JsonValue): number {
  if (value === null || typeof value !== 'object') return 0;
  const within = Object.values(value).map(membersIn);
  return within.reduce((sum, each) => sum + each, Array.isArray(value) ? 0 : within.length);
}

/** Returns the colons and numbers of a JSON text that stand in no string. */
function* unquoted(text: string): Generator<string> {
  const token = /"|:|-?\d[\d.eE+-]*/g;
  for (let found = token.exec(text); found !== null; found = token.exec(text)) {
    const [mark] = found;
    if (mark !== '"') yield mark;
    else token.lastIndex = endOfString(text, token.lastIndex);
  }
}

/** @param from index after the opening quote */
function endOfString(text: string, from: number): number {
  for (let at = from; at < text.length; at += 1) {
    if (text[at] === '"') return at + 1;
    if (text[at] === '\\') at += 1;
  }
  return text.length;
}

/** Reads an own field only: a server or a tool may be called `constructor`. */
export function ownValue<Value>(record: Readonly<Record<string, Value>>, name: string): Value | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}
