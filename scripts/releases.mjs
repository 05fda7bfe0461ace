// The folder of releases: one tarball for each, and `SHA256SUMS` as `sha256sum --check` reads it. A release that is
// there is never replaced: later builds are tried against exactly what was released.
import { createHash } from 'node:crypto';
import { constants, copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

const SUMS = 'SHA256SUMS';

/**
 * @param {string} version
 * @param {string} folder
 * @returns {string} name of the tarball
 */
export function assertNew(version, folder) {
  const name = `countersign-${version}.tgz`;
  if (existsSync(join(folder, name)) || sumsIn(folder).has(name))
    throw new Error(`${name} is there already. A release is never replaced: raise the version in package.json.`);
  return name;
}

/**
 * Keeps a tarball under its version.
 *
 * @param {string} tarball
 * @param {string} version
 * @param {string} folder
 * @returns {string} its path there
 */
export function keepRelease(tarball, version, folder) {
  const name = assertNew(version, folder);
  const path = join(folder, name);
  mkdirSync(folder, { recursive: true });
  copyFileSync(tarball, path, constants.COPYFILE_EXCL);
  const lines = [...sumsIn(folder), [name, sumOf(path)]].map(([file, sum]) => `${sum}  ${file}\n`);
  writeFileSync(join(folder, SUMS), lines.join(''));
  return path;
}

/**
 * Finds the release with the highest version; undefined if there is none.
 *
 * @param {string} folder
 * @returns {string | undefined}
 */
export function newestRelease(folder) {
  const names = existsSync(folder) ? readdirSync(folder) : [];
  const versions = names.flatMap((name) => /^countersign-(\d.*)\.tgz$/.exec(name)?.[1] ?? []);
  const newest = versions.toSorted(byVersion).at(-1);
  return newest === undefined ? undefined : join(folder, `countersign-${newest}.tgz`);
}

/**
 * @param {string} one
 * @param {string} other
 */
function byVersion(one, other) {
  const [[release = '', candidate], [otherRelease = '', otherCandidate]] = [one.split('-'), other.split('-')];
  // A release is newer than its candidates.
  if (release === otherRelease && (candidate === undefined) !== (otherCandidate === undefined))
    return candidate === undefined ? 1 : -1;
  return one.localeCompare(other, 'en', { numeric: true });
}

/**
 * Checks a tarball against the sums beside it; without sums it is taken as it is.
 *
 * @param {string} tarball
 * @returns {string} its SHA-256
 */
export function checkRelease(tarball) {
  const sum = sumOf(tarball);
  const sums = sumsIn(dirname(tarball));
  const wanted = sums.get(basename(tarball));
  if (sums.size > 0 && wanted === undefined)
    throw new Error(`${basename(tarball)} is no release: ${SUMS} beside it does not name it.`);
  if (wanted !== undefined && wanted !== sum)
    throw new Error(`${basename(tarball)} is not what was released: its SHA-256 is ${sum}, and ${SUMS} has ${wanted}.`);
  return sum;
}

/**
 * @param {string} folder
 * @returns {Map<string, string>} name → SHA-256
 */
function sumsIn(folder) {
  const path = join(folder, SUMS);
  const lines = existsSync(path) ? readFileSync(path, 'utf8').split('\n') : [];
  return new Map(lines.flatMap((line) => (line === '' ? [] : [[line.slice(66), line.slice(0, 64)]])));
}

/** @param {string} path */
function sumOf(path) {
  return createHash('sha256').update(readFileSync(path)).digest('hex');
}
