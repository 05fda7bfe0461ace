/**
 * A refresh updates what the server says of its tools, and nothing that operators say.
 *
 * 1. A refresh takes effect as a whole or not at all.
 * 2. A tool that vanished is kept as `missing` with its policy, and comes back with it.
 * 3. A tool's policy set by an operator is never forgotten, however long the tool is missing.
 * 4. A definition that changed is a drift until an operator acknowledges it.
 */
import { defined, own } from '../../contracts/defined.ts';
import type { CatalogEntry, ToolSetting } from '../../contracts/schemas/catalog.ts';
import type { JsonValue } from '../../contracts/schemas/json.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { RefusedTool, ToolDefinition } from '../../contracts/schemas/tool.ts';
import type { CatalogDiscovery } from '../../contracts/wire/catalog.ts';
import { canonicalJson } from '../text/canonical.ts';
import { type Catalog, type CatalogChange, hasDrifted, withListings } from './state.ts';

/** Missing ones included. Beyond the bound, missing entries without operator policy are dropped, oldest first. */
const MOST_ENTRIES = 1_500;

export interface Found extends CatalogDiscovery {
  readonly refresh: number;
}

/** Applies a refresh. @param at ISO time */
export function discovered(catalog: Catalog, found: Found, at: string): CatalogChange {
  const { refresh, listing } = found;
  const before = new Map(catalog.entries.map((entry) => [entry.name, entry]));
  const present = found.tools.map(({ name, hash }): CatalogEntry => {
    const known = before.get(name);
    const definition = { hash, refresh };
    if (known === undefined) {
      const setting = settingOfNew(catalog.newTools);
      return { name, status: 'available', definition, acknowledged: definition, setting, firstSeen: at, lastSeen: at };
    }
    // An unchanged definition keeps the listing that first held it.
    const kept = hash === known.definition.hash ? known.definition : definition;
    return { ...known, status: 'available', definition: kept, lastSeen: at };
  });
  const names = new Set(found.tools.map(({ name }) => name));
  const absent = catalog.entries
    .filter(({ name }) => !names.has(name))
    .map((entry): CatalogEntry => ({ ...entry, status: 'missing' }));
  const entries = bounded(present, absent);
  const next = withListings({
    ...catalog,
    entries,
    listings: { ...catalog.listings, [refresh]: listing },
    lastRefresh: { refresh, at, ok: true, refused: [...found.refused] },
  });
  return { catalog: next, facts: [refreshedFact(before, entries, found)] };
}

/** Records a failed refresh; only the report changes. @param at ISO time */
export function refreshFailed(
  catalog: Catalog,
  refresh: number,
  { code, message }: { readonly code: string; readonly message: string },
  at: string,
): CatalogChange {
  return {
    catalog: { ...catalog, lastRefresh: { refresh, at, ok: false, code, message, refused: [] } },
    facts: [{ kind: 'catalog.refresh-failed', refresh, code, message }],
  };
}

/** A new tool is enabled, and asks unless the organisation leaves new tools to its strategy. */
export function settingOfNew(newTools: Catalog['newTools']): ToolSetting {
  return { enabled: true, requiresApproval: newTools !== 'strategy', denied: false };
}

/** A server that lists other tools for a while must not remove the policy of an operator. */
function bounded(present: readonly CatalogEntry[], absent: readonly CatalogEntry[]): CatalogEntry[] {
  const isUnsaid = (entry: CatalogEntry): boolean =>
    entry.spokenOf !== true && (entry.acknowledged === undefined || !hasDrifted(entry));
  const kept = [...present, ...absent.filter((entry) => !isUnsaid(entry))];
  const newest = absent
    .filter(isUnsaid)
    .toSorted((one, other) => (one.lastSeen < other.lastSeen ? 1 : -1))
    .slice(0, Math.max(0, MOST_ENTRIES - kept.length));
  return [...kept, ...newest].toSorted((one, other) => (one.name < other.name ? -1 : 1));
}

function refreshedFact(
  before: ReadonlyMap<string, CatalogEntry>,
  after: readonly CatalogEntry[],
  { refresh, listing, tools, refused }: Found,
): LedgerFact {
  const named = (wanted: (was: CatalogEntry | undefined, is: CatalogEntry) => boolean): string[] =>
    after.filter((entry) => wanted(before.get(entry.name), entry)).map(({ name }) => name);
  return {
    kind: 'catalog.refreshed',
    refresh,
    count: tools.length,
    listing: listing.sha256,
    added: named((was) => was === undefined),
    missing: named((was, is) => was?.status === 'available' && is.status === 'missing'),
    returned: named((was, is) => was?.status === 'missing' && is.status === 'available'),
    changed: after.flatMap(({ name, definition }) => {
      const was = before.get(name)?.definition.hash;
      return was === undefined || was === definition.hash ? [] : [{ tool: name, before: was, after: definition.hash }];
    }),
    refused: refused.map(({ name, reason }: RefusedTool) => `${name}: ${reason}`),
  };
}

/** People read the difference of two definitions, field by field, before they acknowledge the newer one. */
export interface FieldDifference {
  /** Path in readable form: `inputSchema.properties.path.type`. */
  readonly path: string;
  readonly before?: JsonValue;
  readonly after?: JsonValue;
}

/** @param before absent if no definition was acknowledged; every field is new then */
export function definitionDiff(before: ToolDefinition | undefined, after: ToolDefinition): readonly FieldDifference[] {
  // Sound: a definition comes from JSON.
  return differences(before as JsonValue | undefined, after as JsonValue, '');
}

function differences(before: JsonValue | undefined, after: JsonValue | undefined, path: string): FieldDifference[] {
  const atTop = path === '';
  const [was, is] = [fieldsOf(before) ?? (atTop ? {} : undefined), fieldsOf(after)];
  if (was !== undefined && is !== undefined) {
    const names = [...new Set([...Object.keys(was), ...Object.keys(is)])].toSorted();
    return names.flatMap((name) =>
      differences(own(was, name), own(is, name), atTop ? shown(name) : `${path}.${shown(name)}`),
    );
  }
  const difference = defined({ before, after });
  return canonicalJson({ value: before }) === canonicalJson({ value: after }) ? [] : [{ path, ...difference }];
}

function shown(name: string): string {
  return /^[\w$-]+$/.test(name) ? name : JSON.stringify(name);
}

function fieldsOf(value: JsonValue | undefined): Readonly<Record<string, JsonValue>> | undefined {
  // Sound: an object that is no list has fields.
  return value !== null && typeof value === 'object' && !Array.isArray(value)
    ? (value as Readonly<Record<string, JsonValue>>)
    : undefined;
}
