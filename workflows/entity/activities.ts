/** The activities of runs and catalogs alike, with their timeouts and retries. `answered` opens their answers. */
import type { RunActivities } from '../../contracts/wire/activities.ts';
import type { Answering } from './unread.ts';
import { provenActivities } from '../interceptors/zone.ts';

/** Options for reading the trusted keys: nobody waits, and the sender of the next message may ask again. */
export function trustActivities(): Answering<Pick<RunActivities, 'readTrust'>> {
  return provenActivities<Answering<RunActivities>>({
    startToCloseTimeout: '15s',
    scheduleToCloseTimeout: '30s',
    retry: { initialInterval: '200ms', maximumInterval: '5s', maximumAttempts: 3 },
    summary: 'read the trusted keys',
  });
}

/** Options for storing a segment. No run rolls or ends without the store: it waits, and is not lost (docs/adr/0015). */
export function storeActivities(): Answering<Pick<RunActivities, 'storeSegment'>> {
  return provenActivities<Answering<RunActivities>>({
    // The activity reads what it stores page by page.
    startToCloseTimeout: '60s',
    retry: { initialInterval: '200ms', maximumInterval: '60s' },
    summary: 'store transcript and ledger',
  });
}
