/**
 * Several decisions on calls of one run, each with an answer of its own: what becomes of one says nothing of another (INV-G3).
 *
 * 1. At most four are under way at once; the time that one may take begins when it is sent.
 */
import { CountersignError } from '../../contracts/errors.ts';
import type { DecisionAck, DecisionInput } from '../../contracts/schemas/answer.ts';

/** In the order of the decisions. */
export type BatchAnswer = { readonly callId: string; readonly decisionId: string } & (
  | { readonly kind: 'accepted'; readonly ack: DecisionAck }
  | { readonly kind: 'refused'; readonly error: CountersignError }
);

/** As many as the client keeps under way of one run (`decide-all.ts`). */
const AT_ONCE = 4;

export async function decideAll(
  inputs: readonly DecisionInput[],
  decide: (input: DecisionInput) => Promise<DecisionAck>,
): Promise<readonly BatchAnswer[]> {
  const answers: BatchAnswer[] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    for (let index = next++; index < inputs.length; index = next++) {
      const input = inputs[index];
      if (input !== undefined) answers[index] = await answerTo(input, decide);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return answers;
}

async function answerTo(
  input: DecisionInput,
  decide: (input: DecisionInput) => Promise<DecisionAck>,
): Promise<BatchAnswer> {
  const { callId, decisionId } = input;
  try {
    return { callId, decisionId, kind: 'accepted', ack: await decide(input) };
  } catch (error) {
    // A fault of ours is no answer.
    if (!(error instanceof CountersignError)) throw error;
    return { callId, decisionId, kind: 'refused', error };
  }
}
