/** A loosening that waits for a second administrator. */
import type { CatalogSnapshot, PendingChange, ToolChange } from '../../contracts/schemas/catalog.ts';
import { visible } from '../../domain/escape.ts';
import { changedSetting } from '../../domain/tool-setting.ts';
import type { Paint } from '../terminal.ts';
import { settingText } from './catalog-setting.ts';
import { shortInstant, timeLeft } from './duration.ts';
import { fields } from './fields.ts';
import { count, short, shortName } from './words.ts';

/** A change that waits, with all that its digest is over and a person can judge, and how to agree to it. */
export function pendingText(
  { tenant, server, entries }: Pick<CatalogSnapshot, 'tenant' | 'server' | 'entries'>,
  { changeId, digest, by, openedAt, deadline, trusted, changes }: PendingChange,
  now: number,
  paint: Paint,
): string {
  const lines = changes.map((change) => `    ${changeText(entries, change)}`);
  const rows = [
    ['asked by', `${visible(by.id)} at ${shortInstant(openedAt)}`],
    ['until', `${shortInstant(deadline)}, ${timeLeft(deadline, now)}`],
    ['digest', digest],
    ['trusts the server', trusted === undefined ? undefined : trusted ? 'yes' : 'no'],
  ] as const;
  const next = `Agree: countersign catalog approve ${visible(server)} ${visible(changeId)} --tenant ${visible(tenant)} --as ID --digest ${digest}`;
  return [
    `${paint('bold', visible(changeId))}  ${paint('yellow', 'waits for a second administrator')}, ${count(changes.length, 'tool')}`,
    fields(paint, rows),
    ...lines,
    paint('dim', next),
  ].join('\n');
}

function changeText(entries: CatalogSnapshot['entries'], change: ToolChange): string {
  const { tool, acknowledge } = change;
  const entry = entries.find(({ name }) => name === tool);
  const notice = acknowledge === undefined ? '' : `, definition ${short(acknowledge)} acknowledged`;
  if (entry === undefined) return `${shortName(tool)}: is not in the catalog any more`;
  return `${shortName(tool)}: ${settingText(entry.setting)} → ${settingText(changedSetting(entry.setting, change))}${notice}`;
}
