/** The workflow with one thing changed: a copy of its sources inside the repository, so that imports resolve, bundled for replay. */
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { workflowFile, type WorkflowBundle } from '../../workers/bundle.ts';
import { bundleForReplay } from '../../workers/replay/semantics.ts';
import { PARTS, product, ROOT, type Sources } from '../support/syntax.ts';
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

/** Makes the copy of these folders and files of the repository, and removes it. */
async function withCopy<T>(
  change: Change,
  parts: readonly string[],
  sources: Sources,
  use: (folder: string) => Promise<T>,
): Promise<T> {
  const [path, text] = changed(change, sources);
  await mkdir(PLACE, { recursive: true });
  const folder = await mkdtemp(join(PLACE, 'mutant-'));
  try {
    for (const part of parts) await cp(join(ROOT, part), join(folder, part), { recursive: true });
    await writeFile(join(folder, path), text);
    return await use(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

export async function withMutant<T>(change: Change, use: (folder: string) => Promise<T>): Promise<T> {
  return await withCopy(change, PARTS, product(), use);
}

/** What a checkout needs so that its command and its tests run in it; its packages are those of the repository. */
const CHECKOUT = [
  ...PARTS,
  'activities',
  'workers',
  'client',
  'gateway',
  'cli',
  'testing',
  'scripts',
  'test/unit',
  'test/support',
  'package.json',
  'package-lock.json',
  'jest.config.mjs',
  'tsconfig.base.json',
  'tsconfig.node.json',
];

/**
 * A whole checkout with one thing changed.
 * @param file of the change; absent: it is in the workflow
 */
export async function withCheckout<T>(
  change: Change,
  file: string | undefined,
  use: (folder: string) => Promise<T>,
): Promise<T> {
  const sources = file === undefined ? product() : new Map([[file, await readFile(join(ROOT, file), 'utf8')]]);
  return await withCopy(change, CHECKOUT, sources, async (folder) => {
    await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
    return await use(folder);
  });
}

/** @param make such as `bundleForReplay` */
export async function bundleMutant(change: Change, make = bundleForReplay): Promise<WorkflowBundle> {
  return await withMutant(change, async (folder) => {
    const inMutant = (of: string): string => join(folder, relative(ROOT, workflowFile(of)));
    return await make(inMutant('index'), inMutant);
  });
}
