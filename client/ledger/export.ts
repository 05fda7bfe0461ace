/** Writes a run's ledger as lines of an export, page by page, so that no reader holds the whole of a long one. */
import { defined } from '../../contracts/defined.ts';
import type { LedgerLine } from '../../contracts/schemas/ledger.ts';
import type { Engine } from '../engine/engine.ts';
import { entriesFrom, ledgerPage, type LedgerSource } from './ledger.ts';

/** @throws CountersignError `RUN_NOT_FOUND`, `ENGINE_UNAVAILABLE`, `ARTIFACT_…` */
export async function* ledgerLines(engine: Engine, source: LedgerSource): AsyncGenerator<LedgerLine> {
  const { workflowId } = source;
  const { client, namespace } = engine;
  const { raw } = await engine.call(workflowId, () => client.workflow.getHandle(workflowId).describe());
  const firstRunId = raw.workflowExecutionInfo?.firstRunId;
  const known = typeof firstRunId === 'string' && firstRunId !== '' ? firstRunId : undefined;
  const place = { namespace, workflowId, ...defined({ firstRunId: known }) };
  const pages = async (from: number) => await engine.query(workflowId, () => ledgerPage(client, source, from));
  for await (const entry of entriesFrom(source, 0, pages)) yield { ...place, entry };
}
