/** Formats times, tables and small pieces of text for people. */
import { bounded, named, spaced, visible } from '../../domain/text/escape.ts';
import { jsonLines } from '../../domain/text/shown-json.ts';
import type { Paint } from '../session/terminal.ts';

const UNITS = [
  ['d', 86_400],
  ['h', 3_600],
  ['min', 60],
  ['s', 1],
] as const;

/** Gives the two largest units, such as `23 h 59 min`. */
export function duration(ms: number): string {
  let rest = Math.max(0, Math.floor(ms / 1_000));
  const parts: string[] = [];
  for (const [unit, size] of UNITS) {
    const many = Math.floor(rest / size);
    rest -= many * size;
    if (many > 0) parts.push(`${many} ${unit}`);
    // Skipping a unit, as in `1 d 5 s`, would look exact and help nobody.
    else if (parts.length > 0) break;
    if (parts.length === 2) break;
  }
  return parts.join(' ') || '0 s';
}

/** @param instant ISO 8601 */
export function timeLeft(instant: string, now: number): string {
  const left = Date.parse(instant) - now;
  return left > 0 ? `${duration(left)} left` : `passed ${duration(-left)} ago`;
}

/** Gives seconds in UTC, like everything on the wire; what is no time is made visible. */
export function shortInstant(instant: string): string {
  return visible(instant.replace('T', ' ').replace(/(?:\.\d+)?Z$/, 'Z'));
}

/** Widest column of labels; a longer label sticks out and moves no other. */
const WIDEST_LABEL = 24;
const WIDEST_CELL = 160;

/** A field without a value is left out. */
export type Field = readonly [label: string, value: string | undefined];

export function given<T>(value: T | undefined, write: (value: T) => string): string | undefined {
  return value === undefined ? undefined : write(value);
}

export function fields(paint: Paint, rows: readonly Field[]): string {
  const shown = rows.filter((row): row is readonly [string, string] => row[1] !== undefined && row[1] !== '');
  const width = Math.min(WIDEST_LABEL, Math.max(...shown.map(([label]) => label.length)));
  // Line breaks are ours: foreign text has none that is not escaped.
  return shown
    .map(
      ([label, value]) =>
        `  ${paint('dim', label.padEnd(width))}  ${value.replaceAll('\n', `\n${' '.repeat(width + 4)}`)}`,
    )
    .join('\n');
}

/** Makes each column as wide as its widest cell, up to a limit; the first row is the head. */
export function table(paint: Paint, rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.min(WIDEST_CELL, Math.max(...rows.map((row) => row[column]?.length ?? 0))),
  );
  return rows
    .map((row, index) => {
      const line = row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd();
      return index === 0 ? paint('dim', line) : line;
    })
    .join('\n');
}

export function said(text: string): string {
  return bounded(visible(text), 200);
}

/** Widest line in which arguments stand whole. */
const WIDEST_ARGUMENTS = 100;
export const SHOWN_STRING = 200;

/** Shows all arguments; only long strings in them are cut, and say so. @param full cuts none */
export function argumentsText(value: object, full: boolean): string {
  const { text, cuts } = jsonLines(value, full ? undefined : SHOWN_STRING, WIDEST_ARGUMENTS);
  return cuts === 0 ? text : `${text} [${count(cuts, 'text')} cut: --full shows all]`;
}

export function short(hash: string): string {
  return `${visible(hash.slice(0, 12))}…`;
}

/** Names a tool; the tool part is the server's own text. */
export function toolText(server: string, tool: string): string {
  return `${named(server)}/${named(tool)}`;
}

/** Names a tool from a memo, where its name was made visible, and may be cut. */
export function memoToolText(server: string, tool: string): string {
  const shown = spaced(tool);
  return `${named(server)}/${/^[^\s"\\,;()]+$/u.test(shown) ? shown : `"${shown.replaceAll('"', '\\"')}"`}`;
}

export function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}

export function shortName(name: string): string {
  return bounded(named(name), 200);
}

export function names(list: readonly string[], most = 20): string {
  const shown = list.slice(0, most).map(shortName).join(', ');
  return list.length > most ? `${shown}, and ${list.length - most} more` : shown;
}
