/** A promise of a run costs no stack trace, and an error of a run keeps its own (docs/adr/0061). */
import { createContext, runInContext } from 'node:vm';
import { expect, test } from '@jest/globals';
import { quietPromises } from '../../../workflows/quiet-promises.ts';

/** The errors of a sandbox: what the SDK makes for a promise, and what code makes. */
function stacksIn(before = '') {
  const context = createContext({});
  runInContext(before, context);
  // Sound: the global object of a context has its errors.
  quietPromises(runInContext('globalThis', context) as { Error: ErrorConstructor });
  // Sound: the script says what it gives.
  return runInContext(
    `class Coded extends Error {}
     const placed = (make) => { try { return make(); } catch (error) { return error; } };
     const at = (error) => /^ +at /m.test(error.stack ?? '');
     ({
       ofPromise: new (Function('return globalThis.Error')())().stack,
       made: at(new Error('made')),
       called: at(Error('called')),
       coded: at(new Coded()),
       engine: at(placed(() => null.field)),
       isError: [new Error('one'), new Coded(), placed(() => null.field)].every((error) => error instanceof Error),
       isItsOwn: new Error('one').constructor === Error,
     })`,
    context,
  ) as Record<string, unknown>;
}

const PLACED = { made: true, called: true, coded: true, engine: true, isError: true, isItsOwn: true };

test('an error keeps its place, and a promise has none', () => {
  expect(stacksIn()).toEqual({ ...PLACED, ofPromise: undefined });
});

test('a worker that is told to keep the places of promises keeps them', () => {
  const { ofPromise, ...others } = stacksIn('globalThis.countersignStackTraces = true');
  expect(others).toEqual(PLACED);
  expect(ofPromise).toMatch(/^ +at /m);
});
