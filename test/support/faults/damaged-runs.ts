/**
 * Keeps runs that a query has really damaged. `asked-elsewhere.ts` makes them without the guard, for tests of the
 * diagnosis.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { historyFromJSON, historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { readEntries } from '../../../client/ledger/ledger.ts';
import type { LedgerEntry } from '../../../contracts/schemas/ledger.ts';
import type { LedgerPage } from '../../../contracts/schemas/run-state.ts';
import type { History } from '../../../workers/replay/recorded-history.ts';
import { executions, storedLedger } from '../world/run-record.ts';
import type { FaultWorld } from './world.ts';

export const FOLDER = fileURLToPath(new URL('../../replay/damaged', import.meta.url));

export interface DamagedRun {
  readonly workflowId: string;
  /** Histories, oldest first. */
  readonly histories: readonly History[];
  /** The ledger as the misled worker wrote it, and as the run tells it now. Absent if the two cannot be had. */
  readonly ledger?: { readonly copy: readonly LedgerEntry[]; readonly run: readonly LedgerEntry[] };
}

export async function damagedRun(name: string): Promise<DamagedRun> {
  // Sound: `keepDamaged` wrote the file.
  const kept = JSON.parse(await readFile(join(FOLDER, `${name}.json`), 'utf8')) as DamagedRun;
  return { ...kept, histories: kept.histories.map((history) => historyFromJSON(history)) };
}

/** @param told the run's ledger before the run was rebuilt */
export async function keepDamaged(world: FaultWorld, path: string, workflowId: string, told: string): Promise<void> {
  const histories = (await executions(world, workflowId)).map(({ history }) => historyToJSON(history));
  const ledger = await ledgersOf(world, workflowId, told);
  const lines = histories.map((text) => {
    // Sound: `historyToJSON` writes one object with a list of events.
    const { events } = JSON.parse(text) as { readonly events: readonly unknown[] };
    return `{"events":[\n${events.map((event) => JSON.stringify(event)).join(',\n')}\n]}`;
  });
  const text = `{"workflowId":${JSON.stringify(workflowId)},${ledger === undefined ? '' : `"ledger":${JSON.stringify(ledger)},`}"histories":[\n${lines.join(',\n')}\n]}\n`;
  await writeFile(path, text.replaceAll(`@${hostname()}`, '@worker.example'));
}

async function ledgersOf(world: FaultWorld, workflowId: string, told: string): Promise<DamagedRun['ledger']> {
  const { client, artifacts } = world;
  const run = await readEntries(client, { workflowId, artifacts }, { from: 0, most: Number.POSITIVE_INFINITY }).catch(
    () => undefined,
  );
  if (run === undefined) return undefined;
  const stored = await storedLedger(world, { runId: workflowId });
  // Sound: the text is a ledger from the answer to a query.
  const copy = stored.length > 0 ? stored : (JSON.parse(told) as LedgerPage).entries;
  return JSON.stringify(copy) === JSON.stringify(run) || copy[0]?.seq !== 0 ? undefined : { copy, run };
}
