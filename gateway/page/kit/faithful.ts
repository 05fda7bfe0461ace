/**
 * Shows foreign text and values in a page as they are: nothing hides, nothing moves its neighbours.
 *
 * 1. What a browser would not show, or would combine, stands as its code point.
 * 2. Right-to-left letters are isolated (UAX #9): they cannot reorder the numbers beside them, and a mark says that
 *    they are there.
 * 3. A long text or list folds. What follows stays in sight, and the fold says how much is in it.
 * 4. What is shown has a few bytes for each of the data: a text with very many marks ends as JSON writes it, and values
 *    too many for a tree stand as JSON.
 */
import type { JsonObject, JsonValue } from '../../../contracts/schemas/json.ts';
import { RIGHT_TO_LEFT } from '../../../domain/text/escape.ts';
import { type Html, markup, plainText, type Shown } from './markup.ts';

/** Characters of a text that stand outside of its fold. */
const SHOWN_CHARACTERS = 400;
/** The same where not all values can be shown as a tree. */
const SHOWN_OF_MANY = 100;
/** Characters of a name that is not shown whole. */
const NAME_BEGINNING = 150;
const NAME_END = 50;
/** Members of a list or object that stand outside of its fold. */
const SHOWN_MEMBERS = 40;
/** Levels of nesting that are shown as a tree; what is deeper is shown as JSON. */
const MOST_LEVELS = 12;
/** Values that are shown as a tree; of what has more, each value has its share of them. */
const MOST_VALUES = 2_000;
/** Characters of one text that stand as code points; runs of right-to-left letters may be this many times as many. */
const MOST_MARKS = 500;
const RUNS_FOR_A_MARK = 8;
/** The same for each text of a value that has more than this many in all. */
const FEW_MARKS = 5;

/** JSON with line breaks may be this many times as long as without. */
const MOST_SPACED = 8;

interface Room {
  /** Values below it; all of them are shown if it is infinite. */
  readonly values: number;
  readonly marks: number;
}

// The same characters as in `domain/text/escape.ts`, but for the line break and the tab, which a page shows.
const INVISIBLE = String.raw`(?![\n\t])[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Zs}`;
// Marks that combine with any letter, such as a stroke through a digit, and marks that their script would not put
// there.
const MARK = String.raw`\p{Me}|(?=\p{M})\p{Script=Inherited}|(?<=^|[\0-\x7f]|\p{M}{3})\p{M}`;
const HIDDEN = `${INVISIBLE}|${MARK}`;
const LETTER = RIGHT_TO_LEFT.source;
/** A hidden character, or letters that are read from right to left, with the spaces between them. */
const APART = new RegExp(`${HIDDEN}|((?:(?!${HIDDEN})${LETTER})+(?: +(?:(?!${HIDDEN})${LETTER})+)*)`, 'gu');
const ONE_LETTER = new RegExp(LETTER, 'u');
const WORD = /[\p{L}\p{N}]+/gu;

/** True if a word has Latin letters and letters that look like them. */
function isMixed(text: string): boolean {
  for (const [word] of text.matchAll(WORD))
    if (/\p{Script=Latin}/u.test(word) && /[\p{Script=Cyrillic}\p{Script=Greek}]/u.test(word)) return true;
  return false;
}

/** A text of somebody else inside a line of ours. */
export function foreign(text: string): Html {
  return markup`<bdi dir="ltr">${letters(text, MOST_MARKS)}</bdi>`;
}

export function foreignList(names: readonly string[]): Shown {
  return names.map((name, index) => [index > 0 && ', ', foreign(name)]);
}

/** A text of somebody else as a block, with its line breaks. */
export function foreignBlock(text: string): Html {
  return markup`<div class="text" dir="ltr">${folded(text, MOST_MARKS)}${marks(text)}</div>`;
}

/**
 * Writes hidden characters as code points. Each run of right-to-left letters is isolated: beside it, a number would
 * move to its other side (UAX #9, rule N1), and the order of an amount and its words would not be the order in the
 * data.
 * @param most characters that stand as code points; what follows them stands as JSON writes it
 */
function letters(text: string, most: number): Shown {
  const shown: Shown[] = [];
  let end = 0;
  let room = most * RUNS_FOR_A_MARK;
  for (const { 0: found, 1: rightToLeft, index } of text.matchAll(APART)) {
    room -= rightToLeft === undefined ? RUNS_FOR_A_MARK : 1;
    if (room < 0) {
      const rest = asciiJson(text.slice(end)).slice(1, -1);
      return [...shown, markup`<span class="mark">from here as in JSON</span>`, rest];
    }
    shown.push(text.slice(end, index));
    shown.push(
      rightToLeft !== undefined
        ? markup`<bdi>${found}</bdi>`
        : markup`<span class="hidden-char">${codePoint(found)}</span>`,
    );
    end = index + found.length;
  }
  return [...shown, text.slice(end)];
}

function codePoint(char: string): string {
  // Sound: a match of a Unicode regular expression is never empty.
  const point = char.codePointAt(0) as number;
  return `U+${point.toString(16).toUpperCase().padStart(4, '0')}`;
}

function folded(text: string, most: number, shown = SHOWN_CHARACTERS): Html {
  const points = [...text];
  if (points.length <= shown + shown / 4) return markup`${letters(text, most)}`;
  const rest = points.slice(shown);
  const fold = markup`<details class="fold"><summary>${count(rest.length)} more characters</summary>${letters(rest.join(''), most)}</details>`;
  return markup`${letters(points.slice(0, shown).join(''), most)}${fold}`;
}

function foldedIn({ values, marks: most }: Room, text: string): Html {
  return folded(text, most, values === Number.POSITIVE_INFINITY ? SHOWN_CHARACTERS : SHOWN_OF_MANY);
}

/** Says what a reader of the text should know about its letters. */
function marks(text: string): Shown {
  return [
    ONE_LETTER.test(text) && markup` <span class="mark">right-to-left letters</span>`,
    isMixed(text) && markup` <span class="mark">letters of several alphabets in one word</span>`,
    /^ | $/.test(text) && markup` <span class="mark">begins or ends with a space</span>`,
  ];
}

export function tree(values: JsonObject): Html {
  return members(values, 0, roomFor(values));
}

export function shownValue(value: JsonValue): Html {
  return valueOf(value, 0, roomFor(value));
}

function roomFor(value: JsonValue): Room {
  return { values: MOST_VALUES, marks: marksIn(value, MOST_MARKS) > MOST_MARKS ? FEW_MARKS : MOST_MARKS };
}

/** Counts what stands apart in the texts and names of a value, as far as `most` and a little beyond. */
function marksIn(value: JsonValue, most: number): number {
  let found = 0;
  if (typeof value === 'string')
    // Not in JSON, which has escapes for some of it.
    for (const { 1: rightToLeft } of value.matchAll(APART)) {
      found += rightToLeft === undefined ? 1 : 1 / RUNS_FOR_A_MARK;
      if (found > most) break;
    }
  else if (typeof value === 'object' && value !== null)
    for (const [name, each] of Object.entries(value)) {
      found += marksIn(name, most - found);
      if (found <= most) found += marksIn(each, most - found);
      if (found > most) break;
    }
  return found;
}

/** Shows the same as JSON text in ASCII: each character that is not stands as an escape (RFC 8259 §7). */
export function rawJson(value: JsonValue): Html {
  return markup`<pre class="raw" tabindex="0" dir="ltr">${plainText(asciiJson(value))}</pre>`;
}

/** Values with more characters, as JSON, do not stand in a page a second time. */
export const MOST_TWICE = 65_536;

/**
 * Folds the JSON of values that the page shows already, if they are small enough to stand there twice.
 * @param otherwise says where the JSON of larger ones is
 */
export function alsoAsJson(values: JsonObject, otherwise: Shown): Html {
  if (JSON.stringify(values).length > MOST_TWICE) return markup`<p class="note">${otherwise}</p>`;
  return foldedJson('As JSON', values);
}

/** @param value comes from JSON */
export function foldedJson(called: string, value: object): Html {
  // Sound: what comes from JSON is a value of it.
  const json = rawJson(value as JsonValue);
  return markup`<details class="fold"><summary>${called}</summary>${json}</details>`;
}

/** A name that may be long, with its beginning and its end. */
export function foreignName(name: string): Html {
  const points = [...name];
  if (points.length <= NAME_BEGINNING + NAME_END) return foreign(name);
  const [first, last] = [points.slice(0, NAME_BEGINNING), points.slice(-NAME_END)].map((each) =>
    foreign(each.join('')),
  );
  return markup`${first} … ${last} <span class="note">${count(points.length)} characters</span>`;
}

export function asciiJson(value: JsonValue): string {
  const short = JSON.stringify(value);
  const spaced = JSON.stringify(value, undefined, 2);
  // What is nested very deep is mostly spaces.
  return (spaced.length > MOST_SPACED * short.length ? short : spaced).replaceAll(/[^\n -~]/gu, (char) =>
    [...Array(char.length).keys()].map((at) => `\\u${char.charCodeAt(at).toString(16).padStart(4, '0')}`).join(''),
  );
}

/** True if a browser shows every character of the text, and in the order of the text. */
export function isPlain(text: string): boolean {
  return text.search(APART) < 0;
}

function members(values: JsonObject, level: number, room: Room): Html {
  const entries = Object.entries(values);
  if (entries.length === 0) return markup`<span class="empty-value">no members</span>`;
  const list = (some: readonly [string, JsonValue][], each: Room): Html =>
    markup`<dl class="tree">
      ${some.map(([name, value]) => markup`<div class="member"> <dt>${nameOf(name, each)}</dt> <dd>${valueOf(value, level + 1, each)}</dd></div>`)}
    </dl>`;
  return cut(entries, shareOf(values, room), list, (rest) => Object.fromEntries(rest));
}

export function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !isList(value);
}

function nameOf(name: string, room: Room): Html {
  return name === ''
    ? markup`<span class="empty-value">no name</span>`
    : markup`<div dir="ltr">${foldedIn(room, name)}${marks(name)}</div>`;
}

function items(values: readonly JsonValue[], level: number, room: Room): Html {
  if (values.length === 0) return markup`<span class="empty-value">empty list</span>`;
  const list = (some: readonly JsonValue[], each: Room, from: number): Html =>
    markup`<ol class="items" start="${from}">
      ${some.map((value) => markup`<li>${valueOf(value, level + 1, each)}</li>`)}
    </ol>`;
  return cut(values, shareOf(values, room), list, (rest) => rest);
}

/** The room of each member that is shown: without end if all of them fit. */
function shareOf(value: JsonObject | readonly JsonValue[], { values, marks: most }: Room): Room {
  const isSmall = valuesIn(value, values) <= values;
  const shown = Math.min(SHOWN_MEMBERS, Object.keys(value).length);
  return { values: isSmall ? Number.POSITIVE_INFINITY : Math.floor(values / shown), marks: most };
}

function valuesIn(value: JsonValue, most: number): number {
  if (most === Number.POSITIVE_INFINITY || typeof value !== 'object' || value === null) return 0;
  let found = 0;
  for (const each of Object.values(value)) {
    found += 1 + valuesIn(each, most - found);
    if (found > most) break;
  }
  return found;
}

/** Folds what is beyond the first members; the fold stands right behind them and counts the others. */
function cut<T>(
  all: readonly T[],
  each: Room,
  list: (some: readonly T[], each: Room, from: number) => Html,
  whole: (some: readonly T[]) => JsonValue,
): Html {
  if (all.length <= SHOWN_MEMBERS) return list(all, each, 0);
  const rest = all.slice(SHOWN_MEMBERS);
  const fits = each.values === Number.POSITIVE_INFINITY;
  return markup`${list(all.slice(0, SHOWN_MEMBERS), each, 0)}
    <details class="fold">
      <summary>${count(rest.length)} more${!fits && ', as JSON'}</summary>
      ${fits ? list(rest, each, SHOWN_MEMBERS) : rawJson(whole(rest))}
    </details>`;
}

function valueOf(value: JsonValue, level: number, room: Room): Html {
  if (typeof value === 'string')
    return value === ''
      ? markup`<span class="empty-value">empty text</span>`
      : markup`<div class="value text-value" dir="ltr">${foldedIn(room, value)}${marks(value)}</div>`;
  if (typeof value !== 'object' || value === null)
    return markup`<span class="value ${typeof value === 'number' ? 'number-value' : 'word-value'}">${JSON.stringify(value)}</span>`;
  if (level > MOST_LEVELS) return rawJson(value);
  if (room.values < SHOWN_MEMBERS && valuesIn(value, room.values) > room.values)
    return markup`<details class="fold"><summary>${count(Object.keys(value).length)} ${isList(value) ? 'items' : 'members'}, as JSON</summary>${rawJson(value)}</details>`;
  return isList(value) ? items(value, level, room) : members(value, level, room);
}

/** `Array.isArray` does not know lists that are read only. */
export function isList(value: JsonValue | undefined): value is readonly JsonValue[] {
  return Array.isArray(value);
}

function count(number: number): string {
  return number.toLocaleString('en');
}
