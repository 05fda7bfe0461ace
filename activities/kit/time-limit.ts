/**
 * Limits the time of work: of a wait by a signal, and of synchronous work on foreign input (schemas, patterns, long
 * texts) by force.
 *
 * 1. Force ends any running code, regular expressions included: a worker has one thread, and code that holds it holds
 *    every run.
 * 2. The forced task must leave nothing half done: it may be ended between any two steps.
 */
import { createContext, Script } from 'node:vm';
import { nodeCodeOf } from '../../contracts/errors.ts';

const idle = (): void => {};

/**
 * Returns a signal that aborts after this time. Node 20 collects a timeout to which only `AbortSignal.any` refers, and
 * it never fires; a listener keeps it.
 */
export function deadlineIn(ms: number): AbortSignal {
  const signal = AbortSignal.timeout(ms);
  signal.addEventListener('abort', idle);
  return signal;
}

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
