/**
 * Answers to requests whose receipt got lost: the same id, sent again, is told what was taken of it (INV-D3).
 *
 * 1. The ledger is asked first: after an answer a call waits for something else, or for nothing.
 * 2. An id stands for one answer: what the ledger tells of it must be what is said now, or nothing is acknowledged (INV-G2).
 */
import { isDeepStrictEqual } from 'node:util';
import type { RunHandle } from '../client/index.ts';
import { CountersignError } from '../contracts/errors.ts';
import type { LedgerFact } from '../contracts/schemas/ledger.ts';
import type { PauseAck } from '../contracts/schemas/pause.ts';

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
