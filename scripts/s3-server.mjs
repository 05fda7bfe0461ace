// Finds the S3-compatible server that the artifact bucket is tested against, and builds it once with Go where there is
// none.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { builtPath, goInstall } from './go-install.mjs';
import { namedPath, onPath } from './programs.mjs';

/** The Versity S3 Gateway over a folder: signatures, conditional writes and checksums as S3 has them. Apache 2.0. */
const PROGRAM = {
  name: 's3-server',
  what: 'an S3-compatible server (Versity S3 Gateway)',
  target: 'github.com/versity/versitygw/cmd/versitygw',
  binary: 'versitygw',
  version: '1.8.0',
  ldflags: '-s -w -X main.Version=1.8.0',
  packages: 700,
  minutes: 'three',
  runs,
};

/**
 * Finds the server at S3_SERVER_PATH, on PATH, or as our own build, and builds it if there is none. The error says what
 * to install.
 *
 * @returns {Promise<string>}
 */
export async function ensureS3Server() {
  const named = namedPath('S3_SERVER_PATH', runs);
  const candidates = [...onPath(PROGRAM.binary), builtPath(PROGRAM)];
  return named ?? candidates.find((path) => existsSync(path) && runs(path)) ?? (await goInstall(PROGRAM, advice));
}

/** @param {string} path */
function runs(path) {
  const { status, stdout } = spawnSync(path, ['--version'], { encoding: 'utf8', timeout: 30_000 });
  return status === 0 && /Version/.test(stdout);
}

/** @param {string} reason */
function advice(reason) {
  return [
    `The tests of the artifact bucket need versitygw and found none. ${reason}`,
    'Do one of these and run the command again:',
    '  - install Go 1.25 or newer (https://go.dev/dl), which is then used to build it, once',
    '  - set S3_SERVER_PATH to a `versitygw` binary (https://github.com/versity/versitygw)',
  ].join('\n');
}
