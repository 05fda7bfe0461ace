/**
 * Sends several decisions on calls of one run; each gets an answer of its own (INV-G3).
 *
 * 1. A few decisions are in flight at once (`Lanes`). The deadline of one begins when it is sent.
 */
import { CountersignError } from '../../contracts/errors.ts';
import type { DecisionAck, DecisionInput } from '../../contracts/schemas/answer.ts';
import { Lanes } from '../engine/engine.ts';

/** Answers stand in the order of the decisions. */
export type BatchAnswer = { readonly callId: string; readonly decisionId: string } & (
  | { readonly kind: 'accepted'; readonly ack: DecisionAck }
  | { readonly kind: 'refused'; readonly error: CountersignError }
);

export async function decideAll(
  inputs: readonly DecisionInput[],
  decide: (input: DecisionInput) => Promise<DecisionAck>,
): Promise<readonly BatchAnswer[]> {
  const lanes = new Lanes();
  return await Promise.all(
    inputs.map(async (input) => await lanes.run('all', async () => await answerTo(input, decide))),
  );
}

async function answerTo(
  input: DecisionInput,
  decide: (input: DecisionInput) => Promise<DecisionAck>,
): Promise<BatchAnswer> {
  const { callId, decisionId } = input;
  try {
    return { callId, decisionId, kind: 'accepted', ack: await decide(input) };
  } catch (error) {
    // Any other error is a fault of the client, not an answer.
    if (!(error instanceof CountersignError)) throw error;
    return { callId, decisionId, kind: 'refused', error };
  }
}
