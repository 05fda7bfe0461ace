/**
 * What a catalog hands to its next execution at continue-as-new: all of it, the ends of its ledger, and the newest entries.
 *
 * 1. All of it is one payload, of which Temporal takes 2 MiB (`limit.blobSize.error`): a catalog that would not fit could not go on.
 */
import type { LedgerEntry, LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { CatalogTrust } from '../../contracts/schemas/trust.ts';
import type { JournalHead } from '../run/journal.ts';
import { byteLength } from '../text/canonical.ts';
import { PAGE_BYTES } from '../text/page.ts';
import { type CatalogRefusal, refuse } from './settings.ts';
import type { Catalog, CatalogChange } from './state.ts';

/** Raised when a carried shape changes; an execution refuses a version it does not know. */
export const CATALOG_CARRY_VERSION = 1;
/** With a trust set: an execution that does not know it would take unsigned messages. */
export const SIGNED_CARRY_VERSION = 2;

export interface CatalogCarry {
  readonly version: typeof CATALOG_CARRY_VERSION | typeof SIGNED_CARRY_VERSION;
  readonly catalog: Catalog;
  readonly journal: JournalHead;
  readonly signing?: CarriedTrust;
}

/** In trust mode `signed`. */
interface CarriedTrust {
  readonly trust: CatalogTrust;
  /** Epoch ms. */
  readonly readAt: number;
  /** Temporal runs of the chain for which a message may have been signed. */
  readonly earlier: readonly string[];
}

/** Of what servers and operators say; what a catalog remembers of its messages and its last refresh is bounded and small. */
export const CATALOG_BYTES = 1_048_576;

/** Ledger entries that the next execution is given in its input, and their bytes. */
const MOST_CARRIED = 100;
const MOST_CARRIED_BYTES = 524_288;

/** What keeps a change from being made: without it the catalog could not be handed on, or its ledger not be read. */
export function overLimit({ catalog, facts }: CatalogChange): CatalogRefusal | undefined {
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

/** May these entries go to the next execution in its input? */
export function canBeCarried(entries: readonly LedgerEntry[]): boolean {
  return entries.length <= MOST_CARRIED && bytesOf(entries) <= MOST_CARRIED_BYTES;
}

function bytesOf(value: unknown): number {
  return byteLength(JSON.stringify(value));
}
