/**
 * The state that a catalog hands to its next execution at continue-as-new.
 *
 * 1. The carry is one payload, of which Temporal takes 2 MiB: a larger catalog could not go on.
 */
import type { LedgerEntry, LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { CatalogTrust } from '../../contracts/schemas/trust.ts';
import type { JournalHead } from '../../contracts/wire/carry.ts';
import { byteLength } from '../text/canonical.ts';
import { PAGE_BYTES } from '../text/page.ts';
import { type Refusal, refuse } from '../text/refusal.ts';
import type { Catalog, CatalogChange } from './state.ts';

/** Version of the carry. A changed shape raises the version; an execution refuses an unknown version. */
export const CATALOG_CARRY_VERSION = 1;

export interface CatalogCarry {
  readonly version: typeof CATALOG_CARRY_VERSION;
  readonly catalog: Catalog;
  readonly journal: JournalHead;
  readonly signing?: {
    readonly trust: CatalogTrust;
    /** Time of the last read of the trust set, epoch ms. */
    readonly readAt: number;
    /** Temporal runs of the chain for which a message may have been signed. */
    readonly earlier: readonly string[];
  };
}

/** Bytes of what servers and operators say; the rest is bounded apart, and small. */
export const CATALOG_BYTES = 1_048_576;

/** Ledger entries in the input of the next execution, and their bytes. */
const MOST_CARRIED = 100;
const MOST_CARRIED_BYTES = 524_288;

export function overLimit({ catalog, facts }: CatalogChange): Refusal | undefined {
  const { server, connection, entries, listings, pending } = catalog;
  if (bytesOf({ connection, entries, listings, pending }) > CATALOG_BYTES)
    return refuse(
      'LIMIT_REACHED',
      `The catalog of ${server} would have more than ${CATALOG_BYTES} bytes; shorten its approver lists, or make it two servers. Nothing was changed.`,
      { limit: 'catalog' },
    );
  if (facts.some((fact: LedgerFact) => bytesOf(fact) > PAGE_BYTES))
    return refuse(
      'LIMIT_REACHED',
      `The ledger of the catalog of ${server} would get an entry of more than ${PAGE_BYTES} bytes; change fewer tools at once. Nothing was changed.`,
      { limit: 'catalogChange' },
    );
  return undefined;
}

export function canBeCarried(entries: readonly LedgerEntry[]): boolean {
  return entries.length <= MOST_CARRIED && bytesOf(entries) <= MOST_CARRIED_BYTES;
}

function bytesOf(value: unknown): number {
  return byteLength(JSON.stringify(value));
}
