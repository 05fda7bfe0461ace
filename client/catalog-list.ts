/** The catalogs of a namespace, by visibility: none is woken for it. */
import type { Client } from '@temporalio/client';
import type { CatalogIdentity } from '../contracts/catalog-activities.ts';
import { CATALOG_WORKFLOW } from '../contracts/names.ts';
import { catalogId } from '../domain/catalog.ts';
import { listExecutions } from './executions.ts';
import { quoted } from './inbox.ts';

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
