/** Everything the workflow bundle exports: the workflow types by name. */
export { agentRun } from './agent-run.ts';
export { toolCatalog } from './catalog.ts';
