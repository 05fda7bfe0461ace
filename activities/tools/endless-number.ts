/**
 * Numbers of a server that JSON can write and cannot keep: `1e999` is read as infinity, which has no canonical form (RFC 8785
 * §3.2.2.3) and so no hash, and is written as null.
 */
export const ENDLESS_NUMBER = 'a number beyond what can be kept (1e999, for instance)';

/** @param value nests no deeper than `nesting.ts` allows */
export function holdsEndlessNumber(value: unknown): boolean {
  if (typeof value === 'number') return !Number.isFinite(value);
  return typeof value === 'object' && value !== null && Object.values(value).some(holdsEndlessNumber);
}
