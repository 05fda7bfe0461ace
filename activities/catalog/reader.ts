/**
 * Reads catalogs as they are now, or were seconds ago.
 *
 * 1. It fails closed (INV-G4): a catalog that cannot be read is an error that may pass, never "no catalog".
 * 2. It sends at most one query for each catalog at a time, and none while the last answer is fresh.
 */
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { LRUCache } from 'lru-cache';
import type { CatalogIdentity } from '../../contracts/wire/catalog.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { QUERIES } from '../../contracts/names.ts';
import { CatalogSnapshot, CatalogUnchanged } from '../../contracts/schemas/catalog.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { catalogId } from '../../domain/catalog/state.ts';

/** Returns undefined if there is no catalog, or none that was ever connected. */
export type ReadCatalog = (identity: CatalogIdentity) => Promise<CatalogSnapshot | undefined>;

/** A worker may miss a change of a catalog for this long. */
const FRESH_MS = 2_000;
const DEADLINE_MS = 10_000;
const MOST_KEPT = 500;

interface Kept {
  readonly at: number;
  readonly snapshot: CatalogSnapshot | undefined;
}

export function createCatalogReader(client: Client, now: () => number = Date.now): ReadCatalog {
  const kept = new LRUCache<string, Kept>({ max: MOST_KEPT });
  const asking = new Map<string, Promise<CatalogSnapshot | undefined>>();
  const ask = async (id: string): Promise<CatalogSnapshot | undefined> => {
    // The time is taken before the question: a change during the answer counts as not seen.
    const at = now();
    const snapshot = await askCatalog(client, id, kept.get(id)?.snapshot);
    kept.set(id, { at, snapshot });
    return snapshot;
  };
  return async (identity) => {
    const id = catalogId(identity);
    const known = kept.get(id);
    if (known !== undefined && now() - known.at < FRESH_MS) return known.snapshot;
    const running = asking.get(id);
    if (running !== undefined) return await running;
    const question = ask(id).finally(() => asking.delete(id));
    asking.set(id, question);
    return await question;
  };
}

async function askCatalog(
  client: Client,
  id: string,
  known: CatalogSnapshot | undefined,
): Promise<CatalogSnapshot | undefined> {
  let answer: unknown;
  try {
    answer = await client.connection.withDeadline(
      Date.now() + DEADLINE_MS,
      async () => await client.workflow.getHandle(id).query<unknown, [string]>(QUERIES.snapshot, known?.mark ?? ''),
    );
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined;
    throw unavailable(id, error);
  }
  if (known !== undefined && CatalogUnchanged.safeParse(answer).data?.mark === known.mark) return known;
  let snapshot: CatalogSnapshot;
  try {
    snapshot = parseAs(CatalogSnapshot, answer, 'CATALOG_UNAVAILABLE', 'catalog');
  } catch (error) {
    throw unavailable(id, error);
  }
  return snapshot.status === 'new' ? undefined : snapshot;
}

function unavailable(id: string, cause: unknown): CountersignError {
  return new CountersignError(
    'CATALOG_UNAVAILABLE',
    `${id} could not be read, so nothing is let pass. It is tried again; see the workflow in Temporal UI if this stays.`,
    { catalog: id },
    { cause },
  );
}
