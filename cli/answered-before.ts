/**
 * Answers to requests whose receipt got lost: the same id, sent again, is told what was taken of it (INV-D3).
 *
 * 1. The ledger is asked first: after an answer a call waits for something else, or for nothing.
 */
import type { RunHandle } from '../client/index.ts';
import { CountersignError } from '../contracts/errors.ts';
import type { LedgerFact } from '../contracts/schemas/ledger.ts';
import type { PauseAck } from '../contracts/schemas/pause.ts';

type AnswerKind = Extract<LedgerFact, { answer: string; decisionId: string }>['kind'];

/** What the run has recorded of answers of this kind to the call, oldest first. */
export async function answeredBefore(run: RunHandle, callId: string, kind: AnswerKind): Promise<readonly PauseAck[]> {
  return (await run.ledger()).flatMap(({ at, fact }) => {
    if (fact.kind !== kind || fact.callId !== callId) return [];
    const { decisionId, answer, approver } = fact;
    return [{ callId, decisionId, answer, decidedBy: approver.id, decidedAt: at }];
  });
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
