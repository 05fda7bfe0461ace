/** Tells how a program of this repository is started as a process. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/**
 * Returns arguments of Node.js that run the program: compiled, where `scripts/test.mjs` has done that, or from its
 * sources.
 * @param path from the root of the repository
 */
export function programArgs(path: string): readonly string[] {
  const compiled = process.env['COMPILED_PATH'];
  if (compiled === undefined) return ['--import', 'tsx', join(ROOT, path)];
  return [join(compiled, path.replace(/\.ts$/, '.js'))];
}
