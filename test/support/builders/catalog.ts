import type {
  CatalogConnection,
  CatalogDecision,
  CatalogEntry,
  CatalogRules,
  CatalogSnapshot,
  ToolChange,
  ToolSetting,
} from '../../../contracts/schemas/catalog.ts';
import type { ArtifactRef } from '../../../contracts/schemas/json.ts';
import { discovered, type Found } from '../../../domain/catalog/discovery.ts';
import { type CatalogPlan, planned, policiesSet } from '../../../domain/catalog/settings.ts';
import { type Catalog, startCatalog } from '../../../domain/catalog/state.ts';
import { sha256Hex } from '../../../domain/text/canonical.ts';
import type { Refusal } from '../../../domain/text/refusal.ts';

export const ann = { id: 'ann', groups: ['ops'] };
export const bob = { id: 'bob', groups: [] };

/** Returns the hash of a definition that this word tells from others. */
export function definition(word: string): string {
  return sha256Hex(word);
}

/** Makes the setting of a tool that agents may use, with no other setting. */
export function toolSetting(over: Partial<ToolSetting> = {}): ToolSetting {
  return { enabled: true, requiresApproval: false, denied: false, ...over };
}

export function catalogEntry(over: Partial<CatalogEntry> = {}): CatalogEntry {
  const seen = { hash: definition('first'), refresh: 1 };
  return {
    name: 'write_file',
    status: 'available',
    definition: seen,
    acknowledged: seen,
    setting: toolSetting(),
    firstSeen: '2026-01-01T00:00:00.000Z',
    lastSeen: '2026-01-01T00:00:00.000Z',
    ...over,
  };
}

export function connection(over: Partial<CatalogConnection> = {}): CatalogConnection {
  return { url: 'https://files.example/mcp', trusted: false, ...over };
}

export function listing(refresh: number): ArtifactRef {
  return { sha256: definition(`listing ${refresh}`), bytes: 10, contentType: 'application/json' };
}

/** Makes a connected catalog with these tools. */
export function catalogOf(entries: readonly CatalogEntry[] = [], over: Partial<Catalog> = {}): Catalog {
  return {
    ...startCatalog({ tenant: 'acme', server: 'files' }),
    status: 'connected',
    connection: connection(),
    policyVersion: 1,
    entries,
    listings: Object.fromEntries(entries.map((entry) => [entry.definition.refresh, listing(entry.definition.refresh)])),
    ...over,
  };
}

/** Makes a server's listing from tool → word of its definition. */
export function foundTools(refresh: number, tools: Readonly<Record<string, string>>, over: Partial<Found> = {}): Found {
  return {
    refresh,
    listing: listing(refresh),
    tools: Object.entries(tools).map(([name, word]) => ({ name, hash: definition(word) })),
    refused: [],
    ...over,
  };
}

/** Returns the ISO time of a refresh; refreshes are one minute apart. */
export function at(refresh: number): string {
  return new Date(Date.UTC(2026, 0, 1, 0, refresh)).toISOString();
}

export function refreshed(catalog: Catalog, refresh: number, tools: Readonly<Record<string, string>>): Catalog {
  return discovered(catalog, foundTools(refresh, tools), at(refresh)).catalog;
}

/** Plans changes that are possible; throws if the test is wrong. */
export function planOf(catalog: Catalog, changes: readonly ToolChange[]): CatalogPlan {
  return taken(planned(catalog, changes));
}

/** Applies changes that are possible. */
export function withPolicies(catalog: Catalog, ...changes: readonly ToolChange[]): Catalog {
  return policiesSet(catalog, planOf(catalog, changes), ann).catalog;
}

export function taken<T extends object>(answer: T | Refusal): T {
  if ('kind' in answer && answer.kind === 'refuse') throw new Error(`refused: ${answer.message}`);
  // Sound: refusals are thrown above.
  return answer as T;
}

export function catalogRules(over: Partial<CatalogRules> = {}): CatalogRules {
  return {
    administrators: [{ ids: ['ann', 'bob'], groups: [], may: ['connect', 'loosen', 'tighten'] }],
    newTools: 'ask',
    loosening: 'countersign',
    ...over,
  };
}

export function catalogDecision(over: Partial<CatalogDecision> = {}): CatalogDecision {
  return { requestId: 'r-1', by: bob, changeId: 'change-1', digest: 'a'.repeat(64), verdict: 'approve', ...over };
}

/** What a catalog answers to who reads it. */
export function catalogSnapshot(
  entries: readonly CatalogEntry[],
  over: Partial<CatalogSnapshot> = {},
): CatalogSnapshot {
  return {
    tenant: 'acme',
    server: 'files',
    status: 'connected',
    revision: 7,
    policyVersion: 3,
    refreshes: 2,
    newTools: 'ask',
    entries: [...entries],
    listings: {},
    pending: [],
    mark: 'first/1',
    ledgerLength: 4,
    ledgerHead: 'a'.repeat(64),
    ...over,
  };
}
