// Finds the Chromium that browser tests drive, installs the system's package where that can be done without asking.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { runLong } from './long-command.mjs';
import { namedPath, onPath } from './programs.mjs';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];
const MAC_PATHS = [
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
];

/**
 * The Chromium that is there already, or undefined.
 *
 * @returns {string | undefined}
 */
export function findChromium() {
  const candidates = [...onPath(...NAMES), ...MAC_PATHS];
  return namedPath('CHROMIUM_PATH', runs) ?? candidates.find((path) => existsSync(path) && runs(path));
}

/**
 * Chromium, installed if need be; an error that says what to install where that cannot be done.
 *
 * @returns {Promise<string>}
 */
export async function ensureChromium() {
  const found = findChromium();
  if (found !== undefined) return found;
  const failure = await install();
  const installed = findChromium();
  if (installed !== undefined) return installed;
  throw new Error(
    [
      `The browser tests need Chromium or Google Chrome and found none. ${failure}`,
      'Install one (Debian, Ubuntu: apt-get install chromium; Fedora: dnf install chromium; macOS: brew install --cask google-chrome),',
      'or set CHROMIUM_PATH to its binary, and run the command again.',
    ].join('\n'),
  );
}

/** Only apt-get, only as root or by a sudo that asks nothing. @returns {Promise<string>} why there may be none yet */
async function install() {
  const prefix = aptPrefix();
  if (prefix === undefined) return 'It cannot be installed from here without a password.';
  console.error('installing Chromium: apt-get install chromium');
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  let last = '';
  // An image often comes without package lists: only if the install fails are they fetched.
  for (const args of [
    ['install', '-y', '--no-install-recommends', 'chromium'],
    ['update'],
    ['install', '-y', '--no-install-recommends', 'chromium'],
  ]) {
    const [command = '', ...rest] = [...prefix, 'apt-get', ...args];
    const { ok, tail } = await runLong(command, rest, { cwd: process.cwd(), env });
    if (ok && args[0] === 'install') return '';
    last = tail;
  }
  return `apt-get could not install it:\n${last}`;
}

/** @returns {string[] | undefined} */
function aptPrefix() {
  if (spawnSync('apt-get', ['--version']).status !== 0) return undefined;
  if (process.getuid?.() === 0) return [];
  return spawnSync('sudo', ['-n', 'true']).status === 0 ? ['sudo', '-n'] : undefined;
}

/** Ubuntu's `chromium-browser` may be a stub that only says how to install a snap. @param {string} path */
function runs(path) {
  const { status, stdout } = spawnSync(path, ['--version'], { encoding: 'utf8', timeout: 30_000 });
  return status === 0 && /\d+\.\d+/.test(stdout);
}
