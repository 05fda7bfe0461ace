/**
 * Starts a catalog and waits for the end of a refresh.
 *
 * 1. A catalog starts together with its first message, in one request: two clients at once reach the same catalog.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { type Client, WithStartWorkflowOperation } from '@temporalio/client';
import { TypedSearchAttributes } from '@temporalio/common';
import { CountersignError } from '../../contracts/errors.ts';
import { CATALOG_WORKFLOW, SEARCH_ATTRIBUTES } from '../../contracts/names.ts';
import type { CatalogSnapshot, CatalogUnchanged, RefreshReport } from '../../contracts/schemas/catalog.ts';
import type { CatalogBeginning, CatalogIdentity } from '../../contracts/wire/catalog.ts';
import { catalogId } from '../../domain/catalog/state.ts';
import { shellWord } from '../../domain/text/shell-word.ts';
import { patienceOf } from '../engine/engine.ts';
import { ifThere } from '../engine/executions.ts';

/** The type of the catalog workflow, reduced to what a client needs. */
export type ToolCatalog = (identity: CatalogBeginning) => Promise<void>;

/** Makes the start operation for one attempt: Temporal's client takes each once. @param isSigned if this client signs */
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
      { key: SEARCH_ATTRIBUTES.tenant, value: tenant },
      { key: SEARCH_ATTRIBUTES.servers, value: [server] },
    ]),
    staticSummary: `Tool catalog of ${server}`,
  });
}

/**
 * A catalog that was terminated from outside has lost all settings of its tools: a new one does not begin unseen.
 * @throws CountersignError `CATALOG_VERSION_CONFLICT`
 */
export async function assertNoneWasEnded(client: Client, { tenant, server }: CatalogIdentity): Promise<void> {
  const handle = client.workflow.getHandle(catalogId({ tenant, server }));
  const last = await ifThere(async () => await handle.describe());
  if (last === undefined || last.status.name === 'RUNNING') return;
  const status = last.typedSearchAttributes.get(SEARCH_ATTRIBUTES.status);
  if (status !== 'connected' && status !== 'disconnected') return;
  const message = `The catalog of ${server} was ended from outside (${last.status.name.toLowerCase()}), and with it what was set of its tools. Export it, then connect it anew (--anew), and import it.`;
  throw new CountersignError('CATALOG_VERSION_CONFLICT', message, { tenant, server });
}

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1_000;

/**
 * Returns the report of the newest refresh, once that is the given refresh or a later one.
 * @param read reads the catalog; given the mark of a snapshot, it returns less if nothing has changed since that mark
 * @throws CountersignError `RESULT_UNCERTAIN` if the refresh still goes on at the deadline
 */
export async function refreshEnd(
  { tenant, server }: CatalogIdentity,
  read: (known?: string) => Promise<CatalogSnapshot | CatalogUnchanged>,
  refresh: number,
  deadlineMs: number,
): Promise<RefreshReport> {
  const end = Date.now() + patienceOf(deadlineMs);
  let known: string | undefined;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(LONGEST_PAUSE_MS, 2 * pauseMs)) {
    const snapshot = await read(known);
    known = snapshot.mark;
    const report = 'unchanged' in snapshot ? undefined : snapshot.lastRefresh;
    if (report !== undefined && report.refresh >= refresh) return report;
    const left = end - Date.now();
    if (left <= 0) {
      const message = `Refresh ${refresh} of ${server} did not end in time; it goes on. See: countersign catalog show ${server} --tenant ${shellWord(tenant)}`;
      throw new CountersignError('RESULT_UNCERTAIN', message, { tenant, server, refresh });
    }
    await pause(Math.min(pauseMs, left));
  }
}
