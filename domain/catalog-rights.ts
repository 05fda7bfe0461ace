/**
 * Who may change a catalog.
 *
 * 1. Nobody, where nobody is named (INV-G4). Loosening and tightening are rights apart.
 */
import type { CatalogRight, CatalogRules } from '../contracts/schemas/catalog.ts';
import type { Approver } from '../contracts/schemas/decision.ts';

export function rightsOf({ administrators }: CatalogRules, { id, groups }: Approver): ReadonlySet<CatalogRight> {
  return new Set(
    administrators
      .filter((who) => who.ids.includes(id) || who.groups.some((group) => groups.includes(group)))
      .flatMap(({ may }) => may),
  );
}

/** Undefined where all is given; else what is missing, for the refusal. */
export function missingRight(
  rules: CatalogRules,
  by: Approver,
  needed: Iterable<CatalogRight>,
): CatalogRight | undefined {
  const rights = rightsOf(rules, by);
  for (const right of needed) if (!rights.has(right)) return right;
  return undefined;
}
