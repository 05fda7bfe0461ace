/**
 * What a command prints.
 *
 * 1. With --json, standard output holds JSON only: one document, or one per line where things happen over time.
 * 2. No control, bidirectional or zero-width character of a model, tool or server reaches a terminal, in either form.
 */
import { isDeepStrictEqual } from 'node:util';
import type { RunHandle } from '../../client/index.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { PauseAck } from '../../contracts/schemas/answer.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import { visible } from '../../domain/text/escape.ts';
import type { Paint, Terminal } from './terminal.ts';

export interface Answer {
  readonly json: unknown;
  /** For people. Whoever writes it has made foreign text visible (`domain/text/escape.ts`). */
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

// Answers to requests whose receipt got lost: the same id, sent again, is told what was taken of it (INV-D3).
//
// 1. The ledger is asked first: after an answer a call waits for something else, or for nothing.
// 2. An id stands for one answer: what the ledger tells of it must be what is said now, or nothing is acknowledged (INV-G2).

export type AnswerFact = Extract<LedgerFact, { answer: string; decisionId: string }>;

export interface AnsweredBefore {
  readonly ack: PauseAck;
  readonly fact: AnswerFact;
}

/** What the run has recorded of answers of this kind to the call, oldest first. */
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

/** What the ledger tells of an answer, and what is said now in its place. */
export type Told = readonly (readonly [told: unknown, said: unknown])[];

/** @throws CountersignError `DECISION_INVALID` where the id was used for another answer, as the run itself would say */
export function assertSame(callId: string, decisionId: string, pairs: Told): void {
  if (pairs.every(([told, said]) => isDeepStrictEqual(told, said))) return;
  throw new CountersignError(
    'DECISION_INVALID',
    `Decision id ${decisionId} was used for another decision; send a new id.`,
    { callId, path: 'decisionId' },
  );
}

/** @throws what sending threw, with the id to send it again by where nobody knows whether it counts */
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
