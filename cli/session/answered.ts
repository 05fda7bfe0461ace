/**
 * Recognises answers that were sent before.
 *
 * 1. An answer whose receipt got lost may be sent again under its id, and is told what was recorded (INV-D3). The
 *    ledger is asked first, because after an answer the call waits for something else, or for nothing.
 * 2. An id stands for one answer. The ledger's record must match the answer given now, or nothing is acknowledged
 *    (INV-G2).
 */
import { isDeepStrictEqual } from 'node:util';
import type { RunHandle } from '../../client/index.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { PauseAck } from '../../contracts/schemas/request.ts';

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
  const message = `Decision id ${decisionId} was used for another decision; send a new id.`;
  throw new CountersignError('DECISION_INVALID', message, { callId, path: 'decisionId' });
}

/**
 * Sends a message. If nobody knows whether it counts, the error names the options under which it counts once.
 * @param hint such as `--message-id 7c1e…`
 * @param facts are added to those of the error
 */
export async function sentUnder<T>(
  hint: string,
  facts: Readonly<Record<string, string>>,
  send: () => Promise<T>,
): Promise<T> {
  try {
    return await send();
  } catch (error) {
    if (!(error instanceof CountersignError) || error.code !== 'RESULT_UNCERTAIN') throw error;
    const message = `${error.message} Here: add ${hint}`;
    throw new CountersignError(error.code, message, { ...error.facts, ...facts }, { cause: error });
  }
}
