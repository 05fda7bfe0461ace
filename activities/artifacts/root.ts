/**
 * The root of a directory store, told by a file in it from a place where no volume is mounted.
 *
 * Owns the file and who may make it. Does not own what is stored.
 *
 * 1. Without the file nothing is stored: what goes below a bare mount point is hidden as soon as the volume comes back, and
 *    other workers never see it.
 * 2. The file is made only with the root itself, or where artifacts are already: an empty folder may be a bare mount point.
 */
import { mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { access } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { CountersignError } from '../../contracts/errors.ts';

export const MARKER = '.countersign-store';

const TEXT = 'Countersign keeps artifacts in this directory. Without this file nothing more is stored here.\n';
/** The first level of folders, see `directory.ts`. */
const SHARD = /^[0-9a-f]{2}$/;

/**
 * For the start of a worker; a second call changes nothing.
 *
 * @param mayCreate where there is nothing at all
 * @throws CountersignError `SETUP_INCOMPLETE`
 */
export function setUpRoot(root: string, mayCreate: boolean): void {
  const found = entriesOf(root);
  if (found?.includes(MARKER) === true) return;
  if (found === undefined && mayCreate) create(root);
  else if (found?.some((name) => SHARD.test(name)) === true) writeFileSync(join(root, MARKER), TEXT, { mode: 0o600 });
  else throw notSetUp(root);
}

/** @throws CountersignError `ARTIFACT_MISSING` where the store is not there now. */
export async function assertRoot(root: string): Promise<void> {
  try {
    await access(join(root, MARKER));
  } catch (error) {
    if (!isAbsent(error)) throw error;
    throw new CountersignError(
      'ARTIFACT_MISSING',
      `The artifact store is not at ${root}: its file ${MARKER} is not there. Mount its volume on this worker; it is tried again.`,
      {},
      { cause: error },
    );
  }
}

/** Under another name first, so that a worker that starts at the same time finds either nothing or a root with its file. */
function create(root: string): void {
  mkdirSync(dirname(root), { recursive: true, mode: 0o700 });
  const made = mkdtempSync(`${root}.`);
  try {
    writeFileSync(join(made, MARKER), TEXT, { mode: 0o600 });
    renameSync(made, root);
  } catch (error) {
    rmSync(made, { recursive: true, force: true });
    // Another worker was first: a folder that is not empty is not replaced.
    if (entriesOf(root)?.includes(MARKER) !== true) throw error;
  }
}

function entriesOf(root: string): readonly string[] | undefined {
  try {
    return readdirSync(root);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

function notSetUp(root: string): CountersignError {
  return new CountersignError(
    'SETUP_INCOMPLETE',
    `The artifact directory ${root} is not set up: it has no file ${MARKER}. Where a volume belongs there, mount it. For a new store: mkdir -p '${root}' && touch '${root}/${MARKER}'`,
    { path: 'artifacts.directory' },
  );
}

function isAbsent(error: unknown): boolean {
  return ['ENOENT', 'ENOTDIR'].includes(String(codeOf(error)));
}

/** Not by instanceof: errors of Node's core are of another realm under jest. */
function codeOf(error: unknown): unknown {
  return typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;
}
