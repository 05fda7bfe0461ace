/** Names the present sources by a hash, for what tests make of them once and keep in `.build/`. */
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Folders of the product. */
export const PRODUCT = [
  'contracts',
  'domain',
  'workflows',
  'activities',
  'workers',
  'client',
  'gateway',
  'cli',
  'testing',
];

const ROOT = join(import.meta.dirname, '../..');

/** @param paths of folders, read with all that is in them, and of files, from the root of the repository */
export async function hashOfSources(paths: readonly string[]): Promise<string> {
  const listed = await Promise.all(paths.map(filesIn));
  const hash = createHash('sha256');
  for (const path of listed.flat().toSorted())
    hash
      .update(path.slice(ROOT.length))
      .update('\0')
      .update(await readFile(path))
      .update('\0');
  return hash.digest('hex');
}

async function filesIn(path: string): Promise<readonly string[]> {
  const whole = join(ROOT, path);
  const entries = await readdir(whole, { recursive: true, withFileTypes: true }).catch(() => undefined);
  return entries?.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name)) ?? [whole];
}
