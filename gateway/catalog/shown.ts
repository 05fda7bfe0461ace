/** Shows a snapshot of a catalog as the gateway's answers have it: rows, counts, tools, changes that wait. */
import type { EffectiveVerdict } from '../../client/index.ts';
import { defined } from '../../contracts/defined.ts';
import type { CatalogEntry, CatalogRules, CatalogSnapshot, PendingChange } from '../../contracts/schemas/catalog.ts';
import type {
  CatalogCounts,
  CatalogRefreshed,
  CatalogRow,
  CatalogTool,
  ShownPending,
  ShownVerdict,
} from '../../contracts/schemas/http/catalogs.ts';
import type { LedgerEntry } from '../../contracts/schemas/ledger.ts';
import type { Approver } from '../../contracts/schemas/request.ts';
import { pendingOffers } from '../../domain/catalog/rights.ts';
import { changedSetting } from '../../domain/catalog/settings.ts';
import { entryOf, hasDrifted } from '../../domain/catalog/state.ts';
import { inWords } from '../../domain/policy/approvers.ts';

/** Returns the changes that can still be decided; the others are closed when the catalog next changes. */
export function openChanges({ pending }: Pick<CatalogSnapshot, 'pending'>, now: number): readonly PendingChange[] {
  return pending.filter(({ deadline }) => Date.parse(deadline) > now);
}

export function rowOf(snapshot: CatalogSnapshot, now: number): CatalogRow {
  const { server, status, connection, policyVersion, entries, refreshes, lastRefresh } = snapshot;
  return {
    server,
    status,
    ...defined({ url: connection?.url }),
    version: policyVersion,
    counts: countsOf(entries),
    waiting: openChanges(snapshot, now).length,
    refreshing: status === 'connected' && refreshes > (lastRefresh?.refresh ?? 0),
    ...defined({ lastRefresh }),
  };
}

type Counted = Pick<CatalogTool, 'setting' | 'changed' | 'status'>;

/** Says of each count whether a tool is in it. */
export const IS_COUNTED: Readonly<Record<keyof CatalogCounts, (tool: Counted) => boolean>> = {
  tools: () => true,
  enabled: ({ setting }) => setting.enabled,
  asking: ({ setting, changed }) => setting.enabled && !setting.denied && (setting.requiresApproval || changed),
  denied: ({ setting }) => setting.enabled && setting.denied,
  changed: ({ changed }) => changed,
  missing: ({ status }) => status === 'missing',
};

export function countsOf(entries: readonly CatalogEntry[]): CatalogCounts {
  const tools = entries.map((entry) => ({ ...entry, changed: hasDrifted(entry) }));
  const counts = Object.entries(IS_COUNTED).map(([name, isIn]) => [name, tools.filter(isIn).length] as const);
  // Sound: the table has every count.
  return Object.fromEntries(counts) as Record<keyof CatalogCounts, number>;
}

export function toolOf(entry: CatalogEntry, verdict: EffectiveVerdict | undefined): CatalogTool {
  const { name, status, definition, acknowledged, setting, firstSeen, lastSeen } = entry;
  return {
    name,
    status,
    changed: hasDrifted(entry),
    definition: definition.hash,
    ...defined({ acknowledged: acknowledged?.hash }),
    setting,
    ...(verdict === undefined ? {} : { verdict: shownVerdict(verdict) }),
    firstSeen,
    lastSeen,
  };
}

function shownVerdict(verdict: EffectiveVerdict): ShownVerdict {
  const { kind, rules } = verdict;
  if (kind !== 'ask') return { kind, rules: [...rules] };
  const { approvers, deadlineSeconds } = verdict;
  const who = approvers === undefined ? 'who starts the run' : inWords(approvers);
  return { kind, rules: [...rules], approvers: who, deadlineSeconds };
}

export function shownPending(
  { entries }: CatalogSnapshot,
  pending: PendingChange,
  rules: CatalogRules,
  person: Approver,
  now: number,
): ShownPending {
  const { signature: _, changes, ...rest } = pending;
  return {
    ...rest,
    changes: changes.map((change) => {
      const before = entryOf({ entries }, change.tool)?.setting;
      return before === undefined ? { change } : { change, before, after: changedSetting(before, change) };
    }),
    offers: [...pendingOffers(pending, rules, person, now)],
  };
}

export function newestRefresh(entries: readonly LedgerEntry[]): CatalogRefreshed | undefined {
  for (const { at, fact } of entries.toReversed())
    if (fact.kind === 'catalog.refreshed') {
      const { refresh, added, missing, returned, changed } = fact;
      return { refresh, at, added, missing, returned, changed };
    }
  return undefined;
}
