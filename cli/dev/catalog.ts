/** Keeps a catalog of the demo server, so that the gate has something to offer. */
import type { Client } from '@temporalio/client';
import { Countersign } from '../../client/countersign.ts';
import { CountersignError } from '../../contracts/errors.ts';

/** Administrator of the catalog, as the configuration of `cli/dev/folder.ts` names her. */
const BY = { id: 'ann' };

/** Connects the catalog if it is not connected there yet; what was set of its tools stays. */
export async function connectDevCatalog(
  { client, taskQueue }: { readonly client: Client; readonly taskQueue: string },
  url: string,
): Promise<void> {
  const catalog = new Countersign({ client, taskQueue }).catalog('files');
  const known = await catalog.snapshot().catch((error: unknown) => {
    if (error instanceof CountersignError && error.code === 'CATALOG_NOT_FOUND') return undefined;
    throw error;
  });
  if (known?.connection?.url === url) return;
  const expected = known === undefined ? {} : { expectedVersion: known.policyVersion };
  await catalog.connect({ by: BY, url, trusted: true, ...expected });
}
