/** Changes that would break catalogs that wait; see `mutations.ts`. */
import { always, never, replaced } from './change.ts';
import type { Mutation } from './mutant.ts';

export const CATALOG_COMMANDS: readonly Mutation[] = [
  {
    name: 'a catalog asks nobody who may',
    noticedIn: 'tool-catalog.connected',
    change: replaced(
      'LiveCatalog.review',
      'await $_.reviewChange($_)',
      "{ rules: { administrators: [{ ids: ['ann'], groups: [], may: ['connect', 'loosen', 'tighten'] }], newTools: 'ask', loosening: 'allow' }, objections: [] }",
    ),
  },
];

export const CATALOG_CONTENT: readonly Mutation[] = [
  {
    name: 'the next execution of a catalog forgets its policy',
    noticedIn: 'tool-catalog.continued-first',
    change: replaced(
      'LiveCatalog.carry',
      '{ version: CATALOG_CARRY_VERSION, catalog: $catalog, $$rest }',
      '{ version: CATALOG_CARRY_VERSION, catalog: { ...$catalog, entries: [] }, $$rest }',
    ),
  },
];

export const CATALOG_REFUSALS: readonly Mutation[] = [
  {
    name: 'a catalog takes a change of any version',
    noticedIn: 'tool-catalog.connected',
    change: always('checkVersion', '$_ === $_.policyVersion'),
  },
  {
    name: 'anybody may write to a catalog',
    noticedIn: 'tool-catalog.connected',
    change: never('register', 'rightsOf($$).size === 0'),
  },
];
