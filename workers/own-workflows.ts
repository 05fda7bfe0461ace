/** Bundles a backend's own workflows together with those of runs, whose converters and interceptors hold for both. */
import { CountersignError } from '../contracts/errors.ts';
import { CATALOG_WORKFLOW, RUN_WORKFLOW } from '../contracts/names.ts';
import type { Config } from '../contracts/schemas/config.ts';
import { bundleWorkflows as bundle, type WorkflowBundle } from './bundle.ts';

export interface OwnWorkflows {
  /** Absolute path of a module that exports the backend's workflows and `* from 'countersign/workflows'`. */
  readonly workflowsPath: string;
  /** As `tracing` of the configuration. */
  readonly tracing?: Config['tracing'];
}

/** @throws CountersignError `BUNDLE_INCOMPLETE` if the module does not export the workflows of runs */
export async function bundleWorkflows({ workflowsPath, tracing }: OwnWorkflows): Promise<WorkflowBundle> {
  const { code, buildId, workflows } = await bundle(workflowsPath, [], undefined, tracing);
  const missing = workflows && [RUN_WORKFLOW, CATALOG_WORKFLOW].filter((name) => !workflows.includes(name));
  if (missing === undefined || missing.length === 0) return { code, buildId };
  const message = `The module of workflows does not export ${missing.join(' and ')}. Add this line to it: export * from 'countersign/workflows';`;
  throw new CountersignError('BUNDLE_INCOMPLETE', message, { missing: missing.join(', ') });
}
