/**
 * Several decisions on calls of one run, each with an answer of its own: what becomes of one says nothing of another (INV-G3).
 *
 * 1. A few are under way at once (`decide-all.ts`); the time that one may take begins when it is sent.
 */
import { CountersignError } from '../../contracts/errors.ts';
import type { DecisionAck, DecisionInput } from '../../contracts/schemas/answer.ts';

/** In the order of the decisions. */
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
    // A fault of ours is no answer.
    if (!(error instanceof CountersignError)) throw error;
    return { callId, decisionId, kind: 'refused', error };
  }
}

/**
 * Updates of one run, a few at a time: Temporal takes ten under way from all senders together (`history.maxInFlightUpdates`), and
 * lets what is more wait so long that it looks lost.
 */
const MOST_UNDER_WAY = 4;

interface Lane {
  underWay: number;
  readonly waiting: (() => void)[];
}

export class Lanes {
  readonly #lanes = new Map<string, Lane>();

  async run<T>(runId: string, act: () => Promise<T>): Promise<T> {
    const lane = this.#lanes.get(runId) ?? { underWay: 0, waiting: [] };
    this.#lanes.set(runId, lane);
    if (lane.underWay < MOST_UNDER_WAY) lane.underWay += 1;
    else await new Promise<void>((resolve) => void lane.waiting.push(resolve));
    try {
      return await act();
    } finally {
      const next = lane.waiting.shift();
      // Whoever waits longest takes the place over.
      if (next === undefined) lane.underWay -= 1;
      else next();
      if (lane.underWay === 0) this.#lanes.delete(runId);
    }
  }
}
