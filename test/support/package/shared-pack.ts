/** Packs this source once for all test files: to build it costs a core half a minute. */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { withLock } from '../../../scripts/lock.mjs';
import { pack, type Packed } from '../../../scripts/pack.mjs';
import { hashOfSources } from '../source-hash.ts';

const PLACE = join(import.meta.dirname, '../../../.build/packed');
/** What a package is made from; the lock file stands for installed packages. */
const SOURCES = [
  'contracts',
  'domain',
  'workflows',
  'activities',
  'workers',
  'client',
  'gateway',
  'cli',
  'testing',
  'scripts',
  'docs/schema',
  'examples/write-a-summary.yaml',
  'countersign.example.yaml',
  'README.md',
  'package.json',
  'package-lock.json',
  'tsconfig.base.json',
  'tsconfig.build.json',
];
/** Each has 20 MB. */
const MOST_KEPT = 3;

/** Of a package that nobody removes. */
export type SharedPack = Omit<Packed, 'remove'>;

export async function sharedPack(): Promise<SharedPack> {
  const place = join(PLACE, await hashOfSources(SOURCES));
  const told = join(place, 'packed.json');
  return await withLock(`${place}.lock`, 'another test file packs this source', async () => {
    if (!existsSync(told)) make(place, told);
    // Sound: written below.
    return JSON.parse(readFileSync(told, 'utf8')) as SharedPack;
  });
}

function make(place: string, told: string): void {
  forgetOldest();
  const { folder, tarball, paths, manifest } = pack();
  mkdirSync(PLACE, { recursive: true });
  rmSync(place, { recursive: true, force: true });
  renameSync(folder, place);
  // Written last: what is interrupted leaves nothing that looks packed.
  writeFileSync(told, JSON.stringify({ folder: place, tarball: join(place, basename(tarball)), paths, manifest }));
}

function forgetOldest(): void {
  if (!existsSync(PLACE)) return;
  const kept = readdirSync(PLACE, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => ({ name, at: statSync(join(PLACE, name)).mtimeMs }));
  for (const { name } of kept.toSorted((one, other) => other.at - one.at).slice(MOST_KEPT - 1))
    rmSync(join(PLACE, name), { recursive: true, force: true });
}
