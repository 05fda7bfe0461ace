/**
 * Polls until a condition holds, and fails with the name of the condition. It never waits for a fixed time.
 */

/** A probe throws this if the condition can no longer come about. Any other error of a probe means "not yet". */
export class Hopeless extends Error {}

/** @param probe says what holds; `undefined` or `false` while nothing does */
export async function until<T>(
  probe: () => Promise<T | undefined | false> | T | undefined | false,
  {
    what = 'the condition',
    withinMs = 30_000,
    /** Returns what stood in place of the condition, for the reader of the failure. */
    instead = (): Promise<unknown> | undefined => undefined,
  } = {},
): Promise<T> {
  const end = Date.now() + withinMs;
  let last: unknown;
  // The pauses grow, so that polling does not slow down what takes long.
  for (let pauseMs = 20; ; pauseMs = Math.min(250, pauseMs * 1.4)) {
    try {
      const answer = await probe();
      if (answer !== undefined && answer !== false) return answer;
    } catch (error) {
      if (error instanceof Hopeless) throw error;
      last = error;
    }
    if (Date.now() > end) {
      const stood = await instead();
      const but = stood === undefined ? '' : `; instead: ${JSON.stringify(stood)}`;
      throw new Error(`${what} did not come about in ${withinMs} ms${but}`, { cause: last });
    }
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}
