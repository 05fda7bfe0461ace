/**
 * Shows foreign text and values in a page as they are: nothing hides, nothing moves its neighbours.
 *
 * 1. What a browser would not show, or would combine, stands as its code point.
 * 2. Right-to-left letters are isolated (UAX #9): they cannot reorder the numbers beside them, and a mark says that they
 *    are there.
 * 3. A long text or list folds. What follows stays in sight, and the fold says how much is in it.
 */
import type { JsonObject, JsonValue } from '../../../contracts/schemas/json.ts';
import { RIGHT_TO_LEFT } from '../../../domain/text/escape.ts';
import { type Html, markup, type Shown } from './markup.ts';

/** Characters of a text that stand outside of its fold. */
const SHOWN_CHARACTERS = 400;
/** Members of a list or object that stand outside of its fold. */
const SHOWN_MEMBERS = 40;
/** Levels of nesting that are shown as a tree; what is deeper is shown as JSON. */
const MOST_LEVELS = 12;

// The same characters as in `domain/text/escape.ts`, but for the line break and the tab, which a page shows.
const INVISIBLE = String.raw`(?![\n\t])[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Zs}`;
// Marks that combine with any letter, such as a stroke through a digit, and marks that their script would not put there.
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
  return markup`<bdi dir="ltr">${letters(text)}</bdi>`;
}

/** A text of somebody else as a block, with its line breaks. */
export function foreignBlock(text: string): Html {
  return markup`<div class="text" dir="ltr">${folded(text)}${marks(text)}</div>`;
}

/**
 * Writes hidden characters as code points. Each run of right-to-left letters is isolated: beside it, a number would move
 * to its other side (UAX #9, rule N1), and the order of an amount and its words would not be the order in the data.
 */
function letters(text: string): Shown {
  const shown: Shown[] = [];
  let end = 0;
  for (const { 0: found, 1: rightToLeft, index } of text.matchAll(APART)) {
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

function folded(text: string): Html {
  const points = [...text];
  if (points.length <= SHOWN_CHARACTERS + SHOWN_CHARACTERS / 4) return markup`${letters(text)}`;
  const rest = points.slice(SHOWN_CHARACTERS);
  const fold = markup`<details class="fold"><summary>${count(rest.length)} more characters</summary>${letters(rest.join(''))}</details>`;
  return markup`${letters(points.slice(0, SHOWN_CHARACTERS).join(''))}${fold}`;
}

/** Says what a reader of the text should know about its letters. */
function marks(text: string): Shown {
  return [
    ONE_LETTER.test(text) && markup` <span class="mark">right-to-left letters</span>`,
    isMixed(text) && markup` <span class="mark">letters of several alphabets in one word</span>`,
    /^ | $/.test(text) && markup` <span class="mark">begins or ends with a space</span>`,
  ];
}

/** Shows a JSON object as a tree. */
export function tree(values: JsonObject): Html {
  return members(values, 0);
}

/** Shows any JSON value. */
export function shownValue(value: JsonValue): Html {
  return valueOf(value, 0);
}

/** Shows the same as JSON text in ASCII: each character that is not stands as an escape (RFC 8259 §7). */
export function rawJson(value: JsonValue): Html {
  return markup`<pre class="raw" tabindex="0" dir="ltr">${asciiJson(value)}</pre>`;
}

export function asciiJson(value: JsonValue): string {
  return JSON.stringify(value, undefined, 2).replaceAll(/[^\n -~]/gu, (char) =>
    [...Array(char.length).keys()].map((at) => `\\u${char.charCodeAt(at).toString(16).padStart(4, '0')}`).join(''),
  );
}

/** True if a browser shows every character of the text, and in the order of the text. */
export function isPlain(text: string): boolean {
  return text.search(APART) < 0;
}

function members(values: JsonObject, level: number): Html {
  const entries = Object.entries(values);
  if (entries.length === 0) return markup`<span class="empty-value">no members</span>`;
  const list = (some: readonly [string, JsonValue][]): Html =>
    markup`<dl class="tree">
      ${some.map(
        ([name, value]) =>
          markup`<div class="member">
            <dt>${nameOf(name)}</dt>
            <dd>${valueOf(value, level + 1)}</dd>
          </div>`,
      )}
    </dl>`;
  return cut(entries, (some) => list(some));
}

export function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !isList(value);
}

function nameOf(name: string): Html {
  return name === ''
    ? markup`<span class="empty-value">no name</span>`
    : markup`<div dir="ltr">${folded(name)}${marks(name)}</div>`;
}

function items(values: readonly JsonValue[], level: number): Html {
  if (values.length === 0) return markup`<span class="empty-value">empty list</span>`;
  const list = (some: readonly JsonValue[], from: number): Html =>
    markup`<ol class="items" start="${from}">
      ${some.map((value) => markup`<li>${valueOf(value, level + 1)}</li>`)}
    </ol>`;
  return cut(values, list);
}

/** Folds what is beyond the first members; the fold stands right behind them and counts the others. */
function cut<T>(all: readonly T[], list: (some: readonly T[], from: number) => Html): Html {
  if (all.length <= SHOWN_MEMBERS) return list(all, 0);
  const rest = all.slice(SHOWN_MEMBERS);
  return markup`${list(all.slice(0, SHOWN_MEMBERS), 0)}
    <details class="fold">
      <summary>${count(rest.length)} more</summary>
      ${list(rest, SHOWN_MEMBERS)}
    </details>`;
}

function valueOf(value: JsonValue, level: number): Html {
  if (typeof value === 'string')
    return value === ''
      ? markup`<span class="empty-value">empty text</span>`
      : markup`<div class="value text-value" dir="ltr">${folded(value)}${marks(value)}</div>`;
  if (typeof value !== 'object' || value === null)
    return markup`<span class="value ${typeof value === 'number' ? 'number-value' : 'word-value'}">${JSON.stringify(value)}</span>`;
  if (level > MOST_LEVELS) return rawJson(value);
  return isList(value) ? items(value, level) : members(value, level);
}

/** `Array.isArray` does not know lists that are read only. */
export function isList(value: JsonValue | undefined): value is readonly JsonValue[] {
  return Array.isArray(value);
}

function count(number: number): string {
  return number.toLocaleString('en');
}
