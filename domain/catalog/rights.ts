/** The rights of a person over the catalogs of a tenant, by the rules that a catalog asks for when they do it. */
import type { CatalogRight, CatalogRules, CatalogSnapshot, PendingChange } from '../../contracts/schemas/catalog.ts';
import type { CatalogOffer } from '../../contracts/schemas/http/catalogs.ts';
import type { Approver } from '../../contracts/schemas/request.ts';
import { isSamePerson } from '../policy/approvers.ts';
import { rightsOf } from './settings.ts';

type Administrators = CatalogRules['administrators'];

export function administratorsOf(
  administrators: readonly (Administrators[number] & { readonly tenant: string })[],
  tenant: string,
): Administrators {
  return administrators
    .filter((each) => each.tenant === tenant)
    .map(({ ids, groups, may }) => ({ ids, groups, may: [...may] }));
}

export function catalogOffers(
  { status }: Pick<CatalogSnapshot, 'status'>,
  rights: ReadonlySet<CatalogRight>,
): readonly CatalogOffer[] {
  const isConnected = status === 'connected';
  return [
    ...(rights.has('connect') ? (['connect'] as const) : []),
    ...(rights.has('connect') && isConnected ? (['disconnect'] as const) : []),
    ...(rights.size > 0 && isConnected ? (['refresh'] as const) : []),
    ...(rights.has('loosen') ? (['loosen'] as const) : []),
    ...(rights.has('tighten') ? (['tighten'] as const) : []),
  ];
}

/** The answers that the person may give to a change that waits: nobody agrees to their own. @param now epoch ms */
export function pendingOffers(
  { by, deadline }: Pick<PendingChange, 'by' | 'deadline'>,
  rules: CatalogRules,
  person: Approver,
  now: number,
): readonly ('approve' | 'reject')[] {
  if (Date.parse(deadline) <= now || !rightsOf(rules, person).has('loosen')) return [];
  return isSamePerson(rules, by.id, person.id) ? ['reject'] : ['approve', 'reject'];
}
