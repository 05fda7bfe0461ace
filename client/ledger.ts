/** Reads a run's ledger whole, newest execution first asked, older stretches from stored segments; and checks it. */
import type { Client } from '@temporalio/client';
import { CountersignError } from '../contracts/errors.ts';
import { QUERIES } from '../contracts/names.ts';
import type { ArtifactRef } from '../contracts/schemas/json.ts';
import { type LedgerEntry, Segment } from '../contracts/schemas/ledger.ts';
import { parseAs } from '../contracts/schemas/parse.ts';
import type { LedgerPage } from '../contracts/schemas/run-state.ts';
import { type LedgerCheck, verifyChain } from '../domain/ledger.ts';

/** Where closed segments are: the artifact store of the workers, or a copy of it. */
export interface ArtifactReader {
  get(ref: ArtifactRef): Promise<Uint8Array>;
}

export async function readLedger(
  client: Client,
  runId: string,
  artifacts: ArtifactReader | undefined,
): Promise<readonly LedgerEntry[]> {
  const handle = client.workflow.getHandle(runId);
  const living: LedgerEntry[] = [];
  let page = await handle.query<LedgerPage, [number, number]>(QUERIES.ledger, 0, Number.MAX_SAFE_INTEGER);
  const start = page.from;
  for (;;) {
    living.push(...page.entries);
    if (start + living.length >= page.total || page.entries.length === 0) break;
    page = await handle.query<LedgerPage, [number, number]>(
      QUERIES.ledger,
      start + living.length,
      Number.MAX_SAFE_INTEGER,
    );
  }
  return [...(await readSegments(page.segment, artifacts, runId)), ...living];
}

async function readSegments(
  newest: ArtifactRef | undefined,
  artifacts: ArtifactReader | undefined,
  runId: string,
): Promise<LedgerEntry[]> {
  const stretches: LedgerEntry[][] = [];
  for (let ref = newest; ref !== undefined;) {
    if (artifacts === undefined) {
      throw new CountersignError(
        'ARTIFACT_MISSING',
        `The older part of the ledger of ${runId} stands in the artifact store; give this client access to it.`,
        { runId },
      );
    }
    const segment = parseAs(
      Segment,
      JSON.parse(new TextDecoder().decode(await artifacts.get(ref))),
      'ARTIFACT_CORRUPT',
      'stored segment',
    );
    stretches.unshift(segment.ledger.entries);
    ref = segment.previous;
  }
  return stretches.flat();
}

/** @throws CountersignError `LEDGER_BROKEN` */
export function assertIntact(entries: readonly LedgerEntry[], runId: string): Extract<LedgerCheck, { kind: 'intact' }> {
  const check = verifyChain(entries);
  if (check.kind === 'intact') return check;
  throw new CountersignError('LEDGER_BROKEN', `Entry ${check.seq} of the ledger of ${runId} ${check.reason}.`, {
    runId,
    seq: check.seq,
  });
}
