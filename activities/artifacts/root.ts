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
import { CountersignError, type ErrorCode } from '../../contracts/errors.ts';
import { nodeCodeOf } from '../../contracts/node-code.ts';

export const MARKER = '.countersign-store';

/** A store that is kept in a directory. */
export interface RootKind {
  readonly marker: string;
  readonly what: string;
  /** Its field of the configuration. */
  readonly path: string;
  /** What only it has at its root. */
  readonly content: RegExp;
  /** Of the failure where the store is not there now. */
  readonly missing: ErrorCode;
}

const ARTIFACTS: RootKind = {
  marker: MARKER,
  what: 'artifact',
  path: 'artifacts.directory',
  // The first level of folders, see `directory.ts`.
  content: /^[0-9a-f]{2}$/,
  missing: 'ARTIFACT_MISSING',
};

/**
 * For the start of a worker; a second call changes nothing.
 *
 * @param mayCreate where there is nothing at all
 * @throws CountersignError `SETUP_INCOMPLETE`
 */
export function setUpRoot(root: string, mayCreate: boolean, kind = ARTIFACTS): void {
  const found = entriesOf(root);
  if (found?.includes(kind.marker) === true) return;
  if (found === undefined && mayCreate) create(root, kind);
  else if (found?.some((name) => kind.content.test(name)) === true) mark(root, kind);
  else throw notSetUp(root, kind);
}

function mark(root: string, { marker, what }: RootKind): void {
  const text = `Countersign keeps its ${what} store in this directory. Without this file nothing more is stored here.\n`;
  writeFileSync(join(root, marker), text, { mode: 0o600 });
}

/** @throws CountersignError with the code of the kind where the store is not there now. */
export async function assertRoot(root: string, { marker, what, missing } = ARTIFACTS): Promise<void> {
  try {
    await access(join(root, marker));
  } catch (error) {
    if (!isAbsent(error)) throw error;
    throw new CountersignError(
      missing,
      `The ${what} store is not at ${root}: its file ${marker} is not there. Mount its volume on this worker; it is tried again.`,
      {},
      { cause: error },
    );
  }
}

/** Under another name first, so that a worker that starts at the same time finds either nothing or a root with its file. */
function create(root: string, kind: RootKind): void {
  mkdirSync(dirname(root), { recursive: true, mode: 0o700 });
  const made = mkdtempSync(`${root}.`);
  try {
    mark(made, kind);
    renameSync(made, root);
  } catch (error) {
    rmSync(made, { recursive: true, force: true });
    // Another worker was first: a folder that is not empty is not replaced.
    if (entriesOf(root)?.includes(kind.marker) !== true) throw error;
  }
}

function entriesOf(root: string): readonly string[] | undefined {
  try {
    return readdirSync(root);
  } catch (error) {
    if (nodeCodeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

function notSetUp(root: string, { marker, what, path }: RootKind): CountersignError {
  return new CountersignError(
    'SETUP_INCOMPLETE',
    `The ${what} directory ${root} is not set up: it has no file ${marker}. Where a volume belongs there, mount it. For a new store: mkdir -p '${root}' && touch '${root}/${marker}'`,
    { path },
  );
}

function isAbsent(error: unknown): boolean {
  return ['ENOENT', 'ENOTDIR'].includes(nodeCodeOf(error) ?? '');
}
