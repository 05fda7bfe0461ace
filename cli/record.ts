/** The ledger of a run or of a catalog, by workflow id. */
import { catalogOf } from '../client/catalog-list.ts';
import type { Countersign, LedgerEntry } from '../client/index.ts';

export interface LedgerHead {
  readonly ledgerLength: number;
  readonly ledgerHead: string;
}

export interface LedgerOwner {
  /** What whoever wrote it says of it. */
  head(): Promise<LedgerHead>;
  ledger(): Promise<readonly LedgerEntry[]>;
}

export function ledgerOwner(countersign: Countersign, workflowId: string): LedgerOwner {
  const identity = catalogOf(workflowId);
  if (identity === undefined) {
    const run = countersign.run(workflowId);
    return { head: () => run.state(), ledger: () => run.ledger() };
  }
  const catalog = countersign.catalog(identity.server, identity.tenant);
  return { head: () => catalog.snapshot(), ledger: () => catalog.ledger() };
}
