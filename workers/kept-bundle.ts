/**
 * Gives workers and commands the bundle of their code: the one that `npm run build` left, or one that is made.
 *
 * 1. A clone keeps what it makes, so that the next start of the same code need not make it. `dist/` is packed and an
 *    installed package is somebody else's, so nothing is written there.
 * 2. A kept bundle counts for the very files that can decide what is in it. Where these change while it is made, it may
 *    be of neither state, and is not kept.
 */
import { createHash } from 'node:crypto';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import {
  bundleWorkflows,
  hashOfOwnCode,
  type MadeBundle,
  MAKERS,
  readBuiltBundle,
  type WorkflowBundle,
} from './bundle.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const isClone = extname(fileURLToPath(import.meta.url)) === '.ts';

/** Beside the code that a bundle may hold: what makes bundles, and the packages as the lock and npm say them. */
const DECIDING = [
  ...MAKERS,
  ...['workers/replay/replayed-run.ts', 'package-lock.json', 'node_modules/.package-lock.json'].map((path) =>
    join(ROOT, path),
  ),
];

const Kept = z.strictObject({ key: z.string(), buildId: z.string(), code: z.string() });

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
 * @param keyOf names the state of all files that decide what is in a bundle
 */
export async function keptBundle(
  name: string,
  make: () => Promise<Pick<MadeBundle, 'buildId' | 'code'>>,
  folder = isClone ? join(ROOT, '.build/kept-bundles') : '',
  keyOf = stateOfCode,
): Promise<OriginBundle> {
  const made = async (): Promise<OriginBundle> => {
    const { buildId, code } = await make();
    return { buildId, code, origin: 'made at start' };
  };
  if (folder === '') return await made();
  const key = await keyOf();
  const path = join(folder, `${name}.json`);
  const kept = await read(path);
  if (kept?.key === key) return { buildId: kept.buildId, code: kept.code, origin: 'built' };
  const bundle = await made();
  if ((await keyOf()) === key) await keep(path, { key, buildId: bundle.buildId, code: bundle.code });
  return bundle;
}

async function read(path: string): Promise<z.infer<typeof Kept> | undefined> {
  try {
    return Kept.parse(JSON.parse(await readFile(path, 'utf8')));
  } catch {
    // It is not there, or cut off.
    return undefined;
  }
}

/** Where nothing can be written, the next start makes its own. */
async function keep(path: string, bundle: z.infer<typeof Kept>): Promise<void> {
  const partial = `${path}.${process.pid}`;
  try {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(partial, JSON.stringify(bundle));
    await rename(partial, path);
  } catch {
    // Nothing depends on it.
  }
}

async function stateOfCode(): Promise<string> {
  const hash = createHash('sha256').update(hashOfOwnCode());
  for (const path of DECIDING) {
    const content = await readFile(path).catch(() => Buffer.of());
    hash.update(`\0${content.length}\0`).update(content);
  }
  return hash.digest('hex');
}
