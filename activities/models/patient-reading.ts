/**
 * Reads again what a busy engine or store refused, a few times, with growing and jittered pauses. It stops if the error
 * is final. It does not serve models: only Temporal asks those again.
 */
import { setTimeout } from 'node:timers/promises';
import { CountersignError } from '../../contracts/errors.ts';

const TRIES = 5;
const FIRST_PAUSE_MS = 100;

/** @param attempt from 1 */
export type Pause = (attempt: number, signal: AbortSignal) => Promise<void>;

/** Pauses with full jitter, so that the steps of a thousand runs do not come back together after an outage. */
export const pauseWithJitter: Pause = async (attempt, signal) => {
  await setTimeout(Math.random() * FIRST_PAUSE_MS * 2 ** attempt, undefined, { signal });
};

/** @param what name of what is read, for the error */
export async function retried<T>(what: string, read: () => Promise<T>, pause: Pause, signal: AbortSignal): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await read();
    } catch (error) {
      if (error instanceof CountersignError && (!error.traits.retryable || attempt === TRIES)) throw error;
      if (attempt === TRIES) {
        throw new CountersignError(
          'ENGINE_UNAVAILABLE',
          `${what} could not be read in ${TRIES} tries. The step is tried again.`,
          {},
          { cause: error },
        );
      }
    }
    await pause(attempt, signal);
  }
}
