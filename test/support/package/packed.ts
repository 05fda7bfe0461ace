/**
 * Packs this package as it would be published, and installs the tarball into an empty project.
 *
 * 1. Nothing is fetched: the project's node_modules holds the unpacked tarball, and a link to each dependency that
 *    `npm install` without development dependencies would put there (package-lock.json), in this repository's
 *    node_modules. `@types/node` and TypeScript are what a TypeScript project has besides.
 * 2. The build goes to a folder of its own, so that nobody's `dist/` changes.
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const BESIDE = ['node_modules/@types/node', 'node_modules/undici-types'];

export interface Manifest {
  readonly version: string;
  readonly files: readonly string[];
  readonly bin: Readonly<Record<string, string>>;
  readonly scripts: Readonly<Record<string, string>>;
  readonly exports: Readonly<Record<string, unknown>>;
  readonly dependencies: Readonly<Record<string, string>>;
}

export interface Packed {
  /** The folder that was packed: what package.json and `files` name. */
  readonly folder: string;
  readonly tarball: string;
  /** Paths in the tarball. */
  readonly paths: readonly string[];
  readonly manifest: Manifest;
  remove(): void;
}

export function pack(): Packed {
  mkdirSync(join(ROOT, '.build'), { recursive: true });
  // Inside the repository, where the build finds the packages that the bundle is made of.
  const folder = mkdtempSync(join(ROOT, '.build', 'packed-'));
  // Sound: npm takes no package without these fields, and the build needs them.
  const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Manifest;
  const copied = manifest.files.filter((name) => name !== 'dist');
  for (const name of ['package.json', 'README.md', 'LICENSE', ...copied])
    cpSync(join(ROOT, name), join(folder, name), { recursive: true });
  execFileSync(process.execPath, [join(ROOT, 'scripts/build.mjs'), join(folder, 'dist')], { stdio: 'pipe' });
  const args = ['pack', '--ignore-scripts', '--offline', '--json'];
  // Sound: npm's documented answer to --json.
  const [told] = JSON.parse(execFileSync('npm', args, { cwd: folder, encoding: 'utf8', stdio: 'pipe' })) as [
    { filename: string; files: { path: string }[] },
  ];
  return {
    folder,
    tarball: join(folder, told.filename),
    paths: told.files.map(({ path }) => path),
    manifest,
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

export interface Project {
  readonly folder: string;
  write(name: string, text: string): string;
  remove(): void;
}

export function install({ tarball, manifest }: Packed): Project {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-stranger-'));
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

function link(target: string, path: string): void {
  mkdirSync(dirname(path), { recursive: true });
  symlinkSync(target, path);
}
