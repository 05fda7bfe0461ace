// Bundles commands that people run all day, each with its packages: hundreds of files cost Node more than the work
// does (docs/adr/0085). `cli/main.ts` takes the bundle where there is one for the verb.
//
// 1. A verb is here only if it speaks to Temporal as a client and ends. A worker runs the files that the tests run.
// 2. What a command loads lazily of workers stays in files. The two give each other data alone: a class of ours, or of
//    a package, that is in both is there twice.
// 3. The licence of each package in a bundle is beside it.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

/** Verbs whose commands are bundled. */
export const BUNDLED = [
  'start',
  'call',
  'requests',
  'show',
  'approve',
  'reject',
  'respond',
  'resolve',
  'answer',
  'authorize',
  'withdraw',
  'forget',
  'extend',
  'say',
  'stop',
  'watch',
  'result',
  'ledger',
];

/** Packages in CommonJS ask for modules of Node by `require`, which an ES module does not have. */
const BANNER = `import{createRequire as nodeRequire}from'node:module';const require=nodeRequire(import.meta.url);`;

/** A map that says of a file only which one it is. */
const NO_MAP = `data:application/json;base64,${btoa('{"version":3,"sources":[""],"mappings":"AAAA"}')}`;

/** @param {string} dist what the compiler made */
export async function bundleCommands(dist) {
  const outdir = join(dist, 'cli/bundled');
  const stays = staying(dist);
  const { metafile } = await build({
    // One entry for each verb, all of them the same: by its file `cli/main.ts` knows that a verb is bundled.
    entryPoints: BUNDLED.map((verb) => ({ in: `verb:${verb}`, out: verb })),
    outdir,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node20.19',
    minifyWhitespace: true,
    minifySyntax: true,
    sourcemap: true,
    sourcesContent: false,
    banner: { js: BANNER },
    // gRPC asks for it where it measures itself, which nobody here does.
    external: ['@grpc/proto-loader'],
    // Its form for browsers is an ES module, which can be loaded lazily by name out of a bundle.
    alias: { yaml: fileURLToPath(new URL('../browser/index.js', import.meta.resolve('yaml'))) },
    metafile: true,
    logLevel: 'warning',
    plugins: [
      {
        name: 'commands',
        setup({ onResolve, onLoad }) {
          onResolve({ filter: /^verb:/ }, ({ path }) => ({ path, namespace: 'verb' }));
          onLoad({ filter: /^/, namespace: 'verb' }, () => ({
            contents: `export { runCli } from './program.js'; export { processTerminal } from './session/terminal.js';`,
            resolveDir: join(dist, 'cli'),
          }));
          // Zod's messages in forty languages would be a tenth of the bundle.
          onLoad({ filter: /\/zod\/v4\/locales\/index\.js$/ }, () => ({
            contents: `export { default as en } from './en.js';`,
          }));
          // Our own lines are found again; maps of packages would be larger than the packages.
          onLoad({ filter: /\/node_modules\/.*\.js$/ }, ({ path }) => ({
            contents: `${readFileSync(path, 'utf8')}\n//# sourceMappingURL=${NO_MAP}`,
          }));
          onResolve({ filter: /^/ }, ({ kind, path, resolveDir }) => {
            if (kind !== 'dynamic-import' || path === 'yaml') return undefined;
            // Packages that only some commands need are loaded from where they are installed.
            if (!path.startsWith('.')) return { path, external: true };
            const file = resolve(resolveDir, path);
            return stays(file) ? { path: relative(outdir, file), external: true } : undefined;
          });
        },
      },
    ],
  });
  writeFileSync(join(outdir, 'LICENSES.txt'), licences(Object.keys(metafile.inputs)));
}

/**
 * @param {string} dist
 * @returns {(file: string) => boolean} true for a file that is not bundled where it is loaded lazily: another verb, a
 *   part of workers or gateways, or what installs the native runtime
 */
function staying(dist) {
  const program = readFileSync(join(dist, 'cli/program.js'), 'utf8');
  const fileOf = new Map(
    [...program.matchAll(/^ +'?([a-z-]+)'?: async \(\) => \(await import\('(.*?)'\)\)/gm)].map(([, verb, path]) => [
      verb,
      join(dist, 'cli', String(path)),
    ]),
  );
  const unknown = BUNDLED.filter((verb) => !fileOf.has(verb));
  if (unknown.length > 0) throw new Error(`cli/program.ts has no verb ${unknown.join(', ')}`);
  const bundled = new Set(BUNDLED.map((verb) => fileOf.get(verb)));
  const verbs = new Set([...fileOf.values()].filter((file) => !bundled.has(file)));
  const folders = ['workers', 'gateway'].map((name) => join(dist, name, sep));
  const runtime = join(dist, 'cli/session/runtime.js');
  return (file) => verbs.has(file) || file === runtime || folders.some((folder) => file.startsWith(folder));
}

/**
 * @param {readonly string[]} paths of what was bundled, relative to here
 * @returns {string} each licence once, after the packages among them that have it
 */
function licences(paths) {
  const folders = new Set(paths.flatMap((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? []));
  /** @type {Map<string, string[]>} */
  const packages = new Map();
  for (const folder of [...folders].toSorted()) {
    const { name, version, license } = /** @type {{name: string, version: string, license: string}} */ (
      JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
    );
    const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
    const text = file === undefined ? license : readFileSync(join(folder, file), 'utf8').trim();
    packages.set(text, [...(packages.get(text) ?? []), `${name} ${version} (${license})`]);
  }
  return [...packages].map(([text, names]) => `${names.join('\n')}\n\n${text}\n`).join(`\n${'-'.repeat(80)}\n\n`);
}
