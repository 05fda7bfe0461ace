/**
 * The state of a catalog without its ledger: immutable, and all of it carried through continue-as-new.
 *
 * 1. Discovery owns what the server says, operators own policy: no transition of one touches the other.
 * 2. Every transition returns the facts that it adds to the ledger; nothing changes without a fact.
 */
import type { Approver } from '../../contracts/schemas/request.ts';
import type {
  CatalogAck,
  CatalogConnection,
  CatalogEntry,
  CatalogSnapshot,
  PendingChange,
} from '../../contracts/schemas/catalog.ts';
import type { ArtifactRef } from '../../contracts/schemas/json.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { CatalogIdentity } from '../../contracts/wire/catalog.ts';

type Shown = 'status' | 'connection' | 'revision' | 'policyVersion' | 'refreshes' | 'lastRefresh' | 'newTools';

/** `newTools` is the organisation's rule at the time of the last message. */
export interface Catalog extends CatalogIdentity, Readonly<Pick<CatalogSnapshot, Shown>> {
  readonly entries: readonly CatalogEntry[];
  readonly listings: Readonly<Record<string, ArtifactRef>>;
  readonly pending: readonly PendingChange[];
  readonly changesOpened: number;
  /** The newest answers, so that a resent message gets the same one; `digest` is of the message. */
  readonly answered: readonly { readonly ack: CatalogAck; readonly digest: string }[];
}

export interface CatalogChange {
  readonly catalog: Catalog;
  readonly facts: readonly LedgerFact[];
}

const MOST_ANSWERED = 200;

export function startCatalog({ tenant, server }: CatalogIdentity): Catalog {
  return {
    tenant,
    server,
    status: 'new',
    revision: 0,
    policyVersion: 0,
    refreshes: 0,
    newTools: 'ask',
    entries: [],
    listings: {},
    pending: [],
    changesOpened: 0,
    answered: [],
  };
}

/** Returns the workflow id of a catalog; the encoding keeps separators out of its parts. */
export function catalogId({ tenant, server }: CatalogIdentity): string {
  return `catalog/${encodeURIComponent(tenant)}/${encodeURIComponent(server)}`;
}

/** Connects the catalog. A new URL means another server: definitions acknowledged for the old one do not count. */
export function connected(catalog: Catalog, connection: CatalogConnection, by: Approver): CatalogChange {
  const policyVersion = catalog.policyVersion + 1;
  const moved = catalog.connection !== undefined && catalog.connection.url !== connection.url;
  return {
    catalog: {
      ...catalog,
      status: 'connected',
      connection,
      policyVersion,
      entries: moved ? catalog.entries.map(ofAnotherServer) : catalog.entries,
    },
    facts: [
      { kind: 'catalog.connected', tenant: catalog.tenant, server: catalog.server, by, connection, policyVersion },
    ],
  };
}

/** The tool is missing until the new server has listed it. */
function ofAnotherServer({ acknowledged: _, ...entry }: CatalogEntry): CatalogEntry {
  return { ...entry, status: 'missing' };
}

/** Disconnects the catalog. Its policy stays, and applies again with the next connection. */
export function disconnected(catalog: Catalog, by: Approver): CatalogChange {
  const policyVersion = catalog.policyVersion + 1;
  return {
    catalog: { ...catalog, status: 'disconnected', policyVersion },
    facts: [{ kind: 'catalog.disconnected', by, policyVersion }],
  };
}

/** Counts a refresh; its number tells its end from that of an earlier refresh. */
export function refreshAsked(catalog: Catalog): Catalog {
  return { ...catalog, refreshes: catalog.refreshes + 1 };
}

export function answered(catalog: Catalog, ack: CatalogAck, digest: string): Catalog {
  return { ...catalog, answered: [...catalog.answered, { ack, digest }].slice(-MOST_ANSWERED) };
}

export function entryOf(catalog: Pick<Catalog, 'entries'>, tool: string): CatalogEntry | undefined {
  return catalog.entries.find(({ name }) => name === tool);
}

export function hasDrifted({ definition, acknowledged }: CatalogEntry): boolean {
  return acknowledged?.hash !== definition.hash;
}

/** Drops the listings that no entry needs. */
export function withListings(catalog: Catalog): Catalog {
  const used = new Set(
    catalog.entries.flatMap(({ definition, acknowledged }) => [
      String(definition.refresh),
      ...(acknowledged === undefined ? [] : [String(acknowledged.refresh)]),
    ]),
  );
  return {
    ...catalog,
    listings: Object.fromEntries(Object.entries(catalog.listings).filter(([number]) => used.has(number))),
  };
}
