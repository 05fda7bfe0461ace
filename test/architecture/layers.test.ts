// Which folder may import what, derived anew from the source text: the lint rules say the same, and this notices when
// they are weakened or switched off.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { type Import, ROOT, importsOf, sourceFiles, topFolders } from './source-tree.ts';

interface Layer {
  /** Folders that may be imported besides its own. */
  readonly folders: readonly string[];
  /** Files of other folders that may be imported: each is held to this row, too. */
  readonly files?: readonly string[];
  /** Places that may be imported as types only. */
  readonly typeFolders?: readonly string[];
  /** Where stated, the only packages; one that ends in `/` is a scope. */
  readonly packages?: readonly string[];
  readonly typePackages?: readonly string[];
  /** Temporal packages that have no business in this layer. */
  readonly notTemporal?: readonly string[];
}

/** A place is a top-level folder, or contracts/schemas: the only part of the sandbox project that may hold zod as a value. */
const SCHEMAS = 'contracts/schemas';
const CONTRACTS = ['contracts', SCHEMAS];
const NODE_SIDE = [
  ...CONTRACTS,
  'domain',
  'activities',
  'workers',
  'client',
  'gateway',
  'cli',
  'examples',
  'bench',
  'scripts',
];

const LAYERS: Readonly<Record<string, Layer>> = {
  contracts: { folders: [], typeFolders: [SCHEMAS], packages: ['@temporalio/common'], typePackages: ['zod'] },
  [SCHEMAS]: { folders: ['contracts'], packages: ['zod'] },
  domain: {
    folders: ['contracts'],
    typeFolders: [SCHEMAS],
    packages: ['@noble/', 'canonicalize'],
    typePackages: ['zod'],
  },
  workflows: {
    folders: ['contracts', 'domain'],
    typeFolders: [SCHEMAS],
    packages: ['@temporalio/workflow', '@temporalio/common'],
    typePackages: ['zod'],
  },
  activities: { folders: [...CONTRACTS, 'domain'], notTemporal: ['workflow', 'worker', 'testing'] },
  workers: {
    folders: [...CONTRACTS, 'domain', 'activities'],
    typeFolders: ['workflows'],
    notTemporal: ['workflow', 'testing'],
  },
  client: {
    folders: [...CONTRACTS, 'domain'],
    files: ['activities/artifacts/bucket-request.ts'],
    notTemporal: ['workflow', 'worker', 'activity', 'testing'],
  },
  gateway: {
    folders: [...CONTRACTS, 'domain', 'client'],
    notTemporal: ['workflow', 'worker', 'activity', 'testing'],
  },
  cli: {
    folders: [...CONTRACTS, 'domain', 'workers', 'client', 'gateway'],
    typeFolders: ['workflows'],
    notTemporal: ['workflow', 'activity'],
  },
  testing: { folders: [...CONTRACTS, 'workers', 'client'], notTemporal: ['workflow', 'activity', 'testing'] },
  examples: { folders: [...CONTRACTS, 'client'] },
  bench: { folders: NODE_SIDE, typeFolders: ['workflows'] },
  scripts: { folders: NODE_SIDE, typeFolders: ['workflows'] },
};

/** All runs of a thread share these two, and only these hold schemas as values (docs/adr/0052). */
const SHARED: Readonly<Record<string, Layer>> = {
  'domain/shapes/inputs.ts': { folders: CONTRACTS, packages: [], typePackages: ['zod'] },
  'workflows/preloaded-schemas.ts': { folders: [...CONTRACTS, 'domain'], packages: [] },
};

const RULES = ['no-restricted-imports', 'no-restricted-globals', 'no-nodejs-modules', 'no-cycle'];

const files = sourceFiles();

function placeOf(path: string): string {
  return path.startsWith(`${SCHEMAS}/`) ? SCHEMAS : path.slice(0, Math.max(path.indexOf('/'), 0));
}

function isOneOf(specifier: string, packages: readonly string[]): boolean {
  return packages.some((name) => specifier === name || specifier.startsWith(name.endsWith('/') ? name : `${name}/`));
}

function isAllowed({ target, isRelative, isTypeOnly }: Import, place: string, layer: Layer): boolean {
  if (isRelative) {
    const to = placeOf(target);
    return (
      to === place ||
      layer.folders.includes(to) ||
      (layer.files ?? []).includes(target) ||
      (isTypeOnly && (layer.typeFolders ?? []).includes(to))
    );
  }
  if (
    isOneOf(
      target,
      (layer.notTemporal ?? []).map((name) => `@temporalio/${name}`),
    )
  )
    return false;
  if (layer.packages === undefined) return true;
  return isOneOf(target, layer.packages) || (isTypeOnly && isOneOf(target, layer.typePackages ?? []));
}

test('every folder of source has its row in the table', () => {
  const folders = topFolders().filter((folder) => files.some((file) => file.folder === folder));
  expect(folders.filter((folder) => folder !== 'test' && !(folder in LAYERS))).toEqual([]);
});

test('the sandbox folders and the scripts were seen', () => {
  for (const folder of ['contracts', 'domain', 'workflows', 'scripts', 'test']) {
    expect(files.filter((file) => file.folder === folder).length).toBeGreaterThan(1);
  }
});

test('each folder imports only what its row allows', () => {
  const broken = files.flatMap(({ path, imports }) => {
    const place = placeOf(path);
    const layer = SHARED[path] ?? LAYERS[place];
    return layer === undefined
      ? []
      : imports.filter((it) => !isAllowed(it, place, layer)).map(({ target }) => `${path} imports ${target}`);
  });
  expect(broken).toEqual([]);
});

test('a file that another folder may import brings nothing with it that its importer may not', () => {
  const broken = Object.entries(LAYERS).flatMap(([place, layer]) =>
    (layer.files ?? []).flatMap((shared) => {
      const loaded = files.find(({ path }) => path === shared)?.imports.filter(({ isTypeOnly }) => !isTypeOnly);
      if (loaded === undefined) return [`${shared} is not there`];
      return loaded.filter((it) => !isAllowed(it, place, layer)).map(({ target }) => `${shared} imports ${target}`);
    }),
  );
  expect(broken).toEqual([]);
});

test('every kind of import is read, and a forbidden one is seen', () => {
  const text = [
    `import { Run } from '../contracts/schemas/run.ts';`,
    `import {\n  type A,\n} from '../contracts/schemas/a.ts';`,
    `import type { B } from '../contracts/schemas/b.ts';`,
    `import 'node:fs';`,
    `export { c } from '../activities/c.ts';`,
    `export type * from 'zod';`,
    `const lazy = () => import('openai');`,
  ].join('\n');
  const imports = importsOf('domain/example.ts', text);
  expect(imports.map(({ target }) => target).sort()).toEqual([
    'activities/c.ts',
    'contracts/schemas/a.ts',
    'contracts/schemas/b.ts',
    'contracts/schemas/run.ts',
    'node:fs',
    'openai',
    'zod',
  ]);
  const domain = LAYERS['domain'] ?? { folders: [] };
  expect(imports.filter((it) => isAllowed(it, 'domain', domain)).map(({ target }) => target)).toEqual([
    'contracts/schemas/b.ts',
    'zod',
  ]);
});

test('no file switches the import rules off', () => {
  const disabling = /(?:oxlint|eslint)-disable(?:-next-line|-line)?\b([^*\n]*)/g;
  const offenders = files.flatMap(({ path, text }) =>
    [...text.matchAll(disabling)]
      // Without a rule's name the comment disables all of them.
      .filter(
        ([, rules = '']) =>
          rules.trim() === '' || rules.trim().startsWith('--') || RULES.some((rule) => rules.includes(rule)),
      )
      .map(([comment]) => `${path}: ${comment}`),
  );
  expect(offenders.filter((offender) => !offender.startsWith('test/architecture/'))).toEqual([]);
});

test('the lint configuration restricts the imports of every layer', () => {
  type Override = { files: string[]; rules?: Record<string, unknown> };
  const config = JSON.parse(readFileSync(join(ROOT, '.oxlintrc.json'), 'utf8')) as {
    overrides: Override[];
    rules: Record<string, unknown>;
  };
  const unrestricted = Object.keys(LAYERS).filter((place) => {
    const own = config.overrides.filter(({ files: globs }) => globs.includes(`${place}/**/*.ts`));
    const rule =
      own.map(({ rules }) => rules?.['no-restricted-imports']).find((it) => it !== undefined) ??
      config.rules['no-restricted-imports'];
    return !(Array.isArray(rule) && rule[0] === 'error');
  });
  expect(unrestricted).toEqual([]);
});
