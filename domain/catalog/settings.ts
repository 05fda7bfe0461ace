/**
 * Operators change the policy of tools here, on the version that they were shown.
 *
 * 1. A batch takes effect as a whole or not at all, and always with an entry in the ledger.
 * 2. Another version, or another definition than the acknowledged one, is a conflict.
 * 3. Without named administrators nobody may change a catalog (INV-G4). Loosening and tightening are separate rights.
 */
import { defined } from '../../contracts/defined.ts';
import type { Approver } from '../../contracts/schemas/request.ts';
import type {
  CatalogEntry,
  CatalogRight,
  CatalogRules,
  PendingChange,
  ToolChange,
  ToolSetting,
} from '../../contracts/schemas/catalog.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { ApproverList } from '../../contracts/schemas/policy.ts';
import { DEFAULT_DEADLINE_SECONDS, isNamedIn } from '../policy/approvers.ts';
import { signatureEvidence } from '../signing/jws.ts';
import { bounded, visible } from '../text/escape.ts';
import { nearNames } from '../text/match.ts';
import { type Refusal, refuse } from '../text/refusal.ts';
import { type Catalog, type CatalogChange, entryOf, withListings } from './state.ts';

interface Edit {
  readonly before: CatalogEntry;
  readonly setting: ToolSetting;
  readonly acknowledges: boolean;
}

export interface CatalogPlan {
  readonly kind: 'plan';
  readonly edits: readonly Edit[];
  readonly needs: ReadonlySet<CatalogRight>;
}

export function checkVersion(catalog: Catalog, expected: number): Refusal | undefined {
  if (expected === catalog.policyVersion) return undefined;
  return refuse(
    'CATALOG_VERSION_CONFLICT',
    `The catalog of ${catalog.server} has version ${catalog.policyVersion}, and ${expected} was expected: somebody has changed it. Look at it again, then send the change with the new version; nothing was changed.`,
    { expected, policyVersion: catalog.policyVersion },
  );
}

export function planned(catalog: Catalog, changes: readonly ToolChange[]): CatalogPlan | Refusal {
  const edits: Edit[] = [];
  const needs = new Set<CatalogRight>();
  const seen = new Set<string>();
  for (const [index, change] of changes.entries()) {
    const path = `changes[${index}]`;
    if (seen.has(change.tool))
      return refuse('CATALOG_INVALID', `${path}.tool stands twice; say all of a tool in one change.`, { path });
    seen.add(change.tool);
    const before = entryOf(catalog, change.tool);
    if (before === undefined) return unknownTool(catalog, change.tool, path);
    const { acknowledge } = change;
    if (acknowledge !== undefined && acknowledge !== before.definition.hash)
      return refuse(
        'CATALOG_VERSION_CONFLICT',
        `${path}.acknowledge is not the definition that ${shown(change.tool)} has now; look at the difference again.`,
        { path: `${path}.acknowledge` },
      );
    const setting = changedSetting(before.setting, change);
    const acknowledges = acknowledge !== undefined && before.acknowledged?.hash !== acknowledge;
    if (acknowledges && before.status === 'missing')
      return refuse(
        'TOOL_MISSING',
        `${path}.acknowledge: ${change.tool} is missing, so nobody can say what it is; acknowledge it when a refresh has found it.`,
        { path: `${path}.acknowledge` },
      );
    const directions = directionsOf(before.setting, setting);
    if (directions.has('loosens') || acknowledges) needs.add('loosen');
    if (directions.has('tightens')) needs.add('tighten');
    if (directions.size > 0 || acknowledges) edits.push({ before, setting, acknowledges });
  }
  return { kind: 'plan', edits, needs };
}

/** Applies a plan. @param agreed the second administrator; `signature` is then that of the first */
export function policiesSet(
  catalog: Catalog,
  { edits }: Pick<CatalogPlan, 'edits'>,
  by: Approver,
  { agreed, trusted, signature }: { readonly agreed?: Approver } & Pick<PendingChange, 'trusted' | 'signature'> = {},
): CatalogChange {
  const { connection } = catalog;
  const retrusted = trusted !== undefined && connection !== undefined && connection.trusted !== trusted;
  if (edits.length === 0 && !retrusted) return { catalog, facts: [] };
  const edited = new Map(edits.map((edit) => [edit.before.name, edit]));
  const policyVersion = catalog.policyVersion + 1;
  const fact: LedgerFact = {
    kind: 'catalog.policy',
    by,
    ...defined({ countersignedBy: agreed }),
    policyVersion,
    ...(retrusted ? { trusted } : {}),
    changes: edits.map(({ before, setting, acknowledges }) => ({
      tool: before.name,
      before: before.setting,
      after: setting,
      ...(acknowledges ? { acknowledged: before.definition.hash } : {}),
    })),
    ...(signature === undefined ? {} : { signature: signatureEvidence(signature) }),
  };
  return {
    catalog: withListings({
      ...catalog,
      policyVersion,
      ...(retrusted ? { connection: { ...connection, trusted } } : {}),
      entries: catalog.entries.map((entry) => {
        const edit = edited.get(entry.name);
        if (edit === undefined) return entry;
        const { setting, acknowledges, before } = edit;
        // A definition that arrived since the plan is not acknowledged: nobody has looked at it.
        return { ...entry, setting, spokenOf: true, ...(acknowledges ? { acknowledged: before.definition } : {}) };
      }),
    }),
    facts: [fact],
  };
}

function unknownTool({ server, entries }: Catalog, tool: string, path: string): Refusal {
  const near = nearNames(
    tool,
    entries.map(({ name }) => name),
  );
  const hint =
    near.length > 0 ? ` Did you mean ${near.map(shown).join(', ')}?` : ' Refresh the catalog where the server has it.';
  return refuse('TOOL_UNKNOWN', `${path}.tool: ${server} has no tool ${shown(tool)}.${hint}`, {
    path: `${path}.tool`,
  });
}

/** A tool's name is the server's text. */
function shown(tool: string): string {
  return bounded(visible(tool), 128);
}

export type Direction = 'loosens' | 'tightens';

export function changedSetting(before: ToolSetting, change: ToolChange): ToolSetting {
  const { enabled, requiresApproval, denied } = before;
  const approvers = change.approvers === undefined ? before.approvers : (change.approvers ?? undefined);
  const deadlineSeconds =
    change.deadlineSeconds === undefined ? before.deadlineSeconds : (change.deadlineSeconds ?? undefined);
  return {
    enabled: change.enabled ?? enabled,
    requiresApproval: change.requiresApproval ?? requiresApproval,
    denied: change.denied ?? denied,
    ...defined({ approvers, deadlineSeconds }),
  };
}

/** Both if parts differ, none if nothing changes. A change that is not surely stricter is looser (INV-G4). */
export function directionsOf(before: ToolSetting, after: ToolSetting): ReadonlySet<Direction> {
  const directions = new Set<Direction>();
  const flag = (was: boolean, is: boolean, stricter: boolean): void => {
    if (was !== is) directions.add(is === stricter ? 'tightens' : 'loosens');
  };
  flag(before.enabled, after.enabled, false);
  flag(before.requiresApproval, after.requiresApproval, true);
  flag(before.denied, after.denied, true);
  if (letsIn(after.approvers, before.approvers)) directions.add('loosens');
  else if (letsIn(before.approvers, after.approvers)) directions.add('tightens');
  const { deadlineSeconds: was } = before;
  const { deadlineSeconds: is } = after;
  // Silence means 24 hours if no other layer states a time: a longer deadline would extend it.
  if (was !== is) directions.add(is !== undefined && is <= (was ?? DEFAULT_DEADLINE_SECONDS) ? 'tightens' : 'loosens');
  return directions;
}

/** True if a list admits others, or lets them do more. Without one the initiator decides, so any may admit others. */
function letsIn(list: ApproverList | undefined, other: ApproverList | undefined): boolean {
  if (list === undefined || other === undefined) return list !== other;
  const { need = 1, notInitiator = false, may = [], remember = [] } = list;
  if (need < (other.need ?? 1) || (other.notInitiator === true && !notInitiator)) return true;
  if (remember.some((scope) => other.remember?.includes(scope) !== true)) return true;
  if (may.some((right) => other.may?.includes(right) !== true)) return true;
  return list.ids.some((id) => !other.ids.includes(id)) || list.groups.some((group) => !other.groups.includes(group));
}

export function rightsOf(rules: CatalogRules, by: Approver): ReadonlySet<CatalogRight> {
  return new Set(rules.administrators.filter((who) => isNamedIn(rules, who, by)).flatMap(({ may }) => may));
}

export function missingRight(
  rules: CatalogRules,
  by: Approver,
  needed: Iterable<CatalogRight>,
): CatalogRight | undefined {
  const rights = rightsOf(rules, by);
  for (const right of needed) if (!rights.has(right)) return right;
  return undefined;
}
