/** The code of a fault of Node or the network, as `ENOENT`. Not by instanceof: errors of Node's core are of another realm under jest. */
export function nodeCodeOf(error: unknown): string | undefined {
  return typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : undefined;
}
