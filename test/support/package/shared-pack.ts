/** Packs this source once for all test files: to build it costs a core half a minute. */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { withLock } from '../../../scripts/lock.mjs';
import { pack, type Packed } from '../../../scripts/pack.mjs';
import { hashOfSources, PRODUCT } from '../source-hash.ts';

const PLACE = join(import.meta.dirname, '../../../.build/packed');
/** What a package is made from; the lock file stands for installed packages. */
const SOURCES = [
  ...PRODUCT,
  'scripts',
  'docs/schema',
  'examples/write-a-summary.yaml',
  'countersign.example.yaml',
  'README.md',
  'LICENSE',
  'package.json',
  'package-lock.json',
  'tsconfig.base.json',
  'tsconfig.build.json',
];
/** Each has 20 MB. The one that was used longest ago goes first. */
const MOST_KEPT = 4;

/** Of a package that nobody removes. */
export type SharedPack = Omit<Packed, 'remove'>;

export async function sharedPack(): Promise<SharedPack> {
  const name = await hashOfSources(SOURCES);
  const place = join(PLACE, name);
  const told = join(place, 'packed.json');
  return await withLock(join(PLACE, 'pack.lock'), 'another test file packs this source', async () => {
    if (!existsSync(told)) await make(name, place, told);
    utimesSync(place, new Date(), new Date());
    // Sound: written below.
    return JSON.parse(readFileSync(told, 'utf8')) as SharedPack;
  });
}

async function make(name: string, place: string, told: string): Promise<void> {
  forgetOldest();
  const { folder, tarball, paths, manifest, remove } = pack();
  if ((await hashOfSources(SOURCES)) !== name) {
    remove();
    throw new Error('The sources have changed while they were packed: run the test again.');
  }
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
