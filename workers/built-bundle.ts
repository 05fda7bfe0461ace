/**
 * The workflow bundle that `npm run build` leaves beside the code, so that a worker that starts does not make it again.
 *
 * 1. It is taken only where every file that it was made of is as it was then, and it is whole itself: a bundle of other code
 *    would replay runs otherwise than this build says.
 */
import { createHash } from 'node:crypto';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { dirname, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { bundleWorkflows, type WorkflowBundle } from './bundle.ts';

const PLACE = fileURLToPath(new URL('../workflow-bundle.json', import.meta.url));

const Built = z.strictObject({
  buildId: z.string(),
  /** From the folder of this file. */
  files: z.array(z.string()).min(1),
  /** sha256 of the files, their names and the code. */
  hash: z.string(),
  code: z.string(),
});

/** Undefined where there is none, or one of other code. */
export async function readBuiltBundle(place = PLACE): Promise<WorkflowBundle | undefined> {
  try {
    const { buildId, files, hash, code } = Built.parse(JSON.parse(await readFile(place, 'utf8')));
    return hash === (await hashOf(place, files, code)) ? { buildId, code } : undefined;
  } catch {
    // Not there, cut off, or made of files that are not there any more.
    return undefined;
  }
}

/** Made anew and put in place whole. */
export async function writeBuiltBundle(place = PLACE): Promise<WorkflowBundle> {
  const { buildId, code, files: made } = await bundleWorkflows();
  const files = made.map((file) => relative(dirname(place), file));
  const partial = `${place}.${process.pid}`;
  await writeFile(partial, JSON.stringify({ buildId, files, hash: await hashOf(place, files, code), code }));
  await rename(partial, place);
  return { buildId, code };
}

async function hashOf(place: string, files: readonly string[], code: string): Promise<string> {
  const hash = createHash('sha256').update(code);
  const contents = await Promise.all(files.map(async (file) => await readFile(resolve(dirname(place), file))));
  for (const [index, content] of contents.entries())
    hash.update(`\0${files[index]}\0${content.length}\0`).update(content);
  return hash.digest('hex');
}
