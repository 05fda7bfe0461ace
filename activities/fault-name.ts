/** What is told of a fault that has no code: the name of its class. What it says may quote requests, answers and keys (INV-S1). */

const LONGEST = 64;

export function faultName(error: unknown): string {
  const name = typeof error === 'object' && error !== null && 'name' in error ? String(error.name) : typeof error;
  return name.slice(0, LONGEST);
}
