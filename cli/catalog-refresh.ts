/** The end of a refresh, and what it has changed for whoever has read the catalog before. */
import type { CatalogHandle } from '../client/index.ts';
import { CountersignError, isErrorCode } from '../contracts/errors.ts';
import type { CatalogEntry, CatalogSnapshot, RefreshReport } from '../contracts/schemas/catalog.ts';

export interface RefreshDifference {
  readonly added: readonly string[];
  readonly missing: readonly string[];
  readonly returned: readonly string[];
  /** Their definition is another one. */
  readonly changed: readonly string[];
}

export interface Refreshed {
  readonly report: RefreshReport;
  readonly difference: RefreshDifference;
  readonly snapshot: CatalogSnapshot;
}

/** A listing takes as long as its server; a try of one a minute at the most. */
const DEFAULT_DEADLINE_SECONDS = 60;

/**
 * @param before absent where there was no catalog
 * @throws CountersignError with the code of a refresh that failed, `RESULT_UNCERTAIN` where it goes on
 */
export async function awaitRefresh(
  handle: CatalogHandle,
  refresh: number,
  before: CatalogSnapshot | undefined,
  deadlineSeconds = DEFAULT_DEADLINE_SECONDS,
): Promise<Refreshed> {
  const report = await handle.settled(refresh, { deadlineMs: deadlineSeconds * 1_000 });
  const { tenant, server } = handle;
  if (!report.ok) {
    const { code, message = 'It failed without a reason.' } = report;
    throw new CountersignError(
      isErrorCode(code) ? code : 'DISCOVERY_FAILED',
      `Refresh ${report.refresh} of ${server} failed, and its tools are as they were: ${message}`,
      { tenant, server, refresh: report.refresh },
    );
  }
  const snapshot = await handle.snapshot();
  return { report, difference: refreshDifference(before?.entries ?? [], snapshot.entries), snapshot };
}

export function refreshDifference(before: readonly CatalogEntry[], after: readonly CatalogEntry[]): RefreshDifference {
  const known = new Map(before.map((entry) => [entry.name, entry]));
  const named = (isMeant: (is: CatalogEntry, was: CatalogEntry | undefined) => boolean): string[] =>
    after.filter((entry) => isMeant(entry, known.get(entry.name))).map(({ name }) => name);
  return {
    added: named((_is, was) => was === undefined),
    missing: named((is, was) => was?.status === 'available' && is.status === 'missing'),
    returned: named((is, was) => was?.status === 'missing' && is.status === 'available'),
    changed: named((is, was) => was !== undefined && was.definition.hash !== is.definition.hash),
  };
}
