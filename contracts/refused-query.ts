/**
 * A query that meets a run between two workflow tasks is refused by the run's worker (docs/adr/0044), and asked again.
 *
 * The refusal is no fault. This file owns how a refusal is recognised, and how often a query is repeated. Clocks are
 * the caller's.
 */

/** Every refusal begins with this mark; clients look for it, people read the rest. */
const MARK = 'ASK_AGAIN';

/** The text that Temporal hands to the asker, Temporal UI too. */
export const REFUSED_QUERY = `${MARK}: the run was between two workflow tasks. Nothing is wrong: ask again, or reload the page.`;

/** Six attempts within about three seconds; a run that is rebuilt answers the second time. */
const MOST_OFTEN = 6;
const FIRST_PAUSE_MS = 50;

/** True if the error, or one of its causes up to ten deep, is such a refusal. */
export function isRefusedQuery(error: unknown): boolean {
  for (let at: unknown = error, depth = 0; at instanceof Error && depth < 10; at = at.cause, depth += 1)
    if (at.message.includes(`${MARK}: `)) return true;
  return false;
}

/**
 * Repeats a query until it is answered.
 * @param leftMs remaining time in ms; unlimited by default
 * @throws the last error
 */
export async function untilAnswered<T>(
  ask: () => Promise<T>,
  pause: (ms: number) => Promise<unknown>,
  leftMs = () => Number.POSITIVE_INFINITY,
): Promise<T> {
  for (let asked = 1; ; asked += 1) {
    // The pause doubles, with a random factor that spreads askers who were refused together.
    const pauseMs = FIRST_PAUSE_MS * 2 ** (asked - 1) * (0.5 + Math.random());
    try {
      return await ask();
    } catch (error) {
      if (!isRefusedQuery(error) || asked === MOST_OFTEN || pauseMs >= leftMs()) throw error;
    }
    await pause(pauseMs);
  }
}
