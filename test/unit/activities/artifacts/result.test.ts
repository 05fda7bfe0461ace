/** How much of a tool's result is kept, whatever the server sends. */
import { describe, expect, test } from '@jest/globals';
import { createMemoryStore } from '../../../../activities/artifacts/memory.ts';
import type { ArtifactStore } from '../../../../activities/artifacts/port.ts';
import { createScrubber } from '../../../../activities/scrubbing/scrubber.ts';
import { toolResultOf } from '../../../../activities/mcp/classify-result.ts';
import type { ToolResult } from '../../../../contracts/schemas/call.ts';

const image = { type: 'image', data: 'AAAA', mimeType: 'image/png' };
const blob = { type: 'resource', resource: { uri: 'file:///a', blob: 'AAAA' } };

interface Kept {
  readonly result: ToolResult;
  readonly puts: number;
}

/** @param onPut is told the number of puts so far */
async function kept(content: readonly unknown[], onPut?: (puts: number) => void, signal?: AbortSignal): Promise<Kept> {
  const store = createMemoryStore();
  let puts = 0;
  const artifacts: ArtifactStore = {
    get: async (ref) => store.get(ref),
    put: async (bytes, contentType) => {
      puts += 1;
      onPut?.(puts);
      return store.put(bytes, contentType);
    },
  };
  const rules = { artifacts, scrub: createScrubber([]), maxBytes: 1_000_000 };
  const result = await toolResultOf({ content }, { ...rules, signal: signal ?? new AbortController().signal });
  return { result, puts };
}

describe('a result of very many parts', () => {
  test('INV-D2: keeps the first thousand, and says so once', async () => {
    const { result } = await kept(Array.from({ length: 5_000 }, () => ({ type: 'text', text: 'x' })));
    expect(result.content).toHaveLength(1_000);
    expect(result.warnings).toEqual([expect.stringContaining('4000 of 5000 parts were dropped')]);
  });

  test('INV-D2: stores the first hundred of its binary parts, and keeps the text among the others', async () => {
    const many = Array.from({ length: 150 }, () => [image, blob]).flat();
    const { result, puts } = await kept([...many, { type: 'text', text: 'end' }]);
    expect(puts).toBe(100);
    expect(result.content).toHaveLength(101);
    expect(result.content.at(-1)).toEqual({ type: 'text', text: 'end' });
    expect(result.warnings).toEqual([expect.stringContaining('200 of 301 parts were dropped')]);
  });

  test('stores no more of them once nobody waits for the call', async () => {
    const nobody = new AbortController();
    const parts = Array.from({ length: 20 }, () => image);
    const { result, puts } = await kept(
      parts,
      (count) => {
        if (count === 3) nobody.abort();
      },
      nobody.signal,
    );
    expect(puts).toBe(3);
    expect(result.content).toHaveLength(3);
    expect(result.warnings).toEqual([expect.stringContaining('17 of 20 parts were dropped')]);
  });

  test('of a usual number is kept whole, without a warning', async () => {
    const { result, puts } = await kept([image, blob, { type: 'text', text: 'x' }]);
    expect(puts).toBe(2);
    expect(result.content).toHaveLength(3);
    expect(result).not.toHaveProperty('warnings');
  });
});

test('F8: a store that never answers loses the bytes, not the call: what it has run is told', async () => {
  const hanging: ArtifactStore = { put: () => new Promise(() => undefined), get: () => new Promise(() => undefined) };
  const result = await toolResultOf(
    { content: [image, blob, { type: 'text', text: 'done' }] },
    {
      artifacts: hanging,
      scrub: createScrubber([]),
      maxBytes: 1_000,
      storingMs: 20,
      signal: new AbortController().signal,
    },
  );
  expect(result.content).toMatchObject([
    { text: '[image not kept]' },
    { type: 'resource', text: '[not kept]' },
    { text: 'done' },
  ]);
  expect(result.warnings).toEqual([expect.stringContaining('are lost'), expect.stringContaining('are lost')]);
});
