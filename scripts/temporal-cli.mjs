// Finds the Temporal CLI, whose development server the demo, the tests and the bench run; builds it once with Go where
// there is none.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT } from './bootstrap.mjs';
import { builtPath, goInstall } from './go-install.mjs';
import { namedPath, onPath } from './programs.mjs';

const MODULE = 'github.com/temporalio/cli';
/** The newest CLI that `go install` can build: later ones replace modules by folders of their own repository. */
const BUILT = {
  name: 'temporal-cli',
  what: 'the Temporal CLI',
  target: `${MODULE}/cmd/temporal`,
  binary: 'temporal',
  version: '1.5.1',
  ldflags: `-X ${MODULE}/temporalcli.Version=1.5.1`,
  packages: 1300,
  minutes: 'five',
  runs,
};
const GO_NEEDED = '1.25';
/** The oldest server that this project is tested with: an older `temporal` on PATH is passed over. */
const MIN_SERVER = [1, 29];
const EXE = process.platform === 'win32' ? '.exe' : '';

/**
 * The CLI that is there already, or undefined. Order: TEMPORAL_CLI_PATH, PATH, the SDK's download, our own build.
 *
 * @returns {string | undefined}
 */
export function findTemporalCli() {
  const candidates = [...onPath(`temporal${EXE}`), sdkDownload(), builtPath(BUILT)];
  return (
    namedPath('TEMPORAL_CLI_PATH', runs, 'is not a Temporal CLI that runs here') ??
    candidates.find((path) => path !== undefined && isUsable(path))
  );
}

/**
 * The CLI, built if need be; an error that says what to install where none can be had.
 *
 * @returns {Promise<string>}
 */
export async function ensureTemporalCli() {
  return findTemporalCli() ?? (await goInstall(BUILT, advice));
}

/** Where the SDK's test environment keeps the server it downloads; reused if there, never downloaded by us. */
function sdkDownload() {
  const manifest = join(ROOT, 'node_modules', '@temporalio', 'testing', 'package.json');
  if (!existsSync(manifest)) return undefined;
  const { version } = /** @type {{version: string}} */ (JSON.parse(readFileSync(manifest, 'utf8')));
  const path = join(tmpdir(), `temporal-sdk-typescript-${version}${EXE}`);
  // The folder is open to every user of the machine: what somebody else put there is not run.
  return existsSync(path) && statSync(path).uid === process.getuid?.() ? path : undefined;
}

/** @param {string} path */
function isUsable(path) {
  if (!existsSync(path)) return false;
  const server = serverVersion(path);
  if (server === undefined) return false;
  const [major = 0, minor = 0] = server;
  const [minMajor = 0, minMinor = 0] = MIN_SERVER;
  if (major > minMajor || (major === minMajor && minor >= minMinor)) return true;
  console.error(`passing over ${path}: its server is ${server.join('.')}, ${MIN_SERVER.join('.')} or newer is needed`);
  return false;
}

/** @param {string} path */
function runs(path) {
  return serverVersion(path) !== undefined;
}

/**
 * Reads a line like `temporal version 1.5.1 (Server 1.29.1, UI 2.42.1)`; undefined if the program does not run.
 *
 * @param {string} path
 */
function serverVersion(path) {
  const { stdout } = spawnSync(path, ['--version'], { encoding: 'utf8', timeout: 30_000 });
  return /Server (\d+)\.(\d+)\.(\d+)/
    .exec(stdout ?? '')
    ?.slice(1)
    .map(Number);
}

/** @param {string} reason */
function advice(reason) {
  return [
    `The Temporal CLI is needed and there is none: not named by TEMPORAL_CLI_PATH, not on PATH, not downloaded by the Temporal SDK. ${reason}`,
    'Do one of these and run the command again:',
    '  - install the Temporal CLI: https://docs.temporal.io/cli (macOS: brew install temporal)',
    `  - install Go ${GO_NEEDED} or newer (https://go.dev/dl), which is then used to build it, once`,
    '  - set TEMPORAL_CLI_PATH to a `temporal` binary',
  ].join('\n');
}
