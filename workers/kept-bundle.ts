/**
 * Gives workers and commands the bundle of their code: the one that `npm run build` left, or one that is made.
 *
 * A clone keeps what it makes, so that the next start of the same code need not make it. `dist/` is packed and an
 * installed package is somebody else's, so nothing is written there.
 */
import { mkdir } from 'node:fs/promises';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  bundleWorkflows,
  hashOfOwnCode,
  type MadeBundle,
  readBuiltBundle,
  type WorkflowBundle,
  writeBuiltBundle,
} from './bundle.ts';

const isClone = extname(fileURLToPath(import.meta.url)) === '.ts';
const KEPT = isClone ? fileURLToPath(new URL('../.build/kept-bundles', import.meta.url)) : '';

interface OriginBundle extends WorkflowBundle {
  readonly origin: 'built' | 'made at start';
}

/** Returns the bundle of workers: that of `npm run build` if it is of this code, else a kept one, else a new one. */
export async function ownBundle(): Promise<OriginBundle> {
  const built = await readBuiltBundle();
  return built === undefined ? await keptBundle('workers', bundleWorkflows) : { ...built, origin: 'built' };
}

/**
 * Returns the bundle that is kept under this name, or makes and keeps it.
 *
 * @param name each has its own maker
 * @param folder where bundles are kept; empty where none is
 */
export async function keptBundle(
  name: string,
  make: () => Promise<MadeBundle>,
  folder = KEPT,
  stateOfCode = hashOfOwnCode,
): Promise<OriginBundle> {
  const place = join(folder, `${name}.json`);
  const kept = folder === '' ? undefined : await readBuiltBundle(place);
  if (kept !== undefined) return { ...kept, origin: 'built' };
  const before = stateOfCode();
  const made = await make();
  // If the code changes while it is made, it may be of neither state.
  if (folder !== '' && stateOfCode() === before) await keep(made, place);
  return { code: made.code, buildId: made.buildId, origin: 'made at start' };
}

/** Where nothing can be written, the next start makes its own. */
async function keep(made: MadeBundle, place: string): Promise<void> {
  try {
    await mkdir(dirname(place), { recursive: true });
    await writeBuiltBundle(made, place);
  } catch {
    // Nothing depends on it.
  }
}
