/**
 * Makes the workflow bundle of the current sources once, and keeps it in `.build/`. Every suite with a server
 * needs the bundle, and making it costs a core several seconds.
 */
import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { bundleWorkflows, type WorkflowBundle } from '../../workers/bundle.ts';

const ROOT = join(import.meta.dirname, '../..');
const PLACE = join(ROOT, '.build/bundles');
/** Folders from which a bundle is made; the lock file stands for installed packages. */
const FOLDERS = ['contracts', 'domain', 'workflows'];
const FILES = ['workers/bundle.ts', 'workers/bundle.ts', 'package-lock.json'];

export async function sharedBundle(): Promise<WorkflowBundle> {
  const sources = await hashOfSources();
  const path = join(PLACE, `${sources}.json`);
  const kept = await readFile(path, 'utf8').catch(() => undefined);
  // Sound: the text was written below.
  if (kept !== undefined) return JSON.parse(kept) as WorkflowBundle;
  const { code, buildId } = await bundleWorkflows();
  await mkdir(PLACE, { recursive: true });
  // Two suites may make the bundle at once. Each puts the same whole file in place.
  const partial = `${path}.${process.pid}`;
  await writeFile(partial, JSON.stringify({ code, buildId }));
  await rename(partial, path);
  return { code, buildId };
}

async function hashOfSources(): Promise<string> {
  const listed = await Promise.all(
    FOLDERS.map(async (folder) =>
      (await readdir(join(ROOT, folder), { recursive: true, withFileTypes: true }))
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name)),
    ),
  );
  const hash = createHash('sha256');
  for (const path of [...listed.flat().toSorted(), ...FILES.map((file) => join(ROOT, file))])
    hash
      .update(path.slice(ROOT.length))
      .update('\0')
      .update(await readFile(path))
      .update('\0');
  return hash.digest('hex');
}
