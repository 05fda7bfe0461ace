/** Exports the workflow types of the bundle by name. */
export { agentRun } from './run/agent-run.ts';
export { toolCatalog } from './catalog/tool-catalog.ts';
export { callTicket } from './gate/call-ticket.ts';
export { messageDigest } from './notify/message-digest.ts';
