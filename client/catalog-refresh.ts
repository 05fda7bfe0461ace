/** Waiting for the end of a catalog's refresh. */
import { setTimeout as pause } from 'node:timers/promises';
import type { CatalogIdentity } from '../contracts/catalog-activities.ts';
import { CountersignError } from '../contracts/errors.ts';
import type { CatalogSnapshot, CatalogUnchanged, RefreshReport } from '../contracts/schemas/catalog.ts';

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1_000;

/**
 * The report of the newest refresh, once it is that one or a later one.
 *
 * @param read of the catalog as it is; less where it is still the one of this mark
 * @throws CountersignError `RESULT_UNCERTAIN` where it goes on
 */
export async function refreshEnd(
  { tenant, server }: CatalogIdentity,
  read: (known?: string) => Promise<CatalogSnapshot | CatalogUnchanged>,
  refresh: number,
  deadlineMs: number,
): Promise<RefreshReport> {
  const end = Date.now() + deadlineMs;
  let known: string | undefined;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(LONGEST_PAUSE_MS, 2 * pauseMs)) {
    const snapshot = await read(known);
    known = snapshot.mark;
    const report = 'unchanged' in snapshot ? undefined : snapshot.lastRefresh;
    if (report !== undefined && report.refresh >= refresh) return report;
    const left = end - Date.now();
    if (left <= 0)
      throw new CountersignError(
        'RESULT_UNCERTAIN',
        `Refresh ${refresh} of ${server} did not end in time; it goes on. See: countersign catalog show ${server} --tenant ${tenant}`,
        { tenant, server, refresh },
      );
    await pause(Math.min(pauseMs, left));
  }
}
