/** Waits for a condition, never for a time. */
export async function until<T>(probe: () => Promise<T | undefined>, what: string, withinMs = 30_000): Promise<T> {
  const end = Date.now() + withinMs;
  let last: unknown;
  for (;;) {
    try {
      const answer = await probe();
      if (answer !== undefined) return answer;
    } catch (error) {
      last = error;
    }
    if (Date.now() > end) throw new Error(`${what} did not come about in ${withinMs} ms`, { cause: last });
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}
