/**
 * Makes a workflow bundle of the current sources once, and keeps it in `.build/`. Every suite with a server
 * needs the bundle, and making it costs a core several seconds.
 *
 * A kept bundle has no source map: each worker, and each replay, would read and write a megabyte of it.
 * Set `COUNTERSIGN_TEST_MAPS` to have stack traces of workflow code name its sources.
 */
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { bundleWorkflows, type MadeBundle } from '../../workers/bundle.ts';
import { hashOfSources } from './source-hash.ts';

const ROOT = join(import.meta.dirname, '../..');
const PLACE = join(ROOT, '.build/bundles');
/** What a bundle is made from; the lock file stands for installed packages. */
const SOURCES = [
  'contracts',
  'domain',
  'workflows',
  'test/support/shared-bundle.ts',
  'test/support/faults/short-heartbeats.ts',
  'test/support/forgery/broken-workflows.ts',
  'workers/bundle.ts',
  'workers/codec.ts',
  'workers/replay/replayed-run.ts',
  'workers/replay/semantics.ts',
  'package-lock.json',
];
const MAP = '//# sourceMappingURL=data:application/json;charset=utf-8;base64,';

type KeptBundle = Pick<MadeBundle, 'code' | 'buildId' | 'files'>;

let sources: Promise<string> | undefined;

/**
 * @param make a function with a name, whose bundle depends on the sources alone
 * @param withMap true if the bundle keeps its source map
 */
export async function sharedBundle(
  make: () => Promise<KeptBundle> = bundleWorkflows,
  withMap = process.env['COUNTERSIGN_TEST_MAPS'] !== undefined,
): Promise<KeptBundle> {
  const path = join(PLACE, `${await (sources ??= hashOfSources(SOURCES))}.${make.name}${withMap ? '.map' : ''}.json`);
  const kept = await readFile(path, 'utf8').catch(() => undefined);
  // Sound: the text was written below.
  if (kept !== undefined) return JSON.parse(kept) as KeptBundle;
  const { code, buildId, files } = await make();
  const bundle = { code: withMap ? code : withoutMap(code), buildId, files };
  await mkdir(PLACE, { recursive: true });
  // Two suites may make the bundle at once. Each puts the same whole file in place.
  const partial = `${path}.${process.pid}`;
  await writeFile(partial, JSON.stringify(bundle));
  await rename(partial, path);
  return bundle;
}

/** Makes the bundle of workers whose runs make spans (docs/adr/0065). */
export async function bundleTraced(): Promise<MadeBundle> {
  return await bundleWorkflows(undefined, [], undefined, 'console');
}

/** Puts a map without places, since the SDK takes no bundle without a map. */
function withoutMap(code: string): string {
  const at = code.lastIndexOf(MAP);
  if (at === -1) throw new Error('the bundle has no source map');
  const map = { version: 3, file: 'workflow-bundle.js', sources: [], names: [], mappings: '' };
  return `${code.slice(0, at)}${MAP}${Buffer.from(JSON.stringify(map)).toString('base64')}\n`;
}
