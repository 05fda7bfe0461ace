/** The workflow bundle: the code that a run replays, with the interceptors that were there when it was recorded. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { extname, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode, type BundleOptions } from '@temporalio/worker';
import { CONVERTER_FILES } from './codec.ts';
import { createTracing } from './tracing.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** Not in the bundle, but what is says which modules are. */
const MAKERS = [
  fileURLToPath(import.meta.url),
  ...['codec', 'tracing'].map((name) =>
    fileURLToPath(new URL(`./${name}${extname(fileURLToPath(import.meta.url))}`, import.meta.url)),
  ),
  createRequire(import.meta.url).resolve('@temporalio/worker/package.json'),
];

export interface WorkflowBundle {
  readonly code: string;
  /** Names a build in logs and deployments: 12 characters of a hash of its modules, the same wherever they lie and whoever made it. */
  readonly buildId: string;
}

type Webpack = Parameters<NonNullable<BundleOptions['webpackConfigHook']>>[0];
type WebpackPlugin = NonNullable<Webpack['plugins']>[number];

/** In every bundle, of workers, replays and tests alike, in this order; those of tracing follow (docs/adr/0044, 0046, 0047). */
const INTERCEPTORS = ['trace-headers', 'query-guard', 'zone'] as const;

/** A file of workflow code, which is bundled by path: `.ts` in the sources, `.js` in what `npm run build` makes of them. */
export function workflowFile(name: string): string {
  const extension = extname(fileURLToPath(import.meta.url));
  return fileURLToPath(new URL(`../workflows/${name}${extension}`, import.meta.url));
}

/**
 * Takes about two seconds; make one and share it.
 *
 * @returns with the files that it was made of
 * @param interceptorModules of replays only, beside those that every bundle has: what stands here changes what a run replays
 * @param fileOf where workflow code lies; a copy of it needs its own interceptors, which share what they hold with it
 */
export async function bundleWorkflows(
  workflowsPath = workflowFile('index'),
  interceptorModules: readonly string[] = [],
  fileOf = workflowFile,
): Promise<WorkflowBundle & { readonly files: readonly string[] }> {
  const modules: BundledModule[] = [];
  const { code } = await bundleWorkflowCode({
    workflowsPath,
    ...CONVERTER_FILES,
    preloadModules: [fileOf('preloaded-schemas')],
    workflowInterceptorModules: [...INTERCEPTORS.map((name) => fileOf(name)), ...interceptorModules],
    plugins: [createTracing('off')],
    webpackConfigHook: (webpack) => ({
      ...webpack,
      // Webpack would name modules by their way from the directory that the process was started in.
      context: ROOT,
      // Packages are taken along as far as they are used: all of zod would be three times as much.
      optimization: { ...webpack.optimization, moduleIds: 'natural', sideEffects: true, usedExports: true },
      plugins: [...(webpack.plugins ?? []), listModules(modules)],
      // Stack traces keep file and line; the sources themselves would double what every worker holds of the bundle.
      devtool: 'inline-nosources-source-map',
      output: { ...webpack.output, pathinfo: false, devtoolModuleFilenameTemplate: sourceName },
    }),
    logger: {
      log: ignore,
      trace: ignore,
      debug: ignore,
      info: ignore,
      warn: ignore,
      error: (message) => process.stderr.write(`${message}\n`),
    },
  });
  const files = new Set([...MAKERS, ...modules.flatMap(({ file }) => file ?? [])]);
  return { code, buildId: hashOfModules(modules), files: [...files].filter((file) => existsSync(file)).toSorted() };
}

interface BundledModule {
  readonly id: string;
  readonly code: string;
  readonly file: string | undefined;
}

/** Ids are numbers in the order in which modules are first asked for. The order in which they are written down follows their paths, so it counts for nothing here. */
function listModules(into: BundledModule[]): WebpackPlugin {
  return {
    apply: (compiler) =>
      compiler.hooks.compilation.tap('BuildId', (compilation) =>
        compilation.hooks.afterProcessAssets.tap('BuildId', () => {
          const { codeGenerationResults: made, chunkGraph } = compilation;
          for (const module of compilation.modules) {
            // Those that only hand on what others export have no code.
            if (made === undefined || !made.has(module, undefined)) continue;
            const id = String(chunkGraph.getModuleId(module));
            const file = 'resource' in module && typeof module.resource === 'string' ? module.resource : undefined;
            for (const source of made.get(module, undefined).sources.values())
              into.push({ id, code: source.source().toString(), file });
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

/** What runs, and the comment behind it with the source map; the map's own name differs with the directory that it was made in. */
export function partsOfBundle(code: string): { readonly instructions: string; readonly map: string } {
  const at = code.lastIndexOf('//# sourceMappingURL=');
  return at === -1 ? { instructions: code, map: '' } : { instructions: code.slice(0, at), map: code.slice(at) };
}

/** As stack traces name a file: from the project's root, or from where packages lie. With the machine's own paths in it, a bundle's size would depend on where it was made, and histories would hold them. */
function sourceName({ absoluteResourcePath }: { readonly absoluteResourcePath: string }): string {
  const path = absoluteResourcePath.split(ROOT).join('').split(sep).join('/');
  const packages = path.indexOf('/node_modules/');
  return packages === -1 ? path : path.slice(packages + 1);
}

function ignore(): void {
  // The bundler's progress is of no use to an operator.
}
