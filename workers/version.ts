/** The version of this package, as its manifest states it. */
import { existsSync, readFileSync } from 'node:fs';

/** In the sources the manifest is one folder up, in what `npm run build` makes of them two. */
export function packageVersion(folder = new URL('.', import.meta.url)): string {
  const manifest = new URL('package.json', folder);
  // Sound: npm takes no package without a version.
  if (existsSync(manifest)) return (JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }).version;
  const above = new URL('..', folder);
  return above.href === folder.href ? 'unknown' : packageVersion(above);
}
