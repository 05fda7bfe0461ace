/** The workflow bundle: the code that a run replays, with the interceptors that were there when it was recorded. */
import { createHash } from 'node:crypto';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode } from '@temporalio/worker';
import { createTracing } from './tracing.ts';

export interface WorkflowBundle {
  readonly code: string;
  /** sha256 of the code, 12 characters: names a build in logs and deployments. */
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
    workflowInterceptorModules: [...interceptorModules],
    plugins: [createTracing('off')],
    // Stack traces keep file and line; the sources themselves would double what every worker holds of the bundle.
    webpackConfigHook: (webpack) => ({ ...webpack, devtool: 'inline-nosources-source-map' }),
    logger: {
      log: ignore,
      trace: ignore,
      debug: ignore,
      info: ignore,
      warn: ignore,
      error: (message) => process.stderr.write(`${message}\n`),
    },
  });
  return { code, buildId: createHash('sha256').update(code).digest('hex').slice(0, 12) };
}

function ignore(): void {
  // The bundler's progress is of no use to an operator.
}
