/**
 * Makes the workflow bundle: the code that a run replays, with the interceptors that were there when it was recorded.
 *
 * 1. `npm run build` leaves a bundle beside the code, so that a starting worker need not make it again.
 * 2. That bundle is used only if it is whole, and every file it was made of is unchanged. A bundle of other code would
 *    replay runs otherwise than this build says.
 * 3. Every bundle begins with a mark, so that a bundle without our converters and interceptors is refused. The mark
 *    holds a hash of our own workflow code, since a version number stays the same from one build to the next.
 */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, extname, join, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type BundleOptions, bundleWorkflowCode, DefaultLogger } from '@temporalio/worker';
import { z } from 'zod';
import { CountersignError } from '../contracts/errors.ts';
import { CATALOG_WORKFLOW, DIGEST_WORKFLOW, RUN_WORKFLOW } from '../contracts/names.ts';
import type { Config } from '../contracts/schemas/config.ts';
import { isFields } from '../domain/shapes/inputs.ts';
import { CONVERTER_FILES } from './codec.ts';
import { packageVersion } from './setup.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** `.ts` in the sources, `.js` in the output of `npm run build`. */
const ENDING = extname(fileURLToPath(import.meta.url));
/** These files are not in the bundle, but decide which modules are. */
const MAKERS = [
  ...['bundle', 'codec', 'tracing', 'replay/replayed-run'].map((name) => join(ROOT, 'workers', `${name}${ENDING}`)),
  createRequire(import.meta.url).resolve('@temporalio/worker/package.json'),
];

export interface WorkflowBundle {
  readonly code: string;
  /** Names a build: 12 characters of a hash of its modules, independent of where they lie and who made it. */
  readonly buildId: string;
}

export interface MadeBundle extends WorkflowBundle {
  readonly files: readonly string[];
  /** Names that the module of workflows exports; undefined if only running it would tell. */
  readonly workflows: readonly string[] | undefined;
}

/** Our own code that is in each bundle, whatever else its maker adds. */
const OWN_FOLDERS = ['contracts', 'domain', 'workflows'] as const;

let mark: string | undefined;

/** Begins the code of each bundle made here. Version and hash are those of the activities which its runs call. */
export function bundleMark(): string {
  mark ??= `/* workflow bundle of countersign ${packageVersion()}, code ${hashOfOwnCode()} */`;
  return mark;
}

function hashOfOwnCode(): string {
  const hash = createHash('sha256');
  for (const folder of OWN_FOLDERS)
    for (const name of codeIn(join(ROOT, folder))) {
      const content = readFileSync(join(ROOT, folder, name));
      const path = `${folder}/${name.split(sep).join('/')}`;
      hash.update(`\0${path}\0${content.length}\0`).update(content);
    }
  return hash.digest('hex').slice(0, 12);
}

function codeIn(folder: string, ending = ENDING): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith(ending) && !name.endsWith('.d.ts'))
    .toSorted();
}

/**
 * Refuses a bundle that `bundleWorkflows` of this build did not make: without our payload converter one unreadable
 * message stops a run, and without our interceptors a query can damage it (docs/adr/0044, 0046).
 *
 * @throws CountersignError `BUNDLE_INCOMPLETE`
 */
export function assertMadeHere({ code }: WorkflowBundle): void {
  if (code.startsWith(bundleMark())) return;
  const message = `The given workflow bundle was not made by this build of countersign (${packageVersion()}), so it may lack its payload converter and interceptors. Make it anew with bundleWorkflows of countersign/worker, from a module that exports your workflows and those of countersign/workflows.`;
  throw new CountersignError('BUNDLE_INCOMPLETE', message);
}

type Webpack = Parameters<NonNullable<BundleOptions['webpackConfigHook']>>[0];
type WebpackPlugin = NonNullable<Webpack['plugins']>[number];

const TRACE_SDK = '@opentelemetry/sdk-trace-base';

/** Interceptors of every bundle, in this order; those of tracing follow (docs/adr/0044, 0046, 0047, 0087, 0088). */
const INTERCEPTORS = [
  'interceptors/trace-headers',
  'interceptors/query-guard',
  'interceptors/zone',
  'interceptors/separate-tasks',
  'interceptors/condition',
] as const;

export function workflowFile(name: string): string {
  return join(ROOT, 'workflows', `${name}${ENDING}`);
}

/** Modules of `domain/` that no workflow uses: they are for workers, clients and gateways. */
export const NOT_IN_RUNS: ReadonlySet<string> = new Set([
  'catalog/file',
  'catalog/layer',
  'catalog/rights',
  'gate/ticket',
  'history/discarded-send',
  'policy/judge',
  'policy/sender-constraint',
  'request/gathering',
  'request/onlooker',
  'request/permitted',
  'run/hosted',
  'run/single-call',
  'run/spec-screen',
  'shapes/reported-progress',
  'text/object-keys',
  'text/shell-word',
  'text/written-json',
  'views/inert-definition',
  'views/model-text',
]);

/** Returns the modules of `domain/` in runs: they are pure, so all runs of a thread share one copy (docs/adr/0065). */
function domainOf(fileOf: (name: string) => string): string[] {
  const entry = fileOf('index');
  const ending = extname(entry);
  const folder = join(dirname(entry), '../domain');
  return codeIn(folder, ending)
    .filter((name) => !NOT_IN_RUNS.has(name.split(sep).join('/').slice(0, -ending.length)))
    .map((name) => join(folder, name));
}

/**
 * Makes a bundle in about two seconds; make one and share it.
 *
 * @returns with the files that it was made of
 * @param interceptorModules of replays and tests alone, beside those that every bundle has: a module here changes what
 * a run replays, and histories that were recorded with it compare with the same bundle only
 * @param fileOf where workflow code lies; a copy of it needs its own interceptors, which share state with it
 * @param tracing `off` leaves OpenTelemetry's SDK out; both bundles replay the same histories (docs/adr/0065)
 */
export async function bundleWorkflows(
  workflowsPath = workflowFile('index'),
  interceptorModules: readonly string[] = [],
  fileOf = workflowFile,
  tracing: Config['tracing'] = 'off',
): Promise<MadeBundle> {
  const modules: BundledModule[] = [];
  const { createTracing } = await import('./tracing.ts');
  const { code } = await bundleWorkflowCode({
    workflowsPath,
    ...CONVERTER_FILES,
    preloadModules: [fileOf('preloaded-schemas'), ...domainOf(fileOf)],
    workflowInterceptorModules: [...INTERCEPTORS.map((name) => fileOf(name)), ...interceptorModules],
    plugins: [createTracing('off')],
    webpackConfigHook: (webpack) => ({
      ...webpack,
      // Without a context webpack would name modules relative to the directory in which the process was started.
      context: ROOT,
      // Unused code of packages is left out: all of zod would be three times as much.
      optimization: { ...webpack.optimization, moduleIds: 'natural', sideEffects: true, usedExports: true },
      plugins: [...(webpack.plugins ?? []), listModules(modules)],
      module: { ...webpack.module, rules: (webpack.module?.rules ?? []).map(withNativeSpread) },
      resolve: {
        ...webpack.resolve,
        alias: { ...webpack.resolve?.alias, ...(tracing === 'off' && { [`${TRACE_SDK}$`]: fileOf('untraced') }) },
      },
      // Stack traces keep file and line. Columns, and the sources themselves, would more than double what every worker
      // holds of the bundle.
      devtool: 'inline-nosources-cheap-module-source-map',
      output: { ...webpack.output, pathinfo: false, devtoolModuleFilenameTemplate: sourceNameFrom(workflowsPath) },
    }),
    logger: new DefaultLogger('ERROR', ({ message }) => void process.stderr.write(`${message}\n`)),
  });
  const files = new Set([...MAKERS, ...modules.flatMap(({ file }) => file ?? [])]);
  return {
    code: `${bundleMark()}${code}`,
    buildId: hashOfModules(modules),
    files: [...files].filter((file) => existsSync(file)).toSorted(),
    workflows: modules.find(({ file }) => file === realpathSync(workflowsPath))?.exported,
  };
}

export interface OwnWorkflows {
  /** Absolute path of a module that exports the backend's workflows and `* from 'countersign/workflows'`. */
  readonly workflowsPath: string;
  /** Same values as `tracing` of the configuration. */
  readonly tracing?: Config['tracing'];
}

/**
 * Bundles a backend's own workflows together with those of runs, whose converters and interceptors hold for both.
 * @throws CountersignError `BUNDLE_INCOMPLETE` if the path names no file, or its module lacks the workflows of runs
 */
export async function bundleOwnWorkflows({ workflowsPath, tracing }: OwnWorkflows): Promise<WorkflowBundle> {
  // The bundle does not tell what a folder exports, and a name without its ending is no file.
  if (statSync(workflowsPath, { throwIfNoEntry: false })?.isFile() !== true) {
    const message = `workflowsPath is no file: ${workflowsPath}. Name the module itself, with its ending, such as workflows/index.js.`;
    throw new CountersignError('BUNDLE_INCOMPLETE', message, { path: 'workflowsPath' });
  }
  const { code, buildId, workflows } = await bundleWorkflows(workflowsPath, [], undefined, tracing);
  const missing =
    workflows && [RUN_WORKFLOW, CATALOG_WORKFLOW, DIGEST_WORKFLOW].filter((name) => !workflows.includes(name));
  if (missing === undefined || missing.length === 0) return { code, buildId };
  const message = `The module of workflows does not export ${missing.join(' and ')}. Add this line to it: export * from 'countersign/workflows';`;
  throw new CountersignError('BUNDLE_INCOMPLETE', message, { missing: missing.join(', ') });
}

type WebpackRule = NonNullable<NonNullable<Webpack['module']>['rules']>[number];

/**
 * Has spread objects stay as they are, as in the output of `npm run build`: the SDK's choice puts functions for them
 * into each module, which are 200 kB together.
 */
function withNativeSpread(rule: WebpackRule): WebpackRule {
  if (!isFields(rule) || !isFields(rule['use']) || !isFields(rule['use']['options'])) return rule;
  const { options } = rule['use'];
  const jsc = isFields(options['jsc']) ? options['jsc'] : {};
  return { ...rule, use: { ...rule['use'], options: { ...options, jsc: { ...jsc, target: 'es2018' } } } };
}

/** Begins a bundle whose runs say where they wait. */
const STACK_TRACES = '/* with stack traces */';

/**
 * Returns the code of a bundle whose runs can say where they wait, to the query `__stack_trace`
 * (`workers/workflow-threads.ts`). The mark is put before the first line, so that places in the source map stay right.
 */
export function withStackTraces(code: string): string {
  return `${STACK_TRACES}${code}`;
}

export function keepsStackTraces(code: string): boolean {
  return code.startsWith(STACK_TRACES);
}

interface BundledModule {
  readonly id: string;
  readonly code: string;
  readonly file: string | undefined;
  readonly exported: readonly string[] | undefined;
}

/** Collects the modules with their ids, which are numbers in the order in which modules are first asked for. */
function listModules(into: BundledModule[]): WebpackPlugin {
  return {
    apply: (compiler) =>
      compiler.hooks.compilation.tap('BuildId', (compilation) =>
        compilation.hooks.afterProcessAssets.tap('BuildId', () => {
          const { codeGenerationResults: made, chunkGraph, moduleGraph } = compilation;
          for (const module of compilation.modules) {
            // Modules that only re-export others have no code.
            if (made === undefined || !made.has(module, undefined)) continue;
            const id = String(chunkGraph.getModuleId(module));
            const file = 'resource' in module && typeof module.resource === 'string' ? module.resource : undefined;
            const provided = moduleGraph.getProvidedExports(module);
            const exported = Array.isArray(provided) ? provided : undefined;
            for (const source of made.get(module, undefined).sources.values())
              into.push({ id, code: source.source().toString(), file, exported });
          }
        }),
      ),
  };
}

function hashOfModules(modules: readonly BundledModule[]): string {
  const hash = createHash('sha256');
  for (const { id, code } of modules.toSorted((one, other) => (one.id < other.id ? -1 : 1)))
    hash.update(JSON.stringify([id, code]));
  return hash.digest('hex').slice(0, 12);
}

/**
 * Names a file as stack traces show it: relative to this package's root, to the folder of the workflows, or to the
 * place of packages. Machine paths would make a bundle's size depend on where it was made, and would enter histories.
 */
function sourceNameFrom(workflowsPath: string) {
  const folders = [ROOT, `${dirname(workflowsPath)}${sep}`];
  return ({ absoluteResourcePath }: { readonly absoluteResourcePath: string }): string => {
    const near = folders.reduce((path, folder) => path.split(folder).join(''), absoluteResourcePath);
    const path = near.split(sep).join('/');
    const packages = path.indexOf(PACKAGES);
    return packages === -1 ? path : path.slice(packages + 1);
  };
}

const PACKAGES = '/node_modules/';

const PLACE = fileURLToPath(new URL('../workflow-bundle.json', import.meta.url));

const Built = z.strictObject({
  buildId: z.string(),
  /** Paths relative to the folder of this file; those of packages as `node_modules/…`, wherever they are installed. */
  files: z.array(z.string()).min(1),
  /** sha256 of the files, their names and the code. */
  hash: z.string(),
  code: z.string(),
});

/**
 * Returns the bundle of workers: that of `npm run build`, if it is of this code and no spans are wanted; else a new
 * one.
 */
export async function ownBundle(
  tracing: Config['tracing'] = 'off',
): Promise<WorkflowBundle & { readonly origin: 'built' | 'made at start' }> {
  const built = tracing === 'off' ? await readBuiltBundle() : undefined;
  if (built !== undefined) return { ...built, origin: 'built' };
  const { code, buildId } = await bundleWorkflows(undefined, [], undefined, tracing);
  return { code, buildId, origin: 'made at start' };
}

/** Returns undefined if there is no bundle, or one of other code. */
export async function readBuiltBundle(): Promise<WorkflowBundle | undefined> {
  try {
    const { buildId, files, hash, code } = Built.parse(JSON.parse(await readFile(PLACE, 'utf8')));
    const isOfThisCode = code.startsWith(bundleMark()) && hash === (await hashOf(files, code));
    return isOfThisCode ? { buildId, code } : undefined;
  } catch {
    // The bundle is missing, cut off, or made of files that no longer exist.
    return undefined;
  }
}

export async function writeBuiltBundle({ buildId, code, files: made }: MadeBundle): Promise<void> {
  const files = made.map(nameOf);
  const partial = `${PLACE}.${process.pid}`;
  await writeFile(partial, JSON.stringify({ buildId, files, hash: await hashOf(files, code), code }));
  await rename(partial, PLACE);
}

/** Names a file of a package by the package: installed elsewhere, it lies in a folder further up. */
function nameOf(file: string): string {
  const path = file.split(sep).join('/');
  const own = `${dirname(PLACE)}${sep}`;
  const packages = path.lastIndexOf(PACKAGES);
  return file.startsWith(own) || packages === -1 ? relative(own, file) : path.slice(packages + 1);
}

function placeOf(name: string): string {
  if (!name.startsWith(PACKAGES.slice(1))) return resolve(dirname(PLACE), name);
  for (let folder = dirname(PLACE); ; folder = dirname(folder)) {
    const path = join(folder, name);
    // The last try names the file in the error.
    if (existsSync(path) || folder === dirname(folder)) return path;
  }
}

async function hashOf(files: readonly string[], code: string): Promise<string> {
  const hash = createHash('sha256').update(code);
  const contents = await Promise.all(files.map(async (file) => await readFile(placeOf(file))));
  for (const [index, content] of contents.entries())
    hash.update(`\0${files[index]}\0${content.length}\0`).update(content);
  return hash.digest('hex');
}
