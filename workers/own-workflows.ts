/** Bundles a backend's own workflows together with those of runs, whose converters and interceptors hold for both. */
import { statSync } from 'node:fs';
import { CountersignError } from '../contracts/errors.ts';
import { CATALOG_WORKFLOW, DIGEST_WORKFLOW, RUN_WORKFLOW } from '../contracts/names.ts';
import type { Config } from '../contracts/schemas/config.ts';
import { bundleWorkflows as bundle, type WorkflowBundle } from './bundle.ts';

export interface OwnWorkflows {
  /** Absolute path of a module that exports the backend's workflows and `* from 'countersign/workflows'`. */
  readonly workflowsPath: string;
  /** Same values as `tracing` of the configuration. */
  readonly tracing?: Config['tracing'];
}

/** @throws CountersignError `BUNDLE_INCOMPLETE` if the path names no file, or its module lacks the workflows of runs */
export async function bundleWorkflows({ workflowsPath, tracing }: OwnWorkflows): Promise<WorkflowBundle> {
  // The bundle does not tell what a folder exports, and a name without its ending is no file.
  if (statSync(workflowsPath, { throwIfNoEntry: false })?.isFile() !== true) {
    const message = `workflowsPath is no file: ${workflowsPath}. Name the module itself, with its ending, such as workflows/index.js.`;
    throw new CountersignError('BUNDLE_INCOMPLETE', message, { path: 'workflowsPath' });
  }
  const { code, buildId, workflows } = await bundle(workflowsPath, [], undefined, tracing);
  const missing =
    workflows && [RUN_WORKFLOW, CATALOG_WORKFLOW, DIGEST_WORKFLOW].filter((name) => !workflows.includes(name));
  if (missing === undefined || missing.length === 0) return { code, buildId };
  const message = `The module of workflows does not export ${missing.join(' and ')}. Add this line to it: export * from 'countersign/workflows';`;
  throw new CountersignError('BUNDLE_INCOMPLETE', message, { missing: missing.join(', ') });
}
