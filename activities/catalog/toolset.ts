/**
 * The tools of a run, read from the artifact store by reference and kept while they are in use.
 *
 * 1. References are hashes, so a kept toolset is never stale.
 */
import { parseAs } from '../../contracts/schemas/parse.ts';
import { ServerTools } from '../../contracts/schemas/tool.ts';
import { assembleToolset, type OfferedTool } from '../../domain/run/toolset.ts';
import type { ArtifactStore } from '../artifacts/port.ts';
import type { ToolsetRef } from '../../contracts/wire/identity.ts';

export type LoadToolset = (refs: readonly ToolsetRef[]) => Promise<readonly OfferedTool[]>;

/** Toolsets kept at once, and bytes of their stored definitions; in memory they take some times as much. */
const MOST_KEPT = 50;
const MOST_KEPT_BYTES = 67_108_864;

export function createToolsetLoader(artifacts: ArtifactStore): LoadToolset {
  const kept = new Map<string, { readonly toolset: readonly OfferedTool[]; readonly bytes: number }>();
  return async (refs) => {
    const key = JSON.stringify(refs);
    const found = kept.get(key);
    if (found !== undefined) {
      // Last used, last dropped.
      kept.delete(key);
      kept.set(key, found);
      return found.toolset;
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
    kept.set(key, { toolset, bytes: refs.reduce((sum, { tools }) => sum + tools.bytes, 0) });
    let bytes = 0;
    for (const each of kept.values()) bytes += each.bytes;
    // The newest stays, however large: its run is at work.
    for (const [oldest, { bytes: freed }] of kept) {
      if ((kept.size <= MOST_KEPT && bytes <= MOST_KEPT_BYTES) || oldest === key) break;
      kept.delete(oldest);
      bytes -= freed;
    }
    return toolset;
  };
}
