/**
 * A change of tool policies, as `allow`, `ask`, `deny`, `enable` and `disable` make it.
 *
 * 1. What is changed is the catalog as it was read: another version is a conflict, and nothing is changed.
 * 2. No definition is acknowledged that nobody has looked at: one that changed is named by its hash.
 */
import { CountersignError } from '../contracts/errors.ts';
import type { CatalogEntry, ToolChange } from '../contracts/schemas/catalog.ts';
import { hasDrifted } from '../domain/catalog.ts';
import { visible } from '../domain/escape.ts';
import { changedSetting, directionsOf } from '../domain/tool-setting.ts';
import type { Answer } from './answer.ts';
import { type ActingOptions, sendAs } from './catalog-options.ts';
import { chosenEntries, readChanged } from './catalog-reading.ts';
import type { Session } from './session.ts';
import { changeAnswer } from './views/catalog-change.ts';

export interface ToolsChange {
  readonly server: string;
  readonly tools: readonly string[];
  readonly all?: boolean;
  /** Beginnings of the hashes of definitions that were looked at. */
  readonly hashes?: readonly string[];
  readonly change: Omit<ToolChange, 'tool' | 'acknowledge'>;
  /** Takes notice of each tool's definition: `always`, or only where a hash names it. */
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
