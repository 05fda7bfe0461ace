/**
 * This `LedgerSink` keeps a folder for each run and a JSONL file for each record, which never changes once it has its
 * name.
 *
 *     <root>/3f/nightly-42~3f0c…/000000000000-0000000000000000.jsonl    entries from 0 on, then their signed head
 *     <root>/3f/nightly-42~3f0c…/000000000057-9b1e02c4d5a67f88.jsonl    entries from 57 on, after the one of this hash
 *
 * 1. A file name holds the number of the first entry and the hash before it. It is given by `link`, which fails if the
 *    name exists: if two workers add the same stretch, one is second, without a lock.
 * 2. Files are whole or not there, for the owner alone (`activities/kit/durable-file.ts`).
 * 3. Before a record is added, only the files from its first entry on are read, and the entry that it follows.
 * 4. A last line without its end counts as absent: after a crash of a file system that lost bytes, the repeated record
 *    is written again; beside a file of which no line is left, under its name with `-again`. Any other damaged line is
 *    refused.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CountersignError, nodeCodeOf } from '../../contracts/errors.ts';
import { type LedgerEntry, LedgerLine, type LedgerRecord } from '../../contracts/schemas/ledger.ts';
import { GENESIS } from '../../domain/run/journal.ts';
import { canonicalJson, hashOf } from '../../domain/text/canonical.ts';
import { assertRoot, type RootKind } from '../artifacts/root.ts';
import { syncFolders, writeNew } from '../kit/durable-file.ts';
import { parsedJson } from '../kit/json.ts';
import { conflict, type LedgerSink, unavailable } from './port.ts';

export const LEDGER_ROOT: RootKind = {
  marker: '.countersign-ledger',
  what: 'ledger',
  path: 'ledger.directory',
  missing: 'LEDGER_UNAVAILABLE',
};

const MOST_RACES = 20;

export function createLedgerDirectory(root: string): LedgerSink {
  return {
    deliver: async (record) => {
      try {
        await assertRoot(root, LEDGER_ROOT);
        for (let races = 0; races < MOST_RACES; races += 1) if (await added(root, record)) return;
        throw unavailable(record, 'other workers write to it all the time');
      } catch (error) {
        if (error instanceof CountersignError) throw error;
        const reason = `ledger.directory ${root} cannot be used (${nodeCodeOf(error) ?? 'error'})`;
        throw unavailable(record, reason, { path: LEDGER_ROOT.path }, error);
      }
    },
  };
}

export function folderOf(root: string, { workflowId, firstRunId }: LedgerRecord['head']): string {
  // The id in the name is for people; the Temporal run id distinguishes runs.
  const shown = encodeURIComponent(workflowId).slice(0, 120);
  return join(root, firstRunId.slice(0, 2).toLowerCase(), `${shown}~${firstRunId}`);
}

/** Returns false if another worker was first. */
async function added(root: string, record: LedgerRecord): Promise<boolean> {
  const folder = folderOf(root, record.head);
  const known = await readRecorded(folder, record);
  const unknown = record.entries.slice(record.entries.findIndex(({ hash }) => !known.byHash.has(hash)));
  const [first] = unknown;
  if (first === undefined || known.byHash.has(first.hash)) {
    // The writer may have died before this sync.
    await syncFolders(root, folder);
    return true;
  }
  const isReset = mustContinue(first, record, known);
  const { seq, prev } = first;
  const branch = isReset ? `-${record.head.runId}` : '';
  let name = `${String(seq).padStart(12, '0')}-${prev.slice(0, 16)}${branch}`;
  while (known.lost.has(`${name}.jsonl`)) name += '-again';
  return await writeNew(root, join(folder, `${name}.jsonl`), linesOf(record, unknown));
}

/** @returns whether it is a branch beside what is recorded */
function mustContinue({ seq, prev, hash }: LedgerEntry, record: LedgerRecord, known: Recorded): boolean {
  if (seq === 0 ? prev !== GENESIS : !known.byHash.has(prev))
    throw conflict(record, seq, 'does not follow what is recorded: entries before it are missing or were changed');
  const rival = known.after.get(prev);
  if (rival === undefined || rival === hash) return false;
  if (record.head.resetOf === undefined) throw conflict(record, seq, 'is another one than is recorded');
  return true;
}

function linesOf({ head, signedHead }: LedgerRecord, entries: readonly LedgerEntry[]): string {
  const { namespace, workflowId, firstRunId } = head;
  const place = { namespace, workflowId, firstRunId };
  const lines: LedgerLine[] = [...entries.map((entry) => ({ ...place, entry })), { ...place, signedHead }];
  return lines.map((line) => `${canonicalJson(line)}\n`).join('');
}

interface Recorded {
  readonly byHash: ReadonlySet<string>;
  /** Hash of an entry → hash of an entry that follows it. */
  readonly after: ReadonlyMap<string, string>;
  /** Names of files without a whole line. */
  readonly lost: ReadonlySet<string>;
}

const NAME = /^(\d{12})-[0-9a-f]{16}(?:-[0-9A-Za-z-]+)?\.jsonl$/;

async function readRecorded(folder: string, record: LedgerRecord): Promise<Recorded> {
  const { from, previousHead } = record.head;
  const byHash = new Set<string>();
  const after = new Map<string, string>();
  const lost = new Set<string>();
  const newestFirst = (await namesIn(folder)).toSorted().toReversed();
  for (const name of newestFirst) {
    const first = Number(NAME.exec(name)?.[1]);
    // The entry before the record's first may be in any branch; each is found by its hash.
    if (first < from && byHash.has(previousHead)) break;
    // A last line without its end counts as absent.
    const lines = (await readFile(join(folder, name), 'utf8')).split('\n').slice(0, -1);
    if (lines.length === 0) lost.add(name);
    for (const [index, line] of lines.entries()) {
      const entry = entryOf(line);
      if (entry === 'damaged') throw conflict(record, first, `stands in ${name}, whose line ${index + 1} is damaged`);
      if (entry === undefined) continue;
      byHash.add(entry.hash);
      after.set(entry.prev, entry.hash);
    }
  }
  return { byHash, after, lost };
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return (await readdir(folder)).filter((name) => NAME.test(name));
  } catch (error) {
    if (nodeCodeOf(error) === 'ENOENT') return [];
    throw error;
  }
}

function entryOf(line: string): { readonly prev: string; readonly hash: string } | 'damaged' | undefined {
  const parsed = LedgerLine.safeParse(parsedJson(line));
  if (!parsed.success) return 'damaged';
  if (!('entry' in parsed.data)) return undefined;
  const { hash, ...body } = parsed.data.entry;
  return hashOf(body) === hash ? { prev: body.prev, hash } : 'damaged';
}
