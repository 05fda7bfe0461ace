// Makes virtual environments of Python for tests, in the per-user cache: one for each list of pinned packages.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './bootstrap.mjs';
import { runLong } from './long-command.mjs';
import { cached, makeOnce, namedPath, onPath } from './programs.mjs';

const OLDEST = [3, 10];
const NAMES = ['python3', 'python3.14', 'python3.13', 'python3.12', 'python3.11', 'python3.10', 'python'];
/** A package that is not pinned is no package of these tests. */
const PIN = /^[A-Za-z0-9._-]+==[A-Za-z0-9._+!-]+$/;

/**
 * Finds the environment with exactly these packages, and makes it once.
 *
 * @param {string} name of the folder in the cache
 * @param {string} requirements path of a list with one `package==version` in a line, dependencies included
 * @returns {Promise<string>} path of its `python`
 */
export async function ensureVenv(name, requirements) {
  const pins = pinsIn(requirements);
  const base = findPython();
  // Other packages and another Python make another environment: none is ever changed.
  const key = createHash('sha256')
    .update([base.version, ...pins].join('\n'))
    .digest('hex')
    .slice(0, 16);
  const folder = cached('python', name, key);
  const isWindows = process.platform === 'win32';
  const python = join(folder, 'venv', isWindows ? join('Scripts', 'python.exe') : join('bin', 'python'));
  const make = async () => {
    const venv = join(folder, 'venv');
    rmSync(venv, { recursive: true, force: true });
    await run(base.path, ['-m', 'venv', venv], folder, 'install its module venv (Debian, Ubuntu: python3-venv)');
    const install = ['-m', 'pip', 'install', '--disable-pip-version-check', '--no-input', '--no-deps', ...pins];
    await run(python, install, folder, 'let pip reach your package index');
    await run(python, ['-m', 'pip', 'check'], folder, `pin every dependency in ${requirements}`);
  };
  await makeOnce(folder, `the Python packages of ${name}`, make, () => runs(python));
  return python;
}

/** With the packages of examples/07-python. @returns {Promise<string>} */
export async function ensureExamplesVenv() {
  return await ensureVenv('examples', join(ROOT, 'examples/07-python/requirements.txt'));
}

/** @param {string} path @returns {string[]} */
export function pinsIn(path) {
  const lines = readFileSync(path, 'utf8')
    .split('\n')
    .map((line) => line.replace(/#.*/, '').trim())
    .filter(Boolean);
  const loose = lines.find((line) => !PIN.test(line));
  if (loose !== undefined) throw new Error(`${path}: "${loose}" is no pinned package: write PACKAGE==VERSION.`);
  return lines.toSorted();
}

/** @returns {{path: string, version: string}} PYTHON_PATH, or the first Python on PATH that is new enough */
function findPython() {
  const isUsable = (/** @type {string} */ path) => versionOf(path) !== undefined;
  const named = namedPath('PYTHON_PATH', isUsable, `is no Python ${OLDEST.join('.')} or newer`);
  for (const path of named === undefined ? onPath(...NAMES) : [named]) {
    const version = versionOf(path);
    if (version !== undefined) return { path, version };
  }
  throw new Error(
    [
      `The tests of other languages need Python ${OLDEST.join('.')} or newer and found none.`,
      'Install it (Debian, Ubuntu: apt-get install python3-venv; macOS: brew install python), or set PYTHON_PATH to it,',
      'and run the command again.',
    ].join('\n'),
  );
}

/** @param {string} path @returns {string | undefined} the version, if it is new enough */
function versionOf(path) {
  const { status, stdout } = spawnSync(path, ['-c', 'import sys; print(*sys.version_info[:3], sep=".")'], {
    encoding: 'utf8',
    timeout: 30_000,
  });
  if (status !== 0) return undefined;
  const [major = 0, minor = 0] = stdout.trim().split('.').map(Number);
  const [oldestMajor = 0, oldestMinor = 0] = OLDEST;
  return major === oldestMajor && minor >= oldestMinor ? stdout.trim() : undefined;
}

/** @param {string} python */
function runs(python) {
  return spawnSync(python, ['-c', ''], { timeout: 30_000 }).status === 0;
}

/**
 * @param {string} command
 * @param {readonly string[]} args
 * @param {string} cwd
 * @param {string} advice
 */
async function run(command, args, cwd, advice) {
  const { ok, tail } = await runLong(command, args, { cwd });
  if (!ok) throw new Error(`A Python environment for tests could not be made:\n${tail}\nTo help: ${advice}.`);
}
