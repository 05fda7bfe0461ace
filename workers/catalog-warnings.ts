/** What a configuration says of catalogs that is allowed and probably not meant. */
import type { Config } from '../contracts/schemas/config.ts';
import { pathText } from '../contracts/schemas/issues.ts';

export function catalogWarnings(config: Config): string[] {
  return [...forNobody(config), ...withoutSecond(config), ...withoutServer(config)];
}

function forNobody({ catalog }: Config): string[] {
  return catalog.administrators.flatMap(({ ids, groups }, index) =>
    ids.length + groups.length === 0
      ? [`catalog.administrators[${index}] names neither ids nor groups: it gives its rights to nobody.`]
      : [],
  );
}

/** Groups may have any number of members. */
function withoutSecond({ catalog: { administrators, loosening } }: Config): string[] {
  if (loosening !== 'countersign') return [];
  const mayLoosen = administrators.filter(({ may }) => may.includes('loosen'));
  return [...new Set(mayLoosen.map(({ tenant }) => tenant))].flatMap((tenant) => {
    const named = mayLoosen.filter((each) => each.tenant === tenant);
    const people = new Set(named.flatMap(({ ids }) => ids));
    return people.size === 1 && named.every(({ groups }) => groups.length === 0)
      ? [
          `catalog.loosening is countersign, and in tenant ${tenant} only ${[...people].join('')} may loosen: nobody can agree to a loosening there.`,
        ]
      : [];
  });
}

/** Credentials are only for servers that stand in no configuration but in a catalog. */
function withoutServer({ catalog, credentials }: Config): string[] {
  const reachable = new Set(catalog.origins.map((url) => new URL(url).origin));
  return Object.entries(credentials).flatMap(([name, { origins }]) =>
    origins.some((url) => reachable.has(new URL(url).origin))
      ? []
      : [
          `${pathText(['credentials', name])} can be used by no catalog: none of its origins stands in catalog.origins.`,
        ],
  );
}
