// Makes a fresh clone runnable: checks the Node version, and installs the locked dependencies when they are missing or
// not those of package-lock.json.
import { existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { withLock } from './lock.mjs';
import { runLong } from './long-command.mjs';

export const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** Installs what is missing, or ends the process with a message that says what to do. */
export async function bootstrap() {
  checkNode();
  if (dependenciesAreCurrent()) return;
  await withLock(join(ROOT, '.build', 'install.lock'), 'another process installs the dependencies', async () => {
    if (!dependenciesAreCurrent()) await install();
  });
}

function checkNode() {
  const { engines } = /** @type {{engines: {node: string}}} */ (readJson('package.json'));
  const wanted = engines.node.replace('>=', '').split('.').map(Number);
  const have = process.versions.node.split('.').map(Number);
  const [wantedMajor = 0, wantedMinor = 0] = wanted;
  const [major = 0, minor = 0] = have;
  if (major > wantedMajor || (major === wantedMajor && minor >= wantedMinor)) return;
  fail(
    `Node ${engines.node} is needed, this is ${process.version}. Install a current Node (https://nodejs.org) and run the command again.`,
  );
}

/**
 * npm keeps a copy of the lockfile of what it installed. Compared package by package, so that a changed lockfile, an
 * interrupted install and a hand-made `npm install` are all seen; times of files say nothing after a `git checkout`.
 */
function dependenciesAreCurrent() {
  const installedLock = join('node_modules', '.package-lock.json');
  if (!existsSync(join(ROOT, installedLock))) return false;
  /** @typedef {{packages: Record<string, {version?: string, integrity?: string, optional?: boolean}>}} Lockfile */
  const wanted = /** @type {Lockfile} */ (readJson('package-lock.json'));
  const have = /** @type {Lockfile} */ (readJson(installedLock));
  return Object.entries(wanted.packages).every(([path, { version, integrity, optional }]) => {
    if (path === '') return true;
    const installed = have.packages[path];
    // Optional packages are those of other platforms.
    if (installed === undefined) return optional === true;
    return installed.version === version && installed.integrity === integrity;
  });
}

async function install() {
  console.error('installing dependencies: npm ci');
  const [command, ...prefix] = npm();
  const { ok, tail } = await runLong(command, [...prefix, 'ci', '--no-audit', '--no-fund', '--include=dev'], {
    cwd: ROOT,
  });
  if (!ok)
    fail(
      `npm ci failed:\n${tail}\nRun \`npm ci\` by hand once it can reach your package registry, then this command again.`,
    );
  console.error('dependencies are installed');
}

/** The npm that runs this script where one does: it need not be on PATH. @returns {[string, ...string[]]} */
export function npm() {
  const running = process.env['npm_execpath'];
  if (running !== undefined && basename(running) === 'npm-cli.js') return [process.execPath, running];
  return [process.platform === 'win32' ? 'npm.cmd' : 'npm'];
}

/** @param {string} path @returns {unknown} */
function readJson(path) {
  return /** @type {unknown} */ (JSON.parse(readFileSync(join(ROOT, path), 'utf8')));
}

/** @param {string} message @returns {never} */
function fail(message) {
  console.error(message);
  process.exit(1);
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) await bootstrap();
