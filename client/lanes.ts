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
