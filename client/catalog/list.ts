/** The catalogs of a namespace, by visibility: none is woken for it. */
import type { Client } from '@temporalio/client';
import { CountersignError } from '../../contracts/errors.ts';
import { CATALOG_WORKFLOW } from '../../contracts/names.ts';
import type { Verdict } from '../../contracts/schemas/call.ts';
import type { CatalogSnapshot, SeenDefinition } from '../../contracts/schemas/catalog.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import type { ApproverRule, Policy } from '../../contracts/schemas/policy.ts';
import { ServerTools, type ToolDefinition } from '../../contracts/schemas/tool.ts';
import type { CatalogIdentity } from '../../contracts/wire/catalog.ts';
import { catalogId } from '../../domain/catalog/state.ts';
import { catalogSays, trustsServer } from '../../domain/policy/catalog-layer.ts';
import { judge } from '../../domain/policy/judge.ts';
import { visible } from '../../domain/text/escape.ts';
import { listExecutions } from '../engine/executions.ts';
import type { ArtifactReader } from '../ledger/ledger.ts';
import { quoted } from '../run/inbox.ts';

export interface CatalogFilter {
  readonly tenant?: string;
}

export interface ListedCatalog extends CatalogIdentity {
  readonly workflowId: string;
  readonly startedAt: string;
}

/** In the order of their ids. */
export async function listCatalogs(client: Client, { tenant }: CatalogFilter): Promise<ListedCatalog[]> {
  const conditions = [
    `WorkflowType = ${quoted(CATALOG_WORKFLOW)}`,
    `ExecutionStatus = 'Running'`,
    ...(tenant === undefined ? [] : [`CountersignTenant = ${quoted(tenant)}`]),
  ];
  const listed: ListedCatalog[] = [];
  for await (const { workflowId, startTime } of listExecutions(client, conditions.join(' AND '))) {
    const identity = catalogOf(workflowId);
    // Somebody has started one under an id of their own: nothing reaches it.
    if (identity !== undefined) listed.push({ ...identity, workflowId, startedAt: startTime.toISOString() });
  }
  return listed.toSorted((one, other) => (one.workflowId < other.workflowId ? -1 : 1));
}

/** Which catalog has this workflow id; none, where it is that of something else. */
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

// Tool definitions of a catalog, read from where its refreshes stored them.
//
// 1. What is returned for a hash is what was stored under it; anything else is an error, never a gap.

export interface KnownDefinitions {
  /** What the server said last. */
  readonly current: ToolDefinition;
  /** What an operator has taken notice of; absent where nobody has. */
  readonly acknowledged?: ToolDefinition;
}

export async function readDefinitions(
  artifacts: ArtifactReader | undefined,
  { entries, listings }: Pick<CatalogSnapshot, 'entries' | 'listings'>,
): Promise<ReadonlyMap<string, KnownDefinitions>> {
  if (artifacts === undefined)
    throw new CountersignError(
      'ARTIFACT_MISSING',
      'Tool definitions stand in the artifact store. Give this client access to it.',
    );
  const read = new Map<string, ReadonlyMap<string, ToolDefinition>>();
  for (const [refresh, ref] of Object.entries(listings)) {
    const stored: unknown = JSON.parse(new TextDecoder().decode(await artifacts.get(ref)));
    const { tools } = parseAs(ServerTools, stored, 'ARTIFACT_CORRUPT', `listing of refresh ${refresh}`);
    // By name and hash: the name is part of what the hash covers.
    read.set(refresh, new Map(tools.map(({ definition, hash }) => [hash, definition])));
  }
  const find = (tool: string, { hash, refresh }: SeenDefinition): ToolDefinition => {
    const found = read.get(String(refresh))?.get(hash);
    if (found?.name === tool) return found;
    throw new CountersignError(
      'ARTIFACT_CORRUPT',
      `The listing of refresh ${refresh} does not hold ${visible(tool)} as the catalog knows it; restore the artifact store.`,
      { refresh },
    );
  };
  return new Map(
    entries.map(({ name, definition, acknowledged }) => [
      name,
      {
        current: find(name, definition),
        ...(acknowledged === undefined ? {} : { acknowledged: find(name, acknowledged) }),
      },
    ]),
  );
}

// What happens to a call of each tool of a catalog: its catalog, and the organisation's policy with it.
//
// 1. It asks the very judge that runs ask, so that what is shown is what happens; a run's own policy can still tighten it.

export type EffectiveVerdict =
  | Exclude<Verdict, { kind: 'ask' }>
  | (Omit<Extract<Verdict, { kind: 'ask' }>, 'approvers'> & {
      /** Absent: whoever starts the run. */
      readonly approvers?: ApproverRule;
    });

export interface Surroundings {
  /** The organisation's. */
  readonly policy: Policy;
  /** Where the server is configured too: whether that trusts its annotations. */
  readonly configuredTrust: boolean | undefined;
}

/** Without them no verdict can differ, so that nobody needs the definitions. */
export function needsAnnotations(snapshot: CatalogSnapshot, surroundings: Surroundings): boolean {
  return surroundings.policy.strategy === 'annotations' && trustsServer(snapshot, surroundings.configuredTrust);
}

/** Stands for the initiator of any run, whom four eyes exclude. */
const WHOEVER = 'the initiator';

/** @param definitions may be empty where `needsAnnotations` says so */
export function effectiveVerdicts(
  snapshot: CatalogSnapshot,
  definitions: ReadonlyMap<string, KnownDefinitions>,
  surroundings: Surroundings,
): ReadonlyMap<string, EffectiveVerdict> {
  const serverTrusted = trustsServer(snapshot, surroundings.configuredTrust);
  return new Map(
    snapshot.entries.map(({ name, definition }) => {
      const layers = {
        organisation: surroundings.policy,
        run: undefined,
        catalog: catalogSays(snapshot, name, definition.hash),
      };
      const annotations = definitions.get(name)?.current.annotations;
      const tool = { server: snapshot.server, tool: name, annotations, serverTrusted };
      return [name, withoutInitiator(judge(layers, tool, WHOEVER))] as const;
    }),
  );
}

function withoutInitiator(verdict: Verdict): EffectiveVerdict {
  if (verdict.kind !== 'ask' || verdict.approvers.allOf.every(({ layer }) => layer !== 'default')) return verdict;
  const { approvers: _, ...rest } = verdict;
  return rest;
}
