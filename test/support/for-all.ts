/** Checks a property of many values, which fast-check makes and, where it fails, shrinks. */
import fc from 'fast-check';

type Arbitraries<Ts> = { [K in keyof Ts]: fc.Arbitrary<Ts[K]> };

/** Checks that the predicate, which comes last, holds for whatever the arbitraries before it make. */
export function forAll<Ts extends [unknown, ...unknown[]]>(
  ...of: [...Arbitraries<Ts>, (...values: Ts) => boolean | void]
): void {
  fc.assert(fc.property<Ts>(...of));
}

/** Does what `forAll` does, with more or fewer values than fast-check would make. */
export function forMany<Ts extends [unknown, ...unknown[]]>(
  parameters: fc.Parameters<Ts>,
  ...of: [...Arbitraries<Ts>, (...values: Ts) => boolean | void]
): void {
  fc.assert(fc.property<Ts>(...of), parameters);
}
