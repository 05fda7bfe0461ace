/**
 * Puts a server's question to the run of a dispatch: the question goes by update, the answer is read by query
 * (docs/adr/0040).
 *
 * 1. It addresses one Temporal run id, which Temporal has named. A run that was reset or has continued as new answers
 *    nothing else.
 * 2. One question has one update id, so that it may be sent again if its acknowledgement was lost.
 */
import {
  type Client,
  QueryNotRegisteredError,
  QueryRejectedError,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
} from '@temporalio/client';
import { QUERIES, UPDATES } from '../../../contracts/names.ts';
import type { HeldAck, HeldPlace, HeldQuestions, HeldWord } from '../../../contracts/wire/legacy-2025.ts';

export interface HeldRun {
  /** @throws NotHeld if the run puts the question to nobody; any other error may pass */
  ask(workflowId: string, runId: string, questions: HeldQuestions, signal: AbortSignal): Promise<HeldAck>;
  /** @throws the same errors as `ask` */
  word(workflowId: string, runId: string, place: HeldPlace, signal: AbortSignal): Promise<HeldWord>;
}

/** Nobody is asked, and nobody will be. */
export class NotHeld extends Error {
  override readonly name = 'NotHeld';
}

/** Deadline of one request to Temporal. */
const DEADLINE_MS = 10_000;

export function createHeldRun(client: Pick<Client, 'workflow' | 'connection'>): HeldRun {
  const within = async <T>(signal: AbortSignal, act: () => Promise<T>): Promise<T> => {
    try {
      return await client.connection.withDeadline(
        Date.now() + DEADLINE_MS,
        // Each request has a signal of its own, because the connection never removes its listener from the signal that
        // it is given.
        async () => await client.connection.withAbortSignal(AbortSignal.any([signal]), act),
      );
    } catch (error) {
      if (
        error instanceof WorkflowUpdateFailedError ||
        error instanceof WorkflowNotFoundError ||
        error instanceof QueryNotRegisteredError ||
        error instanceof QueryRejectedError
      )
        throw new NotHeld('the run asks nobody', { cause: error });
      throw error;
    }
  };
  return {
    ask: async (workflowId, runId, questions, signal) => {
      const { callId, attempt, round } = questions;
      return await within(
        signal,
        async () =>
          await client.workflow
            .getHandle(workflowId, runId)
            .executeUpdate<HeldAck, [HeldQuestions]>(UPDATES.inputAsked, {
              args: [questions],
              updateId: `held/${callId}/${attempt}/${round}`,
            }),
      );
    },
    word: async (workflowId, runId, place, signal) =>
      await within(
        signal,
        async () =>
          await client.workflow.getHandle(workflowId, runId).query<HeldWord, [HeldPlace]>(QUERIES.heldInput, place),
      ),
  };
}
