// Builds a Go program of the module proxy, once, into the per-user cache.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { withLock } from './lock.mjs';
import { runLong } from './long-command.mjs';
import { cached } from './programs.mjs';

const EXE = process.platform === 'win32' ? '.exe' : '';

/**
 * @typedef {object} GoProgram
 * @property {string} name of the folder in the cache
 * @property {string} what for people: `the Temporal CLI`
 * @property {string} target package to install, without its version
 * @property {string} binary what Go calls it
 * @property {string} version
 * @property {string} ldflags
 * @property {number} packages about how many are compiled
 * @property {string} minutes about how long it takes
 * @property {(path: string) => boolean} runs
 */

/** Where it is, or will be. @param {Pick<GoProgram, 'name' | 'version' | 'binary'>} program */
export function builtPath({ name, version, binary }) {
  return join(cached(name, version), `${binary}${EXE}`);
}

/**
 * @param {GoProgram} program
 * @param {(reason: string) => string} advice what to do where it cannot be built
 * @returns {Promise<string>} path of the binary
 */
export async function goInstall(program, advice) {
  const folder = cached(program.name, program.version);
  const path = builtPath(program);
  return withLock(join(folder, 'build.lock'), `another process builds ${program.what}`, async () => {
    if (!existsSync(path) || !program.runs(path)) await build(program, folder, path, advice);
    return path;
  });
}

/**
 * @param {GoProgram} program
 * @param {string} folder
 * @param {string} path
 * @param {(reason: string) => string} advice
 */
async function build({ what, target, binary, version, ldflags, packages, minutes, runs }, folder, path, advice) {
  if (spawnSync('go', ['version'], { env: process.env }).status !== 0)
    throw new Error(advice('Go, which would build it, is not installed.'));
  console.error(`building ${what} ${version} with Go into ${folder}: once, about ${minutes} minutes`);
  // Built aside and renamed: an interrupted build leaves nothing that looks like a program.
  const work = join(folder, `build-${process.pid}`);
  mkdirSync(work, { recursive: true });
  let downloaded = 0;
  let compiled = 0;
  try {
    const { ok, tail } = await runLong('go', ['install', '-v', '-ldflags', ldflags, `${target}@v${version}`], {
      cwd: work,
      env: { ...process.env, GOBIN: work },
      onLine: (line) => (line.startsWith('go: downloading') ? downloaded++ : compiled++),
      progress: () => `${downloaded} modules downloaded, ${compiled} of about ${packages} packages compiled`,
    });
    const built = join(work, `${binary}${EXE}`);
    if (!ok) throw new Error(advice(`Building it with Go failed:\n${tail}`));
    if (!runs(built)) throw new Error(advice('What Go built does not run.'));
    renameSync(built, path);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
  console.error(`${what} is built`);
}
