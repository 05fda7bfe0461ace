/**
 * Reads the tools of a run from the artifact store by reference, and keeps them while they are in use.
 *
 * 1. References are hashes, so a kept toolset is never stale.
 */
import { LRUCache } from 'lru-cache';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { ServerTools } from '../../contracts/schemas/tool.ts';
import type { ToolsetRef } from '../../contracts/wire/identity.ts';
import { assembleToolset, type OfferedTool } from '../../domain/run/toolset.ts';
import type { ArtifactStore } from '../artifacts/port.ts';

export type LoadToolset = (refs: readonly ToolsetRef[]) => Promise<readonly OfferedTool[]>;

/**
 * Limits of the kept toolsets, by number and by bytes of their stored definitions; in memory they take several times as
 * much.
 */
const MOST_KEPT = 50;
const MOST_KEPT_BYTES = 67_108_864;

export function createToolsetLoader(artifacts: ArtifactStore): LoadToolset {
  const kept = new LRUCache<string, readonly OfferedTool[]>({ max: MOST_KEPT, maxSize: MOST_KEPT_BYTES });
  return async (refs) => {
    const key = JSON.stringify(refs);
    const found = kept.get(key);
    if (found !== undefined) return found;
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
    const bytes = refs.reduce((sum, { tools }) => sum + tools.bytes, 1);
    // The newest toolset stays, however large: its run is at work.
    kept.set(key, toolset, { size: Math.min(bytes, MOST_KEPT_BYTES) });
    return toolset;
  };
}
