/** What the ledger of a catalog says, as one line for each fact. */
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import { settingText } from './catalog-setting.ts';
import { count, names, said, short, shortName } from './words.ts';

export type CatalogFact = Extract<LedgerFact, { readonly kind: `catalog.${string}` }>;
export type RunFact = Exclude<LedgerFact, CatalogFact>;

export function isOfCatalog(fact: LedgerFact): fact is CatalogFact {
  return fact.kind.startsWith('catalog.');
}

export function aboutCatalog(fact: CatalogFact): string {
  switch (fact.kind) {
    case 'catalog.connected':
      return `${said(fact.server)} of tenant ${said(fact.tenant)} to ${said(fact.connection.url)}${fact.connection.trusted ? ', trusted,' : ''} by ${said(fact.by.id)}, version ${fact.policyVersion}`;
    case 'catalog.disconnected':
      return `by ${said(fact.by.id)}, version ${fact.policyVersion}`;
    case 'catalog.refreshed':
      return `refresh ${fact.refresh}: ${[count(fact.count, 'tool'), ...changesOf(fact)].join('; ')}`;
    case 'catalog.refresh-failed':
      return `refresh ${fact.refresh}: ${said(fact.code)}: ${said(fact.message)}`;
    case 'catalog.policy':
      return `version ${fact.policyVersion} by ${said(fact.by.id)}${fact.countersignedBy === undefined ? '' : ` and ${said(fact.countersignedBy.id)}`}${policiesOf(fact)}`;
    case 'catalog.change-opened':
      return `${said(fact.changeId)} by ${said(fact.by.id)} until ${said(fact.deadline)}, digest ${short(fact.digest)}`;
    case 'catalog.change-closed':
      return `${said(fact.changeId)} ${fact.status} by ${said(fact.by.id)}`;
    case 'catalog.rolled':
      return '';
  }
}

function changesOf({
  added,
  missing,
  returned,
  changed,
  refused,
}: Extract<CatalogFact, { kind: 'catalog.refreshed' }>) {
  const lists = [
    ['added', added],
    ['missing', missing],
    ['returned', returned],
    ['changed', changed.map(({ tool }) => tool)],
    ['refused', refused],
  ] as const;
  return lists.flatMap(([what, list]) => (list.length === 0 ? [] : [`${what} ${names(list, 5)}`]));
}

function policiesOf({ trusted, changes }: Extract<CatalogFact, { kind: 'catalog.policy' }>): string {
  const shown = changes.slice(0, 5).map(({ tool, before, after, acknowledged }) => {
    const [was, is] = [settingText(before), settingText(after)];
    const seen = acknowledged === undefined ? '' : `, definition ${short(acknowledged)} acknowledged`;
    return `${shortName(tool)} ${was === is ? is : `${was} → ${is}`}${seen}`;
  });
  const more = changes.length > shown.length ? [`and ${changes.length - shown.length} more`] : [];
  const trust = trusted === undefined ? [] : [trusted ? 'server trusted' : 'server not trusted'];
  return [...trust, ...shown, ...more].map((part, index) => `${index === 0 ? ': ' : '; '}${part}`).join('');
}
