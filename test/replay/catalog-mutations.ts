/** Changes that would break catalogs that wait; see `mutations.ts`. */
import type { Mutation } from './mutant.ts';

export const CATALOG_COMMANDS: readonly Mutation[] = [
  {
    name: 'a catalog asks nobody who may',
    noticedIn: 'tool-catalog.v2.connected',
    file: 'workflows/live-catalog.ts',
    find: "const answer = await reviewActivities().reviewChange({ tenant, server, ...wanted, ...known });\n    const review = answered(this, 'reviewChange', answer);",
    put: "const review = { rules: { administrators: [{ ids: ['ann'], groups: [], may: ['connect', 'loosen', 'tighten'] as const }], newTools: 'ask' as const, loosening: 'allow' as const }, objections: [] } as unknown as Review; reviewActivities(); void [tenant, server, wanted, known];",
  },
];

export const CATALOG_CONTENT: readonly Mutation[] = [
  {
    name: 'the next execution of a catalog forgets its policy',
    noticedIn: 'tool-catalog.v2.continued-first',
    file: 'workflows/live-catalog.ts',
    find: 'return { version: CATALOG_CARRY_VERSION, catalog: this.catalog, journal };',
    put: 'return { version: CATALOG_CARRY_VERSION, catalog: { ...this.catalog, entries: [] }, journal };',
  },
];

export const CATALOG_REFUSALS: readonly Mutation[] = [
  {
    name: 'a catalog takes a change of any version',
    noticedIn: 'tool-catalog.v2.connected',
    file: 'domain/catalog-policy.ts',
    find: 'if (expected === catalog.policyVersion) return undefined;',
    put: 'if (expected >= 0) return undefined;',
  },
  {
    name: 'anybody may write to a catalog',
    noticedIn: 'tool-catalog.v2.connected',
    file: 'workflows/catalog-handlers.ts',
    find: 'if (rules !== undefined && rightsOf(rules, message.by).size === 0)',
    put: "if (rules !== undefined && rightsOf(rules, message.by).size === 0 && message.by.id === '')",
  },
];
