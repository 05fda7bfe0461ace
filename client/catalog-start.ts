/** How a catalog begins: with its first message, in one request, so that two who connect a server at once connect the same. */
import { type Client, WithStartWorkflowOperation, WorkflowNotFoundError } from '@temporalio/client';
import { defineSearchAttributeKey, TypedSearchAttributes } from '@temporalio/common';
import type { CatalogBeginning, CatalogIdentity } from '../contracts/catalog-activities.ts';
import { CountersignError } from '../contracts/errors.ts';
import { CATALOG_WORKFLOW } from '../contracts/names.ts';
import { catalogId } from '../domain/catalog.ts';

/** As far as a client needs to know it. */
export type ToolCatalog = (identity: CatalogBeginning) => Promise<void>;

/**
 * For one attempt: Temporal's client takes each operation once.
 *
 * @param isSigned this client signs: the workers are in trust mode `signed`
 */
export function catalogStart(
  { tenant, server }: CatalogIdentity,
  taskQueue: string,
  isSigned = false,
): WithStartWorkflowOperation<ToolCatalog> {
  return new WithStartWorkflowOperation<ToolCatalog>(CATALOG_WORKFLOW, {
    workflowId: catalogId({ tenant, server }),
    taskQueue,
    args: [{ tenant, server, ...(isSigned ? { signed: true as const } : {}) }],
    workflowIdConflictPolicy: 'USE_EXISTING',
    typedSearchAttributes: new TypedSearchAttributes([
      { key: defineSearchAttributeKey('CountersignTenant', 'KEYWORD'), value: tenant },
      { key: defineSearchAttributeKey('CountersignServers', 'KEYWORD_LIST'), value: [server] },
    ]),
    staticSummary: `Tool catalog of ${server}`,
  });
}

/**
 * Who terminates a catalog takes away what operators have said of its tools; a new one would begin without a word about it.
 * @throws CountersignError `CATALOG_VERSION_CONFLICT` where the last catalog of this name was connected once and was ended from outside
 */
export async function assertNoneWasEnded(client: Client, { tenant, server }: CatalogIdentity): Promise<void> {
  const last = await client.workflow
    .getHandle(catalogId({ tenant, server }))
    .describe()
    .catch((error: unknown) => {
      if (error instanceof WorkflowNotFoundError) return undefined;
      throw error;
    });
  if (last === undefined || last.status.name === 'RUNNING') return;
  const status = last.typedSearchAttributes.get(defineSearchAttributeKey('CountersignStatus', 'KEYWORD'));
  if (status !== 'connected' && status !== 'disconnected') return;
  throw new CountersignError(
    'CATALOG_VERSION_CONFLICT',
    `The catalog of ${server} was ended from outside (${last.status.name.toLowerCase()}), and with it what was set of its tools. Export it, then connect it anew (--anew), and import it.`,
    { tenant, server },
  );
}
