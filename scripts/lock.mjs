// One process at a time may install or build into a shared place: two at once would tear each other's files.
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const POLL_MS = 500;
const REMIND_MS = 10_000;

/**
 * Runs `work` while holding the lock file `path`; waits while another living process holds it.
 *
 * @template T
 * @param {string} path
 * @param {string} waitingFor what the other process does, for the line shown while waiting
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function withLock(path, waitingFor, work) {
  mkdirSync(dirname(path), { recursive: true });
  let remindAt = 0;
  while (!take(path)) {
    if (Date.now() >= remindAt) {
      console.error(`waiting: ${waitingFor} (process ${holder(path) ?? 'unknown'}, lock ${path})`);
      remindAt = Date.now() + REMIND_MS;
    }
    await sleep(POLL_MS);
  }
  try {
    return await work();
  } finally {
    rmSync(path, { force: true });
  }
}

/**
 * The lock appears with its content at once (a hard link), so that nobody ever reads a lock without a holder.
 *
 * @param {string} path
 */
function take(path) {
  const mine = `${path}.${process.pid}`;
  writeFileSync(mine, String(process.pid));
  try {
    linkSync(mine, path);
    return true;
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
    const pid = holder(path);
    if (pid !== undefined && !isAlive(pid)) discard(path, pid);
    return false;
  } finally {
    rmSync(mine, { force: true });
  }
}

/** @param {string} path */
function holder(path) {
  try {
    return Number(readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
}

/** @param {number} pid */
export function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: it lives, and belongs to somebody else.
    return codeOf(error) === 'EPERM';
  }
}

/**
 * Only one of several waiters can rename a dead process's lock away. A slow waiter may catch the next holder's lock
 * instead, and gives it back.
 *
 * @param {string} path
 * @param {number} pid
 */
function discard(path, pid) {
  const stale = `${path}.stale.${process.pid}`;
  try {
    renameSync(path, stale);
    if (holder(stale) !== pid) linkSync(stale, path);
  } catch {
    // Another waiter was faster.
  } finally {
    rmSync(stale, { force: true });
  }
}

/**
 * By its code alone: under Jest an error of Node is no instance of the test's `Error`.
 *
 * @param {unknown} error
 */
function codeOf(error) {
  return typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;
}
