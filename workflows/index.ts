/** Everything the workflow bundle exports: the workflow types by name. */
export { agentRun } from './run/agent-run.ts';
export { toolCatalog } from './catalog/tool-catalog.ts';
