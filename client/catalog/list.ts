/**
 * Lists the catalogs of a namespace, reads their tool definitions, and computes the verdict for each tool.
 *
 * 1. Catalogs are listed through visibility; no catalog workflow is woken for it.
 * 2. A definition is returned only for the hash under which it was stored; another one is an error, never a gap.
 * 3. Verdicts come from the judge of runs. A run's own policy can still tighten them.
 */
import { z } from 'zod';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { CATALOG_WORKFLOW, SEARCH_ATTRIBUTES } from '../../contracts/names.ts';
import type { Verdict } from '../../contracts/schemas/call.ts';
import type { CatalogSnapshot, SeenDefinition } from '../../contracts/schemas/catalog.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import type { ApproverRule } from '../../contracts/schemas/policy.ts';
import type { ToolDefinition } from '../../contracts/schemas/tool.ts';
import type { CatalogIdentity } from '../../contracts/wire/catalog.ts';
import { catalogId } from '../../domain/catalog/state.ts';
import { catalogSays } from '../../domain/catalog/layer.ts';
import { judge, type Organisation, trustsServer } from '../../domain/policy/judge.ts';
import { visible } from '../../domain/text/escape.ts';
import type { Engine } from '../engine/engine.ts';
import { type ArtifactReader, readToolList } from '../ledger/ledger.ts';
import { quoted } from '../run/inbox.ts';

export interface ListedCatalog extends CatalogIdentity {
  readonly workflowId: string;
  readonly startedAt: string;
}

/** A misspelt name would filter nothing, and list the catalogs of all tenants. */
const Filter = z.strictObject({ tenant: z.string().optional() });

/**
 * Returns the running catalogs, sorted by workflow id. However many there are, each page has a deadline of its own.
 * @throws CountersignError `USAGE`
 */
export async function listCatalogs(engine: Engine, given: { readonly tenant?: string }): Promise<ListedCatalog[]> {
  const { tenant } = parseAs(Filter, given, 'USAGE', 'filter of catalogs');
  const conditions = [
    `WorkflowType = ${quoted(CATALOG_WORKFLOW)}`,
    `ExecutionStatus = 'Running'`,
    ...(tenant === undefined ? [] : [`${SEARCH_ATTRIBUTES.tenant.name} = ${quoted(tenant)}`]),
  ];
  const listed: ListedCatalog[] = [];
  for await (const { workflowId, startTime } of engine.list(conditions.join(' AND '))) {
    const identity = catalogOf(workflowId);
    // Anybody may start a catalog workflow under another id; no client reaches it, so it is not listed.
    if (identity !== undefined) listed.push({ ...identity, workflowId, startedAt: startTime.toISOString() });
  }
  return listed.toSorted((one, other) => (one.workflowId < other.workflowId ? -1 : 1));
}

export function catalogOf(workflowId: string): CatalogIdentity | undefined {
  const [kind, tenant, server, ...more] = workflowId.split('/');
  if (kind !== 'catalog' || tenant === undefined || server === undefined || more.length > 0) return undefined;
  try {
    const identity = { tenant: decodeURIComponent(tenant), server: decodeURIComponent(server) };
    return catalogId(identity) === workflowId ? identity : undefined;
  } catch {
    return undefined;
  }
}

export interface KnownDefinitions {
  /** The definition in the server's last listing. */
  readonly current: ToolDefinition;
  /** The definition that an operator has acknowledged; absent if nobody has. */
  readonly acknowledged?: ToolDefinition;
}

export async function readDefinitions(
  artifacts: ArtifactReader | undefined,
  { entries, listings }: Pick<CatalogSnapshot, 'entries' | 'listings'>,
): Promise<ReadonlyMap<string, KnownDefinitions>> {
  const keyOf = ({ refresh, hash }: SeenDefinition): string => `${refresh}/${hash}`;
  const seen = entries.flatMap(({ definition, acknowledged = definition }) => [definition, acknowledged]);
  const wanted = new Set(seen.map(keyOf));
  const read = new Map<string, ToolDefinition>();
  for (const refresh of new Set(seen.map((each) => each.refresh))) {
    const ref = listings[refresh];
    if (ref === undefined) continue;
    const { tools } = await readToolList(artifacts, ref, `listing of refresh ${refresh}`);
    // Only what is wanted of a list is kept, or all lists would be in memory at once.
    for (const { definition, hash } of tools)
      if (wanted.has(keyOf({ refresh, hash }))) read.set(keyOf({ refresh, hash }), definition);
  }
  const find = (tool: string, definition: SeenDefinition): ToolDefinition => {
    const { refresh } = definition;
    const found = read.get(keyOf(definition));
    if (found?.name === tool) return found;
    const message = `The listing of refresh ${refresh} does not hold ${visible(tool)} as the catalog knows it; restore the artifact store.`;
    throw new CountersignError('ARTIFACT_CORRUPT', message, { refresh });
  };
  return new Map(
    entries.map(({ name, definition, acknowledged }) => {
      const before = acknowledged && find(name, acknowledged);
      return [name, { current: find(name, definition), ...defined({ acknowledged: before }) }];
    }),
  );
}

export type EffectiveVerdict =
  | Exclude<Verdict, { kind: 'ask' }>
  | (Omit<Extract<Verdict, { kind: 'ask' }>, 'approvers'> & {
      /** Absent: the person who starts the run approves. */
      readonly approvers?: ApproverRule;
    });

export interface Surroundings {
  readonly policy: Organisation;
  /** True if the workers' configuration trusts the server's annotations; undefined if it does not name the server. */
  readonly configuredTrust: boolean | undefined;
  /** True if the workers are in trust mode `signed`: there no catalog alone makes a server trusted. */
  readonly isSigned?: boolean;
}

/** The same words as workers use (`activities/policy/judge.ts`), for a run that begins now. */
function trustsHints(snapshot: CatalogSnapshot, { configuredTrust, isSigned = false }: Surroundings): boolean {
  return trustsServer(snapshot, isSigned ? configuredTrust === true : configuredTrust);
}

/** Says whether annotations can change a verdict. If not, callers need not read the definitions. */
export function needsAnnotations(snapshot: CatalogSnapshot, surroundings: Surroundings): boolean {
  const { strategy, rules = [] } = surroundings.policy;
  const isRead = strategy === 'annotations' || rules.some(({ match }) => match?.annotations !== undefined);
  return isRead && trustsHints(snapshot, surroundings);
}

/** Stands for the initiator of any run, who may not approve under the four-eyes rule. */
const WHOEVER = 'the initiator';

/**
 * @param definitions may be empty if `needsAnnotations` returns false
 * @param now epoch ms; a rule that breaks glass counts until its end
 */
export function effectiveVerdicts(
  snapshot: CatalogSnapshot,
  definitions: ReadonlyMap<string, KnownDefinitions>,
  surroundings: Surroundings,
  now = Date.now(),
): ReadonlyMap<string, EffectiveVerdict> {
  const serverTrusted = trustsHints(snapshot, surroundings);
  return new Map(
    snapshot.entries.map(({ name, definition }) => {
      const layers = {
        organisation: surroundings.policy,
        run: undefined,
        catalog: catalogSays(snapshot, name, definition.hash),
      };
      const annotations = definitions.get(name)?.current.annotations;
      const tool = { server: snapshot.server, tool: name, annotations, serverTrusted };
      return [name, withoutInitiator(judge(layers, tool, WHOEVER, undefined, now))] as const;
    }),
  );
}

/** Returns when time alone may next change verdicts, in epoch ms: glass is broken until then. */
export function nextEnd({ rules = [] }: Organisation, now: number): number {
  const ends = rules.flatMap(({ breakGlass }) => (breakGlass === undefined ? [] : [Date.parse(breakGlass.until)]));
  return Math.min(...ends.filter((end) => end > now));
}

function withoutInitiator(verdict: Verdict): EffectiveVerdict {
  if (verdict.kind !== 'ask' || verdict.approvers.allOf.every(({ layer }) => layer !== 'default')) return verdict;
  const { approvers: _, ...rest } = verdict;
  return rest;
}
