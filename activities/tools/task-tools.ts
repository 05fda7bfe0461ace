/**
 * Tools that can only, or may, be called as tasks, as they are listed for a run or a catalog.
 *
 * 1. A run that cannot wait for tasks is offered none that can only be called as one.
 * 2. That a tool may be called as one is kept where the operator wants it (`servers.NAME.tasks.optional`), and nowhere else: workers of
 *    earlier releases read no list that says so.
 */
import type { Config } from '../../contracts/schemas/config.ts';
import type { RefusedTool, ToolDefinition } from '../../contracts/schemas/tool.ts';
import type { ToolListing } from './port.ts';

const NOBODY_WAITS = 'it can only be called as a task, and the run was started by a release that cannot wait for tasks';

/** @param waits for tasks: whoever the list is for */
export function withTaskSupport(
  { servers }: Pick<Config, 'servers'>,
  server: string,
  listing: ToolListing,
  waits: boolean,
): ToolListing {
  const optional = Object.hasOwn(servers, server) ? (servers[server]?.tasks?.optional ?? []) : [];
  const tools: ToolDefinition[] = [];
  const refused: RefusedTool[] = [...listing.refused];
  for (const tool of listing.tools) {
    const { taskSupport, ...plain } = tool;
    if (taskSupport === 'required' && !waits) refused.push({ name: tool.name, reason: NOBODY_WAITS });
    else tools.push(taskSupport === 'optional' && !(waits && optional.includes(tool.name)) ? plain : tool);
  }
  return { ...listing, tools, refused };
}
