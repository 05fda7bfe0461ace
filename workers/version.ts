/** Reads the version of this package from its manifest. */
import { existsSync, readFileSync } from 'node:fs';

/** Searches upward: the manifest is one folder up in the sources, and two in the output of `npm run build`. */
export function packageVersion(folder = new URL('.', import.meta.url)): string {
  const manifest = new URL('package.json', folder);
  // Sound: npm takes no package without a version.
  if (existsSync(manifest)) return (JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }).version;
  const above = new URL('..', folder);
  return above.href === folder.href ? 'unknown' : packageVersion(above);
}
