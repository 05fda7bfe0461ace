/**
 * A query that met a run between two workflow tasks is refused by the run's worker (docs/adr/0044), and is asked again: nothing is wrong.
 *
 * Owns: how such a refusal is known, and how often it is asked again. Does not own: clocks.
 */

/** How every refusal begins; clients look for it, people read the rest. */
const MARK = 'ASK_AGAIN';

/** What Temporal hands to whoever asked, Temporal UI too. */
export const REFUSED_QUERY = `${MARK}: the run was between two workflow tasks. Nothing is wrong: ask again, or reload the page.`;

/** Six times within about three seconds; a run that is rebuilt answers the second time. */
const MOST_OFTEN = 6;
const FIRST_PAUSE_MS = 50;

export function isRefusedQuery(error: unknown): boolean {
  for (let at: unknown = error, depth = 0; at instanceof Error && depth < 10; at = at.cause, depth += 1)
    if (at.message.includes(`${MARK}: `)) return true;
  return false;
}

/** @param leftMs how long there is to ask again; by default as long as it takes. @throws what was thrown last */
export async function untilAnswered<T>(
  ask: () => Promise<T>,
  pause: (ms: number) => Promise<unknown>,
  leftMs = () => Number.POSITIVE_INFINITY,
): Promise<T> {
  for (let asked = 1; ; asked += 1) {
    // Longer each time, and never at one time for all who were refused together.
    const pauseMs = FIRST_PAUSE_MS * 2 ** (asked - 1) * (0.5 + Math.random());
    try {
      return await ask();
    } catch (error) {
      if (!isRefusedQuery(error) || asked === MOST_OFTEN || pauseMs >= leftMs()) throw error;
    }
    await pause(pauseMs);
  }
}
