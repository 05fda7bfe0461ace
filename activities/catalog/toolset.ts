/**
 * The tools of a run, read from the artifact store by reference and kept while they are in use.
 *
 * 1. References are hashes, so a kept toolset is never stale.
 */
import type { ToolsetRef } from '../../contracts/activities.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { ServerTools } from '../../contracts/schemas/tool.ts';
import { assembleToolset, type OfferedTool } from '../../domain/toolset.ts';
import type { ArtifactStore } from '../artifacts/port.ts';

export type LoadToolset = (refs: readonly ToolsetRef[]) => Promise<readonly OfferedTool[]>;

/** Toolsets kept at once; one of 1,000 tools is about 2 MB. */
const MOST_KEPT = 50;

export function createToolsetLoader(artifacts: ArtifactStore): LoadToolset {
  const kept = new Map<string, readonly OfferedTool[]>();
  return async (refs) => {
    const key = JSON.stringify(refs);
    const found = kept.get(key);
    if (found !== undefined) {
      // Last used, last dropped.
      kept.delete(key);
      kept.set(key, found);
      return found;
    }
    const parts = await Promise.all(
      refs.map(async ({ tools, allowedTools }) => ({
        tools: parseAs(
          ServerTools,
          JSON.parse(new TextDecoder().decode(await artifacts.get(tools))),
          'ARTIFACT_CORRUPT',
          'stored tools',
        ),
        ...(allowedTools === undefined ? {} : { allowedTools }),
      })),
    );
    const toolset = assembleToolset(parts);
    kept.set(key, toolset);
    for (const oldest of kept.keys()) {
      if (kept.size <= MOST_KEPT) break;
      kept.delete(oldest);
    }
    return toolset;
  };
}
