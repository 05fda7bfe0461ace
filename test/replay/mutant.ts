/** The workflow with one thing changed: a copy of its sources inside the repository, so that imports resolve, bundled for replay. */
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { workflowFile, type WorkflowBundle } from '../../workers/bundle.ts';
import { bundleForReplay } from '../../workers/replay-semantics.ts';
import { PARTS, ROOT } from '../support/syntax.ts';
import { type Change, changed } from './change.ts';
import type { HISTORIES } from './corpus.ts';

export interface Mutation {
  /** The rule that is broken, in words. */
  readonly name: string;
  /** A history in which it shows; there are others, mostly. */
  readonly noticedIn: (typeof HISTORIES)[number];
  readonly change: Change;
}

/** Ignored by git and by every tool of the repository. */
const PLACE = join(ROOT, '.build');

export async function withMutant<T>(change: Change, use: (folder: string) => Promise<T>): Promise<T> {
  const [path, text] = changed(change);
  await mkdir(PLACE, { recursive: true });
  const folder = await mkdtemp(join(PLACE, 'mutant-'));
  try {
    for (const part of PARTS) await cp(join(ROOT, part), join(folder, part), { recursive: true });
    await writeFile(join(folder, path), text);
    return await use(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

export async function bundleMutant(change: Change): Promise<WorkflowBundle> {
  return await withMutant(change, async (folder) => {
    const inMutant = (of: string): string => join(folder, relative(ROOT, workflowFile(of)));
    return await bundleForReplay(inMutant('index'), inMutant);
  });
}
