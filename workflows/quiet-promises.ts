/**
 * Takes from Temporal's SDK a stack trace for each promise of a run: it is more than a quarter of what a replay costs
 * (docs/adr/0061). Errors keep theirs, so a failed task still names its line.
 *
 * 1. The SDK asks for the stack of a promise by `new Error()` without a message, as soon as the promise is made, and
 *    accepts that there is none. No other code in the sandbox makes an error without a message.
 * 2. Those stacks serve Temporal's query `__stack_trace` alone. `worker.stackTraces` keeps them.
 */

/** Set by `workers/bundle.ts` before this module is loaded. */
const KEPT = 'countersignStackTraces';

/** @param sandbox the global object of a thread's runs, before the SDK freezes what it holds */
export function quietPromises(sandbox: { Error: ErrorConstructor }): void {
  if (Reflect.get(sandbox, KEPT) === true) return;
  const Plain = sandbox.Error;
  const Quiet: ErrorConstructor = new Proxy(Plain, {
    construct(target, given, made) {
      if (given.length === 0 && made === Quiet) return noStack;
      // Sound: a construction gives an object.
      return Reflect.construct(target, given, made) as object;
    },
  });
  Plain.prototype.constructor = Quiet;
  sandbox.Error = Quiet;
}

/** Stands in for the error whose stack the SDK asks for. */
const noStack = Object.freeze({ stack: undefined });

quietPromises(globalThis);
