/**
 * A limit of time for synchronous work on what others wrote: schemas, patterns, long texts.
 *
 * 1. It ends whatever runs, regular expressions included: a worker has one thread, and what holds it holds every run.
 * 2. The task must leave nothing half done behind it: it is ended between any two steps.
 */
import { createContext, Script } from 'node:vm';
import { nodeCodeOf } from '../contracts/node-code.ts';

const idle = (): void => {};

/** V8 ends all that runs under this script when the time is up. Made once: a call through it costs well under a millisecond. */
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
  // Never seen: the script has returned, so the task has.
  if (value === undefined) throw new OutOfTime(ms);
  return value.of;
}

export class OutOfTime extends Error {
  override readonly name = 'OutOfTime';
  constructor(ms: number) {
    super(`not done within ${ms} ms`);
  }
}
