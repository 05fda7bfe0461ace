/** Reads ledgers from files: the directory sink's records, and exports. Temporal is not asked. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CountersignError, nodeCodeOf } from '../../contracts/errors.ts';
import { type AnyEntry, LedgerLine } from '../../contracts/schemas/ledger.ts';
import type { LedgerFault } from './check.ts';
import type { HeadPlace } from './heads.ts';

export interface LedgerCopy {
  readonly place: HeadPlace;
  /** Entries in the order in which they stand in the file. */
  readonly entries: readonly AnyEntry[];
  readonly signedHeads: readonly string[];
  readonly faults: readonly LedgerFault[];
  /** Set for what `ledger.directory` holds: a run goes on only once it has all that was recorded until then. */
  readonly isRecord?: true;
}

/** @param name of the file, named in faults */
export function readLines(text: string, workflowId: string, name: string): LedgerCopy {
  const entries: AnyEntry[] = [];
  const signedHeads: string[] = [];
  const faults: LedgerFault[] = [];
  let place: HeadPlace = { workflowId };
  const lines = text.split('\n');
  for (const [index, line] of lines.entries()) {
    const isLast = index === lines.length - 1;
    if (line === '' && isLast) break;
    const parsed = LedgerLine.safeParse(jsonOf(line));
    const fault = (kind: 'truncated' | 'unreadable', what: string): void => {
      const seq = (entries.at(-1)?.seq ?? -1) + 1;
      faults.push({ kind, seq, reason: `should follow in ${name}, whose line ${index + 1} is ${what}` });
    };
    if (!parsed.success) {
      if (isLast) fault('truncated', 'cut off');
      else fault('unreadable', 'no ledger line');
      continue;
    }
    const { namespace, firstRunId } = parsed.data;
    const isOther =
      parsed.data.workflowId !== workflowId ||
      (place.firstRunId ?? firstRunId) !== firstRunId ||
      (place.namespace ?? namespace) !== namespace;
    if (isOther) {
      fault('unreadable', 'of another run');
      continue;
    }
    place = { namespace, workflowId, firstRunId };
    if ('entry' in parsed.data) entries.push(parsed.data.entry);
    else signedHeads.push(parsed.data.signedHead);
  }
  return { place, entries, signedHeads, faults };
}

/**
 * Reads what `ledger.directory` holds of a run.
 *
 * @param firstRunId needed if there were several runs of this id
 * @throws CountersignError `RUN_NOT_FOUND`, `USAGE`
 */
export async function readRecords(root: string, workflowId: string, firstRunId?: string): Promise<LedgerCopy> {
  const folders = await foldersOf(root, workflowId, firstRunId);
  const [folder, another] = folders;
  const facts = { runId: workflowId };
  if (folder === undefined)
    throw new CountersignError('RUN_NOT_FOUND', `There is no record of ${workflowId} in ${root}.`, facts);
  if (another !== undefined) {
    const message = `There are records of ${folders.length} runs of this id. Name one with --first-run: ${folders.map(({ first }) => first).join(', ')}.`;
    throw new CountersignError('USAGE', message, facts);
  }
  const names = (await readdir(folder.path).catch(unreadable(folder.path))).filter((name) => name.endsWith('.jsonl'));
  const files: (LedgerCopy & { readonly name: string })[] = [];
  // One at a time: a long run has more files than a process may open.
  for (const name of names.toSorted()) {
    const path = join(folder.path, name);
    files.push({ ...readLines(await readFile(path, 'utf8').catch(unreadable(path)), workflowId, name), name });
  }
  return {
    place: { ...files.find(({ place }) => place.firstRunId)?.place, workflowId, firstRunId: folder.first },
    entries: files.flatMap(({ entries }) => entries),
    signedHeads: files.flatMap(({ signedHeads }) => signedHeads),
    faults: files.flatMap((file) => mended(file, files)),
    isRecord: true,
  };
}

type RecordFile = Pick<LedgerCopy, 'entries' | 'faults'> & { readonly name: string };

/** Drops the fault of a file that a crash cut off, if another file has the missing entries. */
function mended(file: RecordFile, files: readonly RecordFile[]): readonly LedgerFault[] {
  const last = file.entries.at(-1);
  const isMended =
    last === undefined
      ? isWrittenAgain(file, files)
      : files.some(({ name, entries: [first] }) => name > file.name && first?.prev === last.hash);
  return isMended ? file.faults.filter(({ kind }) => kind !== 'truncated') : file.faults;
}

/** The name of a file says where it began. What a reset put beside it has its own name, and is not what was lost. */
function isWrittenAgain({ name: lost }: RecordFile, files: readonly RecordFile[]): boolean {
  const stem = lost.replace(/(?:-again)*\.jsonl$/, '');
  const [, seq, prev = ''] = /^(\d{12})-([0-9a-f]{16})/.exec(stem) ?? [];
  return files.some(
    ({ name, entries }) =>
      (!name.startsWith(`${stem}-`) || name.startsWith(`${stem}-again`)) &&
      entries.some((entry) => entry.seq === Number(seq) && entry.prev.startsWith(prev)),
  );
}

async function foldersOf(
  root: string,
  workflowId: string,
  firstRunId: string | undefined,
): Promise<{ readonly path: string; readonly first: string }[]> {
  const shown = `${encodeURIComponent(workflowId).slice(0, 120)}~`;
  const found: { path: string; first: string }[] = [];
  const letters = await readdir(root, { withFileTypes: true }).catch(unreadable(root));
  // A volume may have folders of its own beside those of the sink.
  for (const { name: letter } of letters.filter((entry) => entry.isDirectory() && entry.name.length === 2))
    for (const name of await readdir(join(root, letter)).catch(unreadable(join(root, letter)))) {
      const first = name.slice(shown.length);
      if (name.startsWith(shown) && (firstRunId ?? first) === first && !first.includes('~'))
        found.push({ path: join(root, letter, name), first });
    }
  return found;
}

function unreadable(path: string): (error: unknown) => never {
  return (error) => {
    const message = `${path} cannot be read (${nodeCodeOf(error) ?? 'error'}). Is it there? The user of the workers alone may read records: verify as that user, or name a copy.`;
    throw new CountersignError('USAGE', message, {}, { cause: error });
  };
}

/** @returns undefined if the line is not JSON */
export function jsonOf(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

export function fieldOf(value: unknown, field: string): unknown {
  // Sound: an object may be read at any name; what comes out is unknown.
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[field] : undefined;
}

export function listAt(value: unknown, field: string): readonly unknown[] {
  const list = fieldOf(value, field);
  return Array.isArray(list) ? list : [];
}

export function textAt(value: unknown, field: string): string | undefined {
  const found = fieldOf(value, field);
  return typeof found === 'string' ? found : undefined;
}
