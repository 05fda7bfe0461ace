/** Runs that a query has really damaged, in files: what the fault suite leaves without the guard, for the diagnosis. */
import { readFile, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { historyFromJSON, historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { readLedger } from '../../client/ledger.ts';
import type { LedgerEntry } from '../../contracts/schemas/ledger.ts';
import type { LedgerPage } from '../../contracts/schemas/run-state.ts';
import type { History } from '../../workers/recorded-history.ts';
import type { FaultWorld } from './fault-world.ts';
import { executions, storedLedger } from './run-record.ts';

export const FOLDER = fileURLToPath(new URL('../replay/damaged', import.meta.url));

export interface DamagedRun {
  readonly workflowId: string;
  /** Oldest first. */
  readonly histories: readonly History[];
  /** As the worker wrote it that a query had misled; and as the run tells it by now. Absent where the two cannot be had. */
  readonly ledger?: { readonly copy: readonly LedgerEntry[]; readonly run: readonly LedgerEntry[] };
}

export async function damagedRun(name: string): Promise<DamagedRun> {
  // Sound: written below.
  const kept = JSON.parse(await readFile(join(FOLDER, `${name}.json`), 'utf8')) as DamagedRun;
  return { ...kept, histories: kept.histories.map((history) => historyFromJSON(history)) };
}

/** @param told ledger of the run before it was rebuilt */
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
  const run = await readLedger(client, { workflowId, artifacts }).catch(() => undefined);
  if (run === undefined) return undefined;
  const stored = await storedLedger(world, { runId: workflowId });
  // Sound: a ledger as it was answered to a query.
  const copy = stored.length > 0 ? stored : (JSON.parse(told) as LedgerPage).entries;
  return JSON.stringify(copy) === JSON.stringify(run) || copy[0]?.seq !== 0 ? undefined : { copy, run };
}
