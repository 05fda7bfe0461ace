/** Temporal UI shows this text of a catalog: Markdown, with foreign names made visible and inert. */
import { type Catalog, hasDrifted } from '../catalog/state.ts';
import { bounded, codeSpan, markdown } from '../text/escape.ts';

const MOST_NAMED = 20;

export function catalogDetails(catalog: Catalog): string {
  const { status, connection, entries, pending, policyVersion, lastRefresh } = catalog;
  const named = (title: string, names: readonly string[]): string[] =>
    names.length === 0 ? [] : [`- ${title} (${names.length}): ${listed(names)}`];
  const available = entries.filter((entry) => entry.status === 'available');
  const of = (wanted: (entry: Catalog['entries'][number]) => boolean): string[] =>
    entries.filter(wanted).map(({ name }) => name);
  return [
    `**${status}**${connection === undefined ? '' : ` to ${codeSpan(bounded(connection.url, 200))}`}, version ${policyVersion}`,
    `- ${available.length} tools available`,
    ...named(
      'Changed since an operator looked',
      of((entry) => hasDrifted(entry)),
    ),
    ...named(
      'Missing',
      of((entry) => entry.status === 'missing'),
    ),
    ...named(
      'Disabled',
      of(({ setting }) => !setting.enabled),
    ),
    ...named(
      'Waiting for a second administrator',
      pending.map(({ changeId }) => changeId),
    ),
    ...(lastRefresh?.ok === false
      ? [`- The last refresh failed: ${markdown(`${lastRefresh.code}: ${bounded(`${lastRefresh.message}`, 300)}`)}`]
      : []),
  ].join('\n');
}

function listed(names: readonly string[]): string {
  const shown = names.slice(0, MOST_NAMED).map((name) => codeSpan(bounded(name, 64)));
  return `${shown.join(', ')}${names.length > MOST_NAMED ? ' …' : ''}`;
}
