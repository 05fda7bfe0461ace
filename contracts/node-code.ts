/**
 * Returns the code of a fault of Node or the network, such as `ENOENT`. `instanceof` would fail under jest, where
 * errors of Node's core belong to another realm.
 */
export function nodeCodeOf(error: unknown): string | undefined {
  return typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : undefined;
}
