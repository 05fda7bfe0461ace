/**
 * Deepest nesting allowed in a JSON value of a server. Recursive code, such as canonical JSON in a workflow, would
 * overflow the stack on a deeper value, and a run could not go on.
 */
export const MAX_NESTING = 100;

/** Looks no deeper than the limit itself. */
export function nestsTooDeeply(value: unknown, levelsLeft = MAX_NESTING): boolean {
  if (value === null || typeof value !== 'object') return false;
  return levelsLeft === 0 || Object.values(value).some((inner) => nestsTooDeeply(inner, levelsLeft - 1));
}
