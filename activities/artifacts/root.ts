/**
 * Recognises the root of a directory store by a marker file, since the same path without its volume is only a bare
 * mount point.
 *
 * 1. Without the marker nothing is stored: files below a bare mount point are hidden as soon as the volume comes back.
 * 2. The marker is made only with the root itself: a folder without it may be a bare mount point.
 * 3. The namespaces whose workers keep artifacts here are recorded beside the marker, before they store anything, for
 *    code that removes artifacts (`client/artifacts/sweep.ts`). No worker removes one: runs outlast workers.
 */
import { mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { access, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { CountersignError, type ErrorCode, nodeCodeOf } from '../../contracts/errors.ts';
import { STORE_NAMESPACES, type StoreNamespace } from '../../contracts/schemas/stores.ts';
import { replace } from '../kit/durable-file.ts';

export const MARKER = '.countersign-store';

export interface RootKind {
  readonly marker: string;
  readonly what: string;
  /** Its field of the configuration. */
  readonly path: string;
  /** Code of the failure if the store is not there now. */
  readonly missing: ErrorCode;
}

const ARTIFACTS: RootKind = {
  marker: MARKER,
  what: 'artifact',
  path: 'artifacts.directory',
  missing: 'ARTIFACT_MISSING',
};

/** @param mayCreate allows a new root if the path does not exist. @throws CountersignError `SETUP_INCOMPLETE` */
export function setUpRoot(root: string, mayCreate: boolean, kind = ARTIFACTS): void {
  try {
    const found = entriesOf(root);
    if (found?.includes(kind.marker) === true) return;
    if (found !== undefined || !mayCreate) throw notSetUp(root, kind);
    create(root, kind);
  } catch (error) {
    throw error instanceof CountersignError ? error : unusable(root, kind, error);
  }
}

/** Makes the root under another name first: other workers find either nothing or a root with its marker. */
function create(root: string, kind: RootKind): void {
  mkdirSync(dirname(root), { recursive: true, mode: 0o700 });
  const made = mkdtempSync(`${root}.`);
  const text = `Countersign keeps its ${kind.what} store in this directory. Without this file nothing more is stored here.\n`;
  try {
    writeFileSync(join(made, kind.marker), text, { mode: 0o600 });
    renameSync(made, root);
  } catch (error) {
    rmSync(made, { recursive: true, force: true });
    // Another worker was first: a folder that is not empty is not replaced.
    if (entriesOf(root)?.includes(kind.marker) !== true) throw error;
  }
}

/** @throws CountersignError with the code of the kind if the store is not there now */
export async function assertRoot(root: string, { marker, what, missing } = ARTIFACTS): Promise<void> {
  try {
    await access(join(root, marker));
  } catch (error) {
    if (!['ENOENT', 'ENOTDIR'].includes(nodeCodeOf(error) ?? '')) throw error;
    const message = `The ${what} store is not at ${root}: its file ${marker} is not there. Mount its volume on this worker; a run that waits then goes on.`;
    throw new CountersignError(missing, message, {}, { cause: error });
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
  const message = `The ${what} directory ${root} is not set up: it has no file ${marker}. Where a volume belongs there, mount it. If its files are there and only this one is gone, as after a copy without hidden files: touch '${root}/${marker}'. For a new store: mkdir -p '${root}' && touch '${root}/${marker}'`;
  return new CountersignError('SETUP_INCOMPLETE', message, { path });
}

function unusable(root: string, { what, path }: RootKind, cause: unknown): CountersignError {
  const message = `The ${what} directory ${root} cannot be used (${nodeCodeOf(cause) ?? 'error'}). See that there is space, and that the user of this process may read and write it, and try again.`;
  return new CountersignError('SETUP_INCOMPLETE', message, { path }, { cause });
}

/** Records the namespace; a second call changes nothing. @param root with its marker */
export async function recordNamespace(root: string, { name, id }: StoreNamespace): Promise<void> {
  const path = join(root, STORE_NAMESPACES, `${id}.json`);
  const text = `${JSON.stringify({ name, id } satisfies StoreNamespace)}\n`;
  if ((await readFile(path, 'utf8').catch(() => undefined)) === text) return;
  await replace(root, path, text).catch((error: unknown) => {
    throw unusable(root, ARTIFACTS, error);
  });
}
