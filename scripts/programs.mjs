// Finds programs of this machine, and keeps in the per-user cache what is made once because there is none.
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';
import { withLock } from './lock.mjs';

/** A folder of the cache. @param {...string} names */
export function cached(...names) {
  return join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'countersign', ...names);
}

/**
 * The path that somebody has put into a variable; undefined if nobody has. One that cannot be used is an error.
 *
 * @param {string} variable
 * @param {(path: string) => boolean} isUsable
 * @param {string} [fault]
 */
export function namedPath(variable, isUsable, fault = 'does not run here') {
  const path = process.env[variable];
  if (path === undefined || path === '') return undefined;
  if (isUsable(path)) return path;
  throw new Error(`${variable} is ${path}, which ${fault}. Correct it, or unset it to have one found.`);
}

/** Where these programs may lie by PATH, the first name first. @param {...string} names */
export function onPath(...names) {
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter(Boolean);
  return names.flatMap((name) => folders.map((folder) => join(folder, name)));
}

/**
 * Makes a folder of the cache, unless it is there and whole. An interrupted attempt leaves nothing that looks whole.
 *
 * @param {string} folder
 * @param {string} what for people: `the npm packages of …`
 * @param {() => Promise<void>} make
 * @param {() => boolean} [isUsable] false if it has to be made again
 */
export async function makeOnce(folder, what, make, isUsable = () => true) {
  const whole = join(folder, 'whole');
  await withLock(join(folder, 'make.lock'), `another process installs ${what}`, async () => {
    if (existsSync(whole) && isUsable()) return;
    console.error(`installing ${what} in ${folder}: once`);
    mkdirSync(folder, { recursive: true });
    await make();
    writeFileSync(whole, '');
  });
}
