/**
 * Installs a packed package into an empty project.
 *
 * 1. Nothing is fetched: the project's node_modules holds the unpacked tarball, and a link to each dependency that
 *    `npm install` without development dependencies would put there (package-lock.json), in this repository's
 *    node_modules. `@types/node` and TypeScript are what a TypeScript project has besides.
 * 2. A release that was cut earlier runs with the packages of today, so those may differ from its own. What its runs
 *    replay does not depend on them: the tarball holds the workflow bundle.
 */
import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Manifest, Packed } from '../../../scripts/pack.mjs';
import { checkRelease } from '../../../scripts/releases.mjs';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const BESIDE = ['node_modules/@types/node', 'node_modules/undici-types'];

export interface Project {
  readonly folder: string;
  write(name: string, text: string): string;
  remove(): void;
}

export function install({ tarball, manifest }: Pick<Packed, 'tarball' | 'manifest'>): Project {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-stranger-'));
  const own = unpackInto(folder, tarball);
  for (const [name, path] of Object.entries(manifest.bin)) {
    chmodSync(join(own, path), 0o755);
    link(join(own, path), join(folder, 'node_modules/.bin', name));
  }
  const write = (name: string, text: string): string => {
    const path = join(folder, name);
    writeFileSync(path, text);
    return path;
  };
  write('package.json', JSON.stringify({ name: 'stranger', private: true, type: 'module' }));
  return { folder, write, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** Returns the folder of the package in the project's node_modules. */
function unpackInto(folder: string, tarball: string): string {
  const own = join(folder, 'node_modules/countersign');
  mkdirSync(own, { recursive: true });
  execFileSync('tar', ['-xzf', tarball, '-C', own, '--strip-components=1']);
  // Sound: npm's lockfile.
  const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as {
    packages: Readonly<Record<string, { dev?: true }>>;
  };
  for (const [path, { dev }] of Object.entries(packages)) {
    const isTop = /^node_modules\/(?:@[^/]+\/)?[^/]+$/.test(path);
    if (isTop && (dev !== true || BESIDE.includes(path))) link(join(ROOT, path), join(folder, path));
  }
  return own;
}

export interface Build {
  readonly version: string;
  /** Id of the workflow bundle in the package. */
  readonly buildId: string;
  /** The command, to be run by Node. */
  readonly bin: string;
}

/** Unpacks a tarball, once for each content: its workers may run for as long as anybody likes. */
export function releasedBuild(tarball: string): Build {
  return keptBuild(checkRelease(tarball), (folder) => unpackInto(folder, tarball));
}

/**
 * Makes another build of the same code: one whose workflows do the same, under another build id. It is for those who
 * need two builds and have one.
 */
export function harmlesslyChanged(tarball: string): Build {
  return keptBuild(`${checkRelease(tarball)}-changed`, (folder) => {
    const own = unpackInto(folder, tarball);
    appendFileSync(join(own, 'dist/workflows/index.js'), "\nvoid 'another build';\n");
    execFileSync(process.execPath, [join(own, 'dist/workers/build-bundle.js')], { stdio: 'pipe' });
  });
}

/** Builds that are kept unpacked; each has 15 MB, and each state of the source is another. */
const MOST_KEPT = 8;

function forgetOldest(folder: string): void {
  const kept = readdirSync(folder).map((name) => ({ name, at: statSync(join(folder, name)).mtimeMs }));
  for (const { name } of kept.toSorted((one, other) => other.at - one.at).slice(MOST_KEPT))
    rmSync(join(folder, name), { recursive: true, force: true });
}

function keptBuild(name: string, make: (folder: string) => unknown): Build {
  const place = join(ROOT, '.build/builds', name);
  const own = join(place, 'node_modules/countersign');
  if (!existsSync(place)) {
    mkdirSync(dirname(place), { recursive: true });
    forgetOldest(dirname(place));
    // Two who unpack at once do not see half of it: each puts the same whole folder in place.
    const partial = mkdtempSync(`${place}-`);
    make(partial);
    try {
      renameSync(partial, place);
    } catch (error) {
      rmSync(partial, { recursive: true, force: true });
      if (!existsSync(place)) throw error;
    }
  }
  const read = (file: string): unknown => JSON.parse(readFileSync(join(own, file), 'utf8'));
  // Sound: npm takes no package without these fields.
  const { version, bin } = read('package.json') as Manifest;
  // Sound: `workers/bundle.ts` writes it so.
  const { buildId } = read('dist/workflow-bundle.json') as { readonly buildId: string };
  return { version, buildId, bin: join(own, bin['countersign'] ?? '') };
}

function link(target: string, path: string): void {
  mkdirSync(dirname(path), { recursive: true });
  symlinkSync(target, path);
}
