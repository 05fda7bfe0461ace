/** The workflow bundle: the code that a run replays, with the interceptors that were there when it was recorded. */
import { createHash } from 'node:crypto';
import { extname, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode } from '@temporalio/worker';
import { CONVERTER_FILES } from './codec.ts';
import { createTracing } from './tracing.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

export interface WorkflowBundle {
  readonly code: string;
  /** sha256 of the code without its source map, 12 characters: names a build in logs and deployments, the same wherever it was made. */
  readonly buildId: string;
}

/** A file of workflow code, which is bundled by path: `.ts` in the sources, `.js` in what `npm run build` makes of them. */
export function workflowFile(name: string): string {
  const extension = extname(fileURLToPath(import.meta.url));
  return fileURLToPath(new URL(`../workflows/${name}${extension}`, import.meta.url));
}

/**
 * Takes about two seconds; make one and share it.
 *
 * @param interceptorModules of replays only: what stands here changes what a run replays
 */
export async function bundleWorkflows(
  workflowsPath = workflowFile('index'),
  interceptorModules: readonly string[] = [],
): Promise<WorkflowBundle> {
  const { code } = await bundleWorkflowCode({
    workflowsPath,
    ...CONVERTER_FILES,
    workflowInterceptorModules: [workflowFile('zone'), ...interceptorModules],
    plugins: [createTracing('off')],
    // Stack traces keep file and line; the sources themselves would double what every worker holds of the bundle.
    webpackConfigHook: (webpack) => ({
      ...webpack,
      devtool: 'inline-nosources-source-map',
      output: { ...webpack.output, devtoolModuleFilenameTemplate: sourceName },
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
  const { instructions } = partsOfBundle(code);
  return { code, buildId: createHash('sha256').update(instructions).digest('hex').slice(0, 12) };
}

/** What runs, and the comment behind it with the source map; the map's own name differs with the directory that it was made in. */
export function partsOfBundle(code: string): { readonly instructions: string; readonly map: string } {
  const at = code.lastIndexOf('//# sourceMappingURL=');
  return at === -1 ? { instructions: code, map: '' } : { instructions: code.slice(0, at), map: code.slice(at) };
}

/** As stack traces name a file: from the project's root. With the machine's own paths in it, a bundle's size would depend on where it was made, and histories would hold them. */
function sourceName({ absoluteResourcePath }: { readonly absoluteResourcePath: string }): string {
  return absoluteResourcePath.split(ROOT).join('').split(sep).join('/');
}

function ignore(): void {
  // The bundler's progress is of no use to an operator.
}
