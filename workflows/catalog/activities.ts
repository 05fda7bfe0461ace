/** The activities of a catalog, with their timeouts and retries. `answered` opens their answers. */
import { defined } from '../../contracts/defined.ts';
import type { CatalogConnection } from '../../contracts/schemas/catalog.ts';
import type { CatalogActivities } from '../../contracts/wire/catalog.ts';
import type { ToolActivities } from '../../contracts/wire/activities.ts';
import type { Answering } from '../entity/unread.ts';
import { provenActivities } from '../interceptors/zone.ts';

/** Options for reviewing a message. Its sender waits for the answer, so the times are short. */
export function reviewActivities(): Answering<CatalogActivities> {
  return provenActivities<Answering<CatalogActivities>>({
    startToCloseTimeout: '10s',
    // This bound also holds when no worker takes the activity: a message must not act after its sender has given up.
    scheduleToCloseTimeout: '30s',
    retry: { initialInterval: '200ms', maximumInterval: '2s', maximumAttempts: 5 },
    summary: 'who may, and what can be honoured',
  });
}

/** Options for refreshing a catalog. An operator waits and may ask again, so the retries last about a minute. */
export function catalogDiscoveryActivities(
  server: string,
  { taskQueue }: CatalogConnection,
): Answering<Pick<ToolActivities, 'discoverCatalog'>> {
  return provenActivities<Answering<ToolActivities>>({
    ...defined({ taskQueue }),
    startToCloseTimeout: '60s',
    // If no worker serves the queue, the refresh fails and says so.
    scheduleToStartTimeout: '60s',
    retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '10s', maximumAttempts: 4 },
    summary: `list tools of ${server}`,
  });
}
