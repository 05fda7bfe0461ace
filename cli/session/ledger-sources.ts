/** Reads the ledgers that `verify-ledger` and `ledger --export` work on: a run's own, or a copy. */
import { resolve } from 'node:path';
import { z } from 'zod';
import { catalogOf } from '../../client/catalog/list.ts';
import type { Countersign } from '../../client/index.ts';
import { conversationFaults, type LedgerFault } from '../../client/ledger/check.ts';
import { jsonOf, type LedgerCopy, readLines, readRecords } from '../../client/ledger/files.ts';
import { ledgerPlace, readSegments } from '../../client/ledger/ledger.ts';
import { AnyEntry, type LedgerEntry } from '../../contracts/schemas/ledger.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { textOf } from './files.ts';
import { artifactReader, inTime, loadClientSettings, type Session } from './session.ts';
import { type GlobalOptions, usage } from './options.ts';
import { ledgerOfStuck, type StuckRun, toldOrRead } from './stuck-run.ts';
import type { Terminal } from './terminal.ts';

interface SourceOptions extends GlobalOptions {
  readonly file?: string;
  readonly records?: string;
  readonly segment?: string;
  readonly firstRun?: string;
}

/** Heads and later entries cannot miss what was deleted as a whole. */
const NOTHING: LedgerFault = { kind: 'missing', seq: 0, reason: 'is missing: the copy holds no entry at all' };

export async function namedCopy(
  runId: string,
  options: SourceOptions,
  terminal: Terminal,
): Promise<LedgerCopy | undefined> {
  const copy = await copyFrom(runId, options, terminal);
  return copy?.entries.length === 0 ? { ...copy, faults: [...copy.faults, NOTHING] } : copy;
}

async function copyFrom(runId: string, options: SourceOptions, terminal: Terminal): Promise<LedgerCopy | undefined> {
  const { file, records, segment, firstRun } = options;
  if ([file, records, segment].filter((source) => source !== undefined).length > 1)
    throw usage('Name one of --file, --records and --segment.');
  if (firstRun !== undefined && records === undefined)
    throw usage('--first-run is of --records. Name the directory too, or leave it out.');
  if (records !== undefined) return await readRecords(resolve(terminal.directory, records), runId, firstRun);
  if (file !== undefined) return exported(runId, await textOf(file, `ledger file ${file}`, terminal));
  if (segment === undefined) return undefined;
  const { artifacts } = await loadClientSettings(options.config, terminal);
  const { entries, messages } = await readSegments(artifactReader(artifacts), segment, runId);
  return { place: { workflowId: runId }, entries, signedHeads: [], faults: conversationFaults(entries, messages) };
}

/** Reads the ledger from the run; if the run is stuck, from its history. */
export async function liveLedger(
  session: Session,
  runId: string,
): Promise<{ readonly entries: readonly LedgerEntry[]; readonly stuck?: StuckRun }> {
  const { told, stuck } = await toldOrRead(session, runId, () => ledgerOwner(session.countersign, runId).ledger());
  return stuck === undefined ? { entries: told } : { entries: await ledgerOfStuck(session, stuck), stuck };
}

export type LiveCopy = LedgerCopy & { readonly stuck?: StuckRun };

export async function liveCopy(session: Session, runId: string): Promise<LiveCopy> {
  const { entries, stuck } = await liveLedger(session, runId);
  const place = await inTime(session, async () => await ledgerPlace(session.client, runId));
  return { place, entries, signedHeads: [], faults: [], ...(stuck && { stuck }) };
}

const ExportedLedger = z.object({ runId: z.string(), entries: z.array(AnyEntry) });

/** Parses the output of `ledger --json`, or lines of a record or of `ledger --export jsonl`. */
function exported(runId: string, text: string): LedgerCopy {
  const whole = ExportedLedger.safeParse(jsonOf(text));
  if (whole.success) {
    if (whole.data.runId !== runId) throw usage('The ledger file is of another run.', { runId: whole.data.runId });
    return { place: { workflowId: runId }, entries: whole.data.entries, signedHeads: [], faults: [] };
  }
  const copy = readLines(text, runId, 'the file');
  // An empty file is a copy that has lost everything, and is reported as that.
  if (copy.entries.length > 0 || text === '') return copy;
  // The text is neither form; the error describes what the form of --json would need.
  parseAs(ExportedLedger, jsonOf(text), 'USAGE', 'ledger file');
  return copy;
}

/** Runs and catalogs both have a ledger; the workflow id says which of them owns it. */
export function ledgerOwner(countersign: Countersign, workflowId: string) {
  const identity = catalogOf(workflowId);
  if (identity === undefined) {
    const run = countersign.run(workflowId);
    return { head: () => run.state(), ledger: () => run.ledger() };
  }
  const catalog = countersign.catalog(identity.server, identity.tenant);
  return { head: () => catalog.snapshot(), ledger: () => catalog.ledger() };
}
