/** Waits for a condition, never for a time: polls until there is an answer, and fails with what it waited for. */

/** Thrown by a probe: the condition cannot come about any more. Any other error of a probe is only "not yet". */
export class Hopeless extends Error {}

export async function until<T>(
  probe: () => Promise<T | undefined> | T | undefined,
  {
    what = 'the condition',
    withinMs = 30_000,
    /** What stood in its place, for who reads the failure. */
    instead = (): Promise<unknown> | undefined => undefined,
  } = {},
): Promise<T> {
  const end = Date.now() + withinMs;
  let last: unknown;
  // Ever more slowly: what takes long is not to be slowed down by being asked about.
  for (let pauseMs = 20; ; pauseMs = Math.min(250, pauseMs * 1.4)) {
    try {
      const answer = await probe();
      if (answer !== undefined) return answer;
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
