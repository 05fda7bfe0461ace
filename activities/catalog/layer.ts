/**
 * Shows one tool as its catalog sees it now.
 *
 * 1. A run pins definitions when it starts. If the catalog has learned of a change since, the newer definition counts:
 *    a call would meet that one.
 */
import type { CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import { entryOf } from '../../domain/catalog/state.ts';
import { type CatalogSay, catalogSays } from '../../domain/policy/catalog-layer.ts';
import type { OfferedTool } from '../../domain/run/toolset.ts';
import type { LoadToolset } from './toolset.ts';

/**
 * Returns the catalog's layer of the judge; undefined if there is no catalog.
 * @param tool as it is now; the model chose it by its `pinned` definition, so the stricter of both counts
 */
export function layerOf(
  catalog: CatalogSnapshot | undefined,
  { tool, pinned }: ToolNow,
  rules: Pick<Config['catalog'], 'newTools'>,
): CatalogSay | undefined {
  const now = layerOfOne(catalog, tool, rules);
  const then = tool.hash === pinned.hash ? now : layerOfOne(catalog, pinned, rules);
  return now?.kind === 'nothing' && then?.kind === 'ask' ? then : now;
}

/** A tool as a call would meet it now, and as the run was told of it. */
export interface ToolNow {
  readonly tool: OfferedTool;
  readonly pinned: OfferedTool;
}

function layerOfOne(
  catalog: CatalogSnapshot | undefined,
  tool: OfferedTool,
  { newTools }: Pick<Config['catalog'], 'newTools'>,
): CatalogSay | undefined {
  if (catalog === undefined) return undefined;
  const { server, connection, status } = catalog;
  if (status === 'connected' && connection?.url !== tool.serverUrl)
    return {
      kind: 'deny',
      rule: `catalog/${server}/url`,
      code: 'POLICY_DENIED',
      message: `The catalog has ${server} at another address than the run.`,
    };
  // The settings are those of the configuration now, not of the time of the last change of the catalog.
  return catalogSays({ ...catalog, newTools }, tool.definition.name, tool.hash);
}

export async function currentTool(
  loadToolset: LoadToolset,
  catalog: CatalogSnapshot | undefined,
  pinned: OfferedTool,
): Promise<ToolNow> {
  const tool = await newestOf(loadToolset, catalog, pinned);
  return { tool, pinned };
}

async function newestOf(
  loadToolset: LoadToolset,
  catalog: CatalogSnapshot | undefined,
  tool: OfferedTool,
): Promise<OfferedTool> {
  const entry = catalog === undefined ? undefined : entryOf(catalog, tool.definition.name);
  if (entry === undefined || entry.definition.hash === tool.hash) return tool;
  const { refresh, hash } = entry.definition;
  if (refresh <= (tool.catalogRefreshes ?? 0)) return tool;
  const tools = catalog?.listings[String(refresh)];
  const listed = tools === undefined ? [] : await loadToolset([{ server: tool.server, tools }]);
  const newer = listed.find(
    (each) =>
      each.definition.name === tool.definition.name &&
      each.server === tool.server &&
      each.serverUrl === tool.serverUrl &&
      each.hash === hash,
  );
  // Without the newer definition nobody could see it: its hash alone makes the call ask.
  return newer === undefined ? { ...tool, hash } : { ...tool, definition: newer.definition, hash: newer.hash };
}
