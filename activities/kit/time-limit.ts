/**
 * Limits the time of synchronous work on foreign input: schemas, patterns, long texts.
 *
 * 1. It ends any running code, regular expressions included: a worker has one thread, and code that holds it holds
 *    every run.
 * 2. The task must leave nothing half done: it may be ended between any two steps.
 */
import { setTimeout } from 'node:timers/promises';
import { createContext, Script } from 'node:vm';
import { CountersignError, nodeCodeOf } from '../../contracts/errors.ts';

const idle = (): void => {};

/**
 * V8 ends all code under this script when the time is up. It is made once: a call through it costs well under a
 * millisecond.
 */
const limited = new Script('task()');
const context = createContext({ task: idle });

/** @throws OutOfTime, or what the task throws. */
export function within<Value>(ms: number, task: () => Value): Value {
  let value: { readonly of: Value } | undefined;
  context['task'] = () => {
    value = { of: task() };
  };
  try {
    limited.runInContext(context, { timeout: ms });
  } catch (error) {
    throw nodeCodeOf(error) === 'ERR_SCRIPT_EXECUTION_TIMEOUT' ? new OutOfTime(ms) : error;
  } finally {
    context['task'] = idle;
  }
  // Never reached: the script has returned, so the task has too.
  if (value === undefined) throw new OutOfTime(ms);
  return value.of;
}

export class OutOfTime extends Error {
  override readonly name = 'OutOfTime';
  constructor(ms: number) {
    super(`not done within ${ms} ms`);
  }
}

// Reads again what a busy engine or store refused, a few times, with growing and jittered pauses. It stops if the error
// is final. It does not serve models: only Temporal asks those again.

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
