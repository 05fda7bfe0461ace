/**
 * What a command prints.
 *
 * 1. With --json, standard output holds JSON only: one document, or one per line where things happen over time.
 * 2. No control, bidirectional or zero-width character of a model, tool or server reaches a terminal, in either form.
 */
import { visible } from '../domain/escape.ts';
import type { Paint, Terminal } from './terminal.ts';

export interface Answer {
  readonly json: unknown;
  /** For people. Whoever writes it has made foreign text visible (`domain/escape.ts`). */
  readonly text: (paint: Paint) => string;
}

export function print(terminal: Terminal, answer: Answer, asJson: boolean): void {
  terminal.out(`${asJson ? safeJson(answer.json) : answer.text(terminal.paint)}\n`);
}

/** Escaped the way JSON does it, so that a parser gets the very same text. */
export function safeJson(value: unknown): string {
  // Compact JSON has such characters in its strings only.
  return escapedInvisible(JSON.stringify(value));
}

/** Of a text that has invisible characters in quoted strings only; line breaks stay. */
export function escapedInvisible(text: string): string {
  return text.replaceAll(/[^\n\x20-\x7e]/gu, (char) => (visible(char) === char ? char : escaped(char)));
}

function escaped(char: string): string {
  return Array.from(
    { length: char.length },
    (_, index) => `\\u${char.charCodeAt(index).toString(16).padStart(4, '0')}`,
  ).join('');
}
