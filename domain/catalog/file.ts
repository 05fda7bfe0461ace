/**
 * A catalog's file holds the policies of its tools; an import plan says what a file would change.
 *
 * 1. An exported file that is imported unchanged changes nothing.
 * 2. A file written for another definition than the tool has now loosens nothing.
 * 3. A definition is acknowledged only if the file names its hash.
 */
import { defined } from '../../contracts/defined.ts';
import type {
  CatalogEntry,
  CatalogFile,
  CatalogSnapshot,
  FiledTool,
  ToolChange,
  ToolSetting,
} from '../../contracts/schemas/catalog.ts';
import { canonicalJson } from '../text/canonical.ts';
import { nearNames } from '../text/match.ts';
import { changedSetting, directionsOf } from './settings.ts';

/** The policy that a file wants for a tool. An absent field stays as it is; null removes a rule. */
export type WantedTool = Pick<FiledTool, 'enabled' | 'requiresApproval' | 'definition'> &
  Pick<ToolChange, 'denied' | 'approvers' | 'deadlineSeconds'>;

export interface PlannedTool {
  readonly change: ToolChange;
  readonly before: ToolSetting;
  readonly after: ToolSetting;
}

export interface ImportPlan {
  readonly tools: readonly PlannedTool[];
  /** Tools that are not in the catalog. */
  readonly unknown: readonly string[];
  /** Names like the first unknown one. A file may hold thousands of them, and each costs a look at all tools. */
  readonly near: readonly string[];
  /** Tools that would be loosened although they changed since the file was written. */
  readonly refused: readonly string[];
  /** Tools that changed since the file was written, without being loosened. */
  readonly outdated: readonly string[];
  /** Tools of the catalog that the file does not name; they stay as they are. */
  readonly unnamed: readonly string[];
}

export function filedTool({ setting, acknowledged }: CatalogEntry): FiledTool {
  return { ...setting, ...(acknowledged === undefined ? {} : { definition: acknowledged.hash }) };
}

/** Returns the file of a catalog. The same settings always give the same file: tools are sorted. */
export function catalogFile({ tenant, server, policyVersion, connection, entries }: CatalogSnapshot): CatalogFile {
  const sorted = entries.toSorted((one, other) => (one.name < other.name ? -1 : 1));
  return {
    tenant,
    server,
    version: policyVersion,
    ...defined({ connection }),
    tools: Object.fromEntries(sorted.map((entry) => [entry.name, filedTool(entry)])),
  };
}

/** An exported entry states the whole policy of a tool, so absent rules become null. */
export function wantedTool(filed: FiledTool): WantedTool {
  return { ...filed, approvers: filed.approvers ?? null, deadlineSeconds: filed.deadlineSeconds ?? null };
}

export function importPlan(entries: readonly CatalogEntry[], wanted: ReadonlyMap<string, WantedTool>): ImportPlan {
  const names = entries.map(({ name }) => name);
  const known = new Set(names);
  const tools: PlannedTool[] = [];
  const refused: string[] = [];
  const outdated: string[] = [];
  for (const entry of entries) {
    const want = wanted.get(entry.name);
    if (want === undefined) continue;
    const planned = plannedTool(entry, want);
    const isOutdated = want.definition !== undefined && !isOf(entry, want);
    if (isOutdated && planned !== undefined && loosens(planned)) refused.push(entry.name);
    else {
      if (isOutdated) outdated.push(entry.name);
      if (planned !== undefined) tools.push(planned);
    }
  }
  const unknown = [...wanted.keys()].filter((tool) => !known.has(tool));
  return {
    tools,
    refused,
    outdated,
    unknown,
    near: unknown[0] === undefined ? [] : nearNames(unknown[0], names),
    unnamed: names.filter((name) => !wanted.has(name)),
  };
}

/** Undefined if the tool already is as wanted. */
function plannedTool(entry: CatalogEntry, want: WantedTool): PlannedTool | undefined {
  const { name, setting: before, definition, acknowledged } = entry;
  const isCurrent = isOf(entry, want);
  const change = differing(before, want);
  const after = changedSetting(before, { tool: name, ...change });
  const acknowledges = isCurrent && acknowledged?.hash !== definition.hash;
  if (Object.keys(change).length === 0 && !acknowledges) return undefined;
  // A loosening names the hash even if it is known: the catalog then refuses to loosen a tool that changes meanwhile.
  const bound = isCurrent && (acknowledges || loosens({ before, after }));
  return { before, after, change: { tool: name, ...change, ...(bound ? { acknowledge: definition.hash } : {}) } };
}

/** True if the file is about the current definition; if the tool is missing, only about an acknowledged one. */
function isOf({ status, definition, acknowledged }: CatalogEntry, want: WantedTool): boolean {
  return want.definition === definition.hash && (status === 'available' || acknowledged?.hash === definition.hash);
}

function loosens({ before, after }: Pick<PlannedTool, 'before' | 'after'>): boolean {
  return directionsOf(before, after).has('loosens');
}

function differing(setting: ToolSetting, want: WantedTool): Omit<ToolChange, 'tool'> {
  const { enabled, requiresApproval, denied, approvers, deadlineSeconds } = want;
  return {
    ...(enabled === setting.enabled ? {} : { enabled }),
    ...(requiresApproval === setting.requiresApproval ? {} : { requiresApproval }),
    ...(isKept(denied, setting.denied) ? {} : { denied }),
    ...(isKept(approvers, setting.approvers) ? {} : { approvers }),
    ...(isKept(deadlineSeconds, setting.deadlineSeconds) ? {} : { deadlineSeconds }),
  };
}

function isKept<T>(want: T | undefined, has: NonNullable<T> | undefined): want is undefined {
  return want === undefined || canonicalJson(want) === canonicalJson(has ?? null);
}
