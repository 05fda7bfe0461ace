// Packs this package as it would be published: `scripts/cut-release.mjs` keeps what is packed here, and tests install
// it.
//
// The build goes to a folder of its own, so that nobody's `dist/` changes.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './bootstrap.mjs';

/**
 * @typedef {object} Manifest
 * @property {string} version
 * @property {readonly string[]} files
 * @property {Readonly<Record<string, string>>} bin
 * @property {Readonly<Record<string, string>>} scripts
 * @property {Readonly<Record<string, unknown>>} exports
 * @property {Readonly<Record<string, string>>} dependencies
 */

/**
 * @typedef {object} Packed
 * @property {string} folder the folder that was packed: what package.json and `files` name
 * @property {string} tarball
 * @property {readonly string[]} paths paths in the tarball
 * @property {Manifest} manifest
 * @property {() => void} remove
 */

/** @returns {Packed} */
export function pack() {
  mkdirSync(join(ROOT, '.build'), { recursive: true });
  // Inside the repository, where the build finds the packages that the bundle is made of.
  const folder = mkdtempSync(join(ROOT, '.build', 'packed-'));
  const manifest = /** @type {Manifest} */ (JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')));
  const copied = manifest.files.filter((name) => name !== 'dist');
  for (const name of ['package.json', 'README.md', 'LICENSE', ...copied])
    cpSync(join(ROOT, name), join(folder, name), { recursive: true });
  execFileSync(process.execPath, [join(ROOT, 'scripts/build.mjs'), join(folder, 'dist')], { stdio: 'pipe' });
  const args = ['pack', '--ignore-scripts', '--offline', '--json'];
  const [told] = /** @type {[{ filename: string, files: { path: string }[] }]} */ (
    JSON.parse(execFileSync('npm', args, { cwd: folder, encoding: 'utf8', stdio: 'pipe' }))
  );
  return {
    folder,
    tarball: join(folder, told.filename),
    paths: told.files.map(({ path }) => path),
    manifest,
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
