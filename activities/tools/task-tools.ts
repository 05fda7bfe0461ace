/**
 * Tools that can only, or may, be called as tasks, as they are listed for a run or a catalog.
 *
 * 1. Whoever does not wait for tasks is offered none that can only be called as one. Runs wait for them where the operator says `tasks` of
 *    some server: workers of earlier releases read no list with such a tool, and do not start with such a configuration.
 * 2. That a tool may be called as one is kept where the operator wants it (`servers.NAME.tasks.optional`), and nowhere else.
 */
import type { Config } from '../../contracts/schemas/config.ts';
import type { RefusedTool, ToolDefinition } from '../../contracts/schemas/tool.ts';
import type { ToolListing } from './port.ts';

const NOBODY_WAITS =
  'it can only be called as a task, and tasks are not waited for: configure `tasks` of its server ({} is enough), and start the run, or refresh the catalog, again';

/** For runs that are prepared, and lists of catalogs that are made, from now on. */
export function waitsForTasks({ servers }: Pick<Config, 'servers'>): boolean {
  return Object.values(servers).some(({ tasks }) => tasks !== undefined);
}

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
