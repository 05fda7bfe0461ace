/** The workflow with one thing changed: a copy of its sources inside the repository, so that imports resolve, bundled for replay. */
import { appendFile, cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { workflowFile, type WorkflowBundle } from '../../workers/bundle.ts';
import { bundleForReading } from '../../workers/replay/replayed-run.ts';
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
async function withCopy<T>(parts: readonly string[], use: (folder: string) => Promise<T>): Promise<T> {
  await mkdir(PLACE, { recursive: true });
  const folder = await mkdtemp(join(PLACE, 'mutant-'));
  try {
    for (const part of parts) await cp(join(ROOT, part), join(folder, part), { recursive: true });
    return await use(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function withChangedCopy<T>(
  change: Change,
  parts: readonly string[],
  sources: Sources,
  use: (folder: string) => Promise<T>,
): Promise<T> {
  const [path, text] = changed(change, sources);
  return await withCopy(parts, async (folder) => {
    await writeFile(join(folder, path), text);
    return await use(folder);
  });
}

export async function withMutant<T>(change: Change, use: (folder: string) => Promise<T>): Promise<T> {
  return await withChangedCopy(change, PARTS, product(), use);
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
  return await withChangedCopy(change, CHECKOUT, sources, async (folder) => {
    await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
    return await use(folder);
  });
}

/** @param make such as `bundleForReading` */
export async function bundleMutant(change: Change, make = bundleForReading): Promise<WorkflowBundle> {
  return (await bundleMutants([change], make))(change);
}

/** Begins each pair of the table that `bundleMutants` puts into a bundle. */
const PAIR = 'changed module';
const PAIRS = new RegExp(`'${PAIR} (\\d+)',\\D*(\\d+)\\D+(\\d+)`, 'g');
/** Stands behind the modules of a bundle, and before the first of them runs. */
const LOADING = /const __webpack_module_cache__ =/;

/**
 * Makes one bundle that holds every changed module beside the original, since making a bundle is seconds of a core.
 *
 * @param make such as `bundleForReading`
 * @returns the bundle of one change: all its imports of the original are answered with the changed module. Without a
 * change it is the workflow as it is, and replays as such
 */
export async function bundleMutants(
  changes: readonly Change[],
  make = bundleForReading,
): Promise<(change?: Change) => WorkflowBundle> {
  const { code, buildId } = await withCopy(PARTS, async (folder) => {
    const inCopy = (of: string): string => join(folder, relative(ROOT, workflowFile(of)));
    // A folder of their own: modules in `domain/` all run when a thread starts.
    await mkdir(join(folder, 'changed'));
    for (const [index, change] of changes.entries()) {
      const [path, text] = changed(change);
      const own = join(folder, 'changed', `${index}.ts`);
      await writeFile(own, importingFrom(dirname(join(folder, path)), text));
      const pair = [join(folder, path), own].map((file) => `require(${JSON.stringify(file)})`).join(', ');
      // Only read out of the bundle, never called. What is required keeps all its exports.
      await appendFile(inCopy('index'), `\nfunction changed${index}() { return ['${PAIR} ${index}', ${pair}]; }\n`);
    }
    return await make(inCopy('index'), inCopy);
  });
  const pairs = new Map(
    [...code.matchAll(PAIRS)].map(([, index, original, own]) => [Number(index), { original, own }]),
  );
  return (change) => {
    if (change === undefined) return { code, buildId };
    const pair = pairs.get(changes.indexOf(change));
    if (pair === undefined || !LOADING.test(code)) throw new Error('the bundle does not hold the change');
    const put = `__webpack_modules__[${pair.original}] = __webpack_modules__[${pair.own}];`;
    return { code: code.replace(LOADING, (line) => `${put} ${line}`), buildId };
  };
}

/** Has a module that lies elsewhere import from its old neighbours. */
function importingFrom(folder: string, text: string): string {
  return text.replaceAll(
    /(\b(?:from|import) ['"])(\.[^'"]+)/g,
    (_, before: string, path: string) => `${before}${join(folder, path)}`,
  );
}
