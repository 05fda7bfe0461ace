/**
 * Changes tool policies for `catalog allow`, `ask`, `deny`, `enable` and `disable`.
 *
 * 1. A change applies to the catalog version that was read. Another version is a conflict, and nothing is changed.
 * 2. No definition is acknowledged that nobody has looked at: the operator names a changed one by its hash.
 */
import type { CatalogHandle } from '../../client/index.ts';
import { CountersignError, isErrorCode } from '../../contracts/errors.ts';
import type { CatalogEntry, CatalogSnapshot, ToolChange } from '../../contracts/schemas/catalog.ts';
import { changedSetting, directionsOf } from '../../domain/catalog/settings.ts';
import { hasDrifted } from '../../domain/catalog/state.ts';
import { visible } from '../../domain/text/escape.ts';
import type { Answer } from '../session/answered.ts';
import { chosenEntries, readChanged } from '../session/catalog-reading.ts';
import { type ActingOptions, sendAs } from '../session/options.ts';
import type { Session } from '../session/session.ts';
import { changeAnswer, type RefreshDifference, type Refreshed } from '../views/catalog-change.ts';

export interface ToolsChange {
  readonly server: string;
  readonly tools: readonly string[];
  readonly all?: boolean;
  /** First characters of the hashes of definitions that the operator has looked at. */
  readonly hashes?: readonly string[];
  readonly change: Omit<ToolChange, 'tool' | 'acknowledge'>;
  /** Says whether to acknowledge each tool's definition: `always`, or only if a hash names it. */
  readonly acknowledge?: 'always' | 'named';
}

export async function changeTools(
  { countersign, settings }: Session,
  options: ActingOptions,
  wanted: ToolsChange,
): Promise<Answer> {
  const { server, tools, all = false } = wanted;
  const handle = countersign.catalog(server, options.tenant);
  const snapshot = await handle.snapshot();
  const entries = chosenEntries(snapshot, tools, all).filter((entry) => !all || changes(entry, wanted));
  assertNamed(entries, wanted, options.tenant);
  const expectedVersion = options.expectedVersion ?? snapshot.policyVersion;
  const names = entries.map(({ name }) => name);
  const ack =
    entries.length === 0
      ? undefined
      : await sendAs(options, expectedVersion, (ids) =>
          handle.setToolPolicies({
            ...ids,
            expectedVersion,
            changes: entries.map((entry) => ({ tool: entry.name, ...wanted.change, ...noticeOf(entry, wanted) })),
          }),
        );
  return changeAnswer(snapshot, ack, await readChanged(handle, settings), names);
}

function changes({ setting }: CatalogEntry, { change }: ToolsChange): boolean {
  return directionsOf(setting, changedSetting(setting, { tool: '', ...change })).size > 0;
}

function noticeOf({ definition: { hash } }: CatalogEntry, wanted: ToolsChange): Pick<ToolChange, 'acknowledge'> {
  const { acknowledge, hashes = [] } = wanted;
  const isNamed = acknowledge === 'named' && hashes.some((prefix) => hash.startsWith(prefix));
  return acknowledge === 'always' || isNamed ? { acknowledge: hash } : {};
}

/** @throws CountersignError `DEFINITION_CHANGED` */
function assertNamed(entries: readonly CatalogEntry[], wanted: ToolsChange, tenant: string): void {
  const { server, hashes = [], acknowledge } = wanted;
  const isNamed = ({ definition }: CatalogEntry): boolean =>
    hashes.some((prefix) => definition.hash.startsWith(prefix));
  const stale = hashes.find((prefix) => !entries.some(({ definition }) => definition.hash.startsWith(prefix)));
  const drifted = acknowledge === 'always' ? entries.find((entry) => hasDrifted(entry) && !isNamed(entry)) : undefined;
  if (drifted === undefined && stale === undefined) return;
  const what =
    drifted === undefined
      ? `No tool that you name has a definition with hash ${stale}`
      : `${visible(drifted.name)} is not what an operator has acknowledged, and no --hash names what it is now`;
  throw new CountersignError(
    'DEFINITION_CHANGED',
    `${what}. Read it first (countersign catalog diff ${server} --tenant ${tenant}), then add --hash with the hash that is shown there; nothing was sent.`,
    { server },
  );
}

/** A listing takes as long as its server does, and one attempt lasts at most a minute. */
const DEFAULT_DEADLINE_SECONDS = 60;

/**
 * Waits for the end of a refresh and collects what has changed.
 * @param before absent if there was no catalog
 * @throws CountersignError with the code of a refresh that failed, or `RESULT_UNCERTAIN` if the refresh goes on
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
