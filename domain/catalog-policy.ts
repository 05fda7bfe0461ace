/**
 * Changes of what operators say of tools: one at a time, on the version that was shown, and none without an entry in the ledger.
 *
 * 1. A batch takes effect as a whole or not at all.
 * 2. What was shown is what is changed: another version, or another definition than the acknowledged one, is a conflict.
 */
import type { ErrorCode, ErrorFacts } from '../contracts/errors.ts';
import type { CatalogEntry, CatalogRight, ToolChange, ToolSetting } from '../contracts/schemas/catalog.ts';
import type { Approver } from '../contracts/schemas/decision.ts';
import type { LedgerFact } from '../contracts/schemas/ledger.ts';
import { type Catalog, type CatalogChange, entryOf, withListings } from './catalog.ts';
import { bounded, visible } from './escape.ts';
import { signatureEvidence } from './jws.ts';
import { nearNames } from './near-names.ts';
import { changedSetting, directionsOf } from './tool-setting.ts';

export interface CatalogRefusal {
  readonly kind: 'refuse';
  readonly code: ErrorCode;
  readonly message: string;
  readonly facts: ErrorFacts;
}

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

export function checkVersion(catalog: Catalog, expected: number): CatalogRefusal | undefined {
  if (expected === catalog.policyVersion) return undefined;
  return refuse(
    'CATALOG_VERSION_CONFLICT',
    `The catalog of ${catalog.server} has version ${catalog.policyVersion}, and ${expected} was expected: somebody has changed it. Look at it again, then send the change with the new version; nothing was changed.`,
    { expected, policyVersion: catalog.policyVersion },
  );
}

/** What a batch would do, or why it cannot be done. */
export function planned(catalog: Catalog, changes: readonly ToolChange[]): CatalogPlan | CatalogRefusal {
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

/** @param agreed who countersigned, where somebody had to; `signature` is then that of who asked */
export function policiesSet(
  catalog: Catalog,
  { edits }: Pick<CatalogPlan, 'edits'>,
  by: Approver,
  {
    agreed,
    trusted,
    signature,
  }: { readonly agreed?: Approver; readonly trusted?: boolean; readonly signature?: string } = {},
): CatalogChange {
  const { connection } = catalog;
  const retrusted = trusted !== undefined && connection !== undefined && connection.trusted !== trusted;
  if (edits.length === 0 && !retrusted) return { catalog, facts: [] };
  const edited = new Map(edits.map((edit) => [edit.before.name, edit]));
  const policyVersion = catalog.policyVersion + 1;
  const fact: LedgerFact = {
    kind: 'catalog.policy',
    by,
    ...(agreed === undefined ? {} : { countersignedBy: agreed }),
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
        // Never what has come since: nobody has looked at that.
        return { ...entry, setting, spokenOf: true, ...(acknowledges ? { acknowledged: before.definition } : {}) };
      }),
    }),
    facts: [fact],
  };
}

function unknownTool({ server, entries }: Catalog, tool: string, path: string): CatalogRefusal {
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

/** A name is the server's text. */
function shown(tool: string): string {
  return bounded(visible(tool), 128);
}

export function refuse(code: ErrorCode, message: string, facts: ErrorFacts = {}): CatalogRefusal {
  return { kind: 'refuse', code, message, facts };
}
