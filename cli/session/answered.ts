/**
 * Prints what a command answers, and recognises answers that were sent before.
 *
 * 1. With --json, standard output holds only JSON: one document, or one per line for events over time.
 * 2. No control, bidirectional or zero-width character from a model, tool or server reaches a terminal, in either form.
 * 3. An answer whose receipt got lost may be sent again under its id, and is told what was recorded (INV-D3). The
 *    ledger is asked first, because after an answer the call waits for something else, or for nothing.
 * 4. An id stands for one answer. The ledger's record must match the answer given now, or nothing is acknowledged
 *    (INV-G2).
 */
import { isDeepStrictEqual } from 'node:util';
import { CommanderError } from 'commander';
import { troubleOf } from '../../client/engine/engine.ts';
import type { RunHandle } from '../../client/index.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { PauseAck } from '../../contracts/schemas/request.ts';
import { visible } from '../../domain/text/escape.ts';
import type { Paint, Terminal } from './terminal.ts';

export interface Answer {
  readonly json: unknown;
  /** Text for people. Its author has made foreign text visible (`domain/text/escape.ts`). */
  readonly text: (paint: Paint) => string;
}

export function print(terminal: Terminal, answer: Answer, asJson: boolean): void {
  terminal.out(`${asJson ? safeJson(answer.json) : answer.text(terminal.paint)}\n`);
}

/** Escapes invisible characters as JSON does, so that a parser gets exactly the same text. */
export function safeJson(value: unknown): string {
  // In compact JSON, such characters occur only inside strings.
  return escapedInvisible(JSON.stringify(value));
}

/** Escapes a text whose invisible characters stand only in quoted strings; line breaks stay. */
export function escapedInvisible(text: string): string {
  return text.replaceAll(/[^\n\x20-\x7e]/gu, (char) => (visible(char) === char ? char : escaped(char)));
}

function escaped(char: string): string {
  return Array.from(
    { length: char.length },
    (_, index) => `\\u${char.charCodeAt(index).toString(16).padStart(4, '0')}`,
  ).join('');
}

export type AnswerFact = Extract<LedgerFact, { answer: string; decisionId: string }>;

export interface AnsweredBefore {
  readonly ack: PauseAck;
  readonly fact: AnswerFact;
}

/** Returns the recorded answers of this kind to the call, oldest first. */
export async function answeredBefore(
  run: RunHandle,
  callId: string,
  kind: AnswerFact['kind'],
): Promise<readonly AnsweredBefore[]> {
  return (await run.ledger()).flatMap(({ at, fact }) => {
    if (fact.kind !== kind || fact.callId !== callId) return [];
    const { decisionId, answer, approver } = fact;
    return [{ fact, ack: { callId, decisionId, answer, decidedBy: approver.id, decidedAt: at } }];
  });
}

/** Pairs of a value from the ledger and the value given now. */
export type Told = readonly (readonly [told: unknown, said: unknown])[];

/**
 * @throws CountersignError `DECISION_INVALID` if the id was used for another answer; the run itself would say the same
 */
export function assertSame(callId: string, decisionId: string, pairs: Told): void {
  if (pairs.every(([told, said]) => isDeepStrictEqual(told, said))) return;
  throw new CountersignError(
    'DECISION_INVALID',
    `Decision id ${decisionId} was used for another decision; send a new id.`,
    { callId, path: 'decisionId' },
  );
}

/**
 * Sends an answer.
 * @throws the error of `send`; if nobody knows whether the answer counts, the error names the id under which to send it
 *   again
 */
export async function sentUnder<T>(
  { callId, decisionId }: { readonly callId: string; readonly decisionId: string },
  send: () => Promise<T>,
): Promise<T> {
  try {
    return await send();
  } catch (error) {
    if (!(error instanceof CountersignError) || error.code !== 'RESULT_UNCERTAIN') throw error;
    const message = `${error.message} Here: add --decision-id ${decisionId}`;
    throw new CountersignError(error.code, message, { ...error.facts, callId, decisionId }, { cause: error });
  }
}

// Reports the error that ends a command: one line on standard error, and the exit code of the error table.

/** @returns the exit code */
export function reportFailure(terminal: Terminal, thrown: unknown, asJson: boolean): number {
  // Commander has already printed the text of `--help` or `--version`.
  if (thrown instanceof CommanderError && thrown.exitCode === 0) return 0;
  const { code, message, facts, traits } = errorOf(thrown);
  if (asJson) terminal.err(`${safeJson({ error: { code, message, facts } })}\n`);
  else terminal.err(`${terminal.paint('red', `error ${code}`)}: ${lines(message)}\n`);
  return traits.exitCode;
}

function errorOf(thrown: unknown): CountersignError {
  if (thrown instanceof CommanderError) return usageError(thrown);
  return troubleOf(thrown, '');
}

/** Keeps commander's own words, without its prefix. */
function usageError({ code, message }: CommanderError): CountersignError {
  if (code === 'commander.help') return new CountersignError('USAGE', 'A command is missing. See: countersign --help');
  const text = message.replace(/^error: /, '').replaceAll(/\s*\n\s*/g, ' ');
  const sentence = `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
  return new CountersignError('USAGE', `${sentence}${/[.?)]$/.test(sentence) ? '' : '.'} See --help.`);
}

/** Keeps the line breaks of our own messages; every other invisible character becomes visible. */
function lines(message: string): string {
  return message.split('\n').map(visible).join('\n');
}
