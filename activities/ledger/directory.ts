/**
 * A `LedgerSink` in a directory: a folder for each run, a JSONL file for each record, never changed once it has its name.
 *
 *     <root>/3f/nightly-42~3f0c…/000000000000-0000000000000000.jsonl    entries from 0 on, then their signed head
 *     <root>/3f/nightly-42~3f0c…/000000000057-9b1e02c4d5a67f88.jsonl    entries from 57 on, after the one of this hash
 *
 * 1. A name holds the number of its first entry and the hash before it, and is given by `link`, which fails where there is
 *    one: of two workers that add the same stretch one is second, without a lock and also after a crash.
 * 2. Files are whole or not there, for the owner alone (`durable-file.ts`); the record is acknowledged then.
 */
import { join } from 'node:path';
import { CountersignError } from '../../contracts/errors.ts';
import { nodeCodeOf } from '../../contracts/node-code.ts';
import type { LedgerEntry } from '../../contracts/schemas/ledger.ts';
import type { LedgerLine, LedgerRecord } from '../../contracts/schemas/ledger-record.ts';
import { canonicalJson } from '../../domain/canonical.ts';
import { GENESIS } from '../../domain/ledger.ts';
import { assertRoot, type RootKind } from '../artifacts/root.ts';
import { syncFolders, writeNew } from '../durable-file.ts';
import { readRecorded, type Recorded } from './directory-reading.ts';
import type { LedgerSink } from './port.ts';
import { conflict, unavailable } from './refusal.ts';

export const LEDGER_ROOT: RootKind = {
  marker: '.countersign-ledger',
  what: 'ledger',
  path: 'ledger.directory',
  content: /^[0-9a-z]{2}$/,
  missing: 'LEDGER_UNAVAILABLE',
};

/** Each loss means that another worker has added something. */
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
        throw unavailable(record, `its directory cannot be written (${nodeCodeOf(error) ?? 'error'})`, {}, error);
      }
    },
  };
}

export function folderOf(root: string, { workflowId, firstRunId }: LedgerRecord['head']): string {
  // For people; what tells runs apart is the Temporal run id.
  const shown = encodeURIComponent(workflowId).slice(0, 120);
  return join(root, firstRunId.slice(0, 2).toLowerCase(), `${shown}~${firstRunId}`);
}

/** False where another worker was first: the folder is to be read again. */
async function added(root: string, record: LedgerRecord): Promise<boolean> {
  const folder = folderOf(root, record.head);
  const known = await readRecorded(folder, record);
  const unknown = record.entries.slice(record.entries.findIndex(({ hash }) => !known.byHash.has(hash)));
  const [first] = unknown;
  if (first === undefined || known.byHash.has(first.hash)) {
    // Whoever wrote it may have died before this.
    await syncFolders(root, folder);
    return true;
  }
  const isReset = mustContinue(first, record, known);
  const { seq, prev } = first;
  const branch = isReset ? `-${record.head.runId}` : '';
  const name = `${String(seq).padStart(12, '0')}-${prev.slice(0, 16)}${branch}.jsonl`;
  return await writeNew(root, join(folder, name), linesOf(record, unknown));
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
