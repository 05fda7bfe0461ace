/** The workflow with one thing changed: a copy of its sources inside the repository, so that imports resolve, bundled for replay. */
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { WorkflowBundle } from '../../workers/bundle.ts';
import { bundleForReplay } from '../../workers/replay/semantics.ts';
import type { HISTORIES } from './corpus.ts';

export interface Mutation {
  /** What somebody might do, in words. */
  readonly name: string;
  /** A history in which it shows; there are others, mostly. */
  readonly noticedIn: (typeof HISTORIES)[number];
  readonly file: string;
  /** Stands in the file exactly once. */
  readonly find: string;
  readonly put: string;
}

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Ignored by git and by every tool of the repository. */
const PLACE = join(ROOT, '.build');

export async function bundleMutant({ name, file, find, put }: Omit<Mutation, 'noticedIn'>): Promise<WorkflowBundle> {
  await mkdir(PLACE, { recursive: true });
  const folder = await mkdtemp(join(PLACE, 'mutant-'));
  try {
    for (const part of ['contracts', 'domain', 'workflows'])
      await cp(join(ROOT, part), join(folder, part), { recursive: true });
    const path = join(folder, file);
    const parts = (await readFile(path, 'utf8')).split(find);
    if (parts.length !== 2)
      throw new Error(
        `"${name}": ${file} holds "${find}" ${parts.length - 1} times, not once; write the mutation for the code as it is now`,
      );
    await writeFile(path, parts.join(put));
    const fileOf = (of: string): string => join(folder, 'workflows', `${of}.ts`);
    return await bundleForReplay(fileOf('index'), fileOf);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
