/** How clients read the definitions of tools that a catalog names. */
import { describe, expect, test } from '@jest/globals';
import { readDefinitions } from '../../../../client/catalog/list.ts';
import type { ArtifactRef } from '../../../../contracts/schemas/json.ts';
import type { ServerTools } from '../../../../contracts/schemas/tool.ts';
import { sha256Hex } from '../../../../domain/text/canonical.ts';
import { catalogEntry, listing } from '../../../support/builders/catalog.ts';
import { heldBytes } from '../../../support/heap.ts';
import { codeOf } from '../../../support/refusal.ts';
import { toolDefinition } from '../../../support/builders/tool.ts';

const TOOLS = 200;
const nameOf = (tool: number): string => `tool-${tool}`;
const hashAt = (refresh: number, tool: number): string => sha256Hex(`${tool} ${tool === refresh ? refresh : 0}`);

/** Each refresh has changed the tool of its number, and the lists have all tools. */
function store() {
  const asked: string[] = [];
  const refs = new Map<string, number>();
  const refOf = (refresh: number): ArtifactRef => {
    const ref = listing(refresh);
    refs.set(ref.sha256, refresh);
    return ref;
  };
  const get = async ({ sha256 }: ArtifactRef): Promise<Uint8Array> => {
    asked.push(sha256);
    const refresh = refs.get(sha256) ?? 0;
    const tools: ServerTools['tools'] = Array.from({ length: TOOLS }, (_, tool) => ({
      definition: toolDefinition({ name: nameOf(tool), description: `${refresh} ${'x'.repeat(8_192)}` }),
      hash: hashAt(refresh, tool),
    }));
    const stored: ServerTools = { server: 'files', serverUrl: 'https://files.example/mcp', tools };
    return await Promise.resolve(new TextEncoder().encode(JSON.stringify(stored)));
  };
  return { asked, refOf, artifacts: { get } };
}

const changedAt = (refresh: number) =>
  catalogEntry({
    name: nameOf(refresh),
    definition: { hash: hashAt(refresh, refresh), refresh },
    acknowledged: { hash: hashAt(refresh, refresh), refresh },
  });

describe('definitions', () => {
  test('are read from the lists that hold them, and from no other', async () => {
    const { asked, refOf, artifacts } = store();
    const listings = { 1: refOf(1), 2: refOf(2), 3: refOf(3) };
    const acknowledged = { hash: hashAt(1, 3), refresh: 1 };
    const read = await readDefinitions(artifacts, { entries: [{ ...changedAt(3), acknowledged }], listings });
    expect(asked.toSorted()).toEqual([listings[1].sha256, listings[3].sha256].toSorted());
    expect(read.get('tool-3')).toMatchObject({
      current: { description: expect.stringMatching(/^3 /) },
      acknowledged: { description: expect.stringMatching(/^1 /) },
    });
  });

  test('a list that is not there is told by its number', async () => {
    const { artifacts, refOf } = store();
    expect(await codeOf(readDefinitions(artifacts, { entries: [changedAt(2)], listings: { 1: refOf(1) } }))).toBe(
      'ARTIFACT_CORRUPT',
    );
  });

  test('of a server that changes one tool at a time, not all lists are held at once', async () => {
    const { refOf, artifacts } = store();
    const refreshes = Array.from({ length: 40 }, (_, index) => index + 1);
    const listings = Object.fromEntries(refreshes.map((refresh) => [refresh, refOf(refresh)]));
    const before = heldBytes();
    let last = before;
    const measuring = {
      get: async (ref: ArtifactRef) => {
        if (ref.sha256 === listings[40]?.sha256) last = heldBytes();
        return await artifacts.get(ref);
      },
    };
    await readDefinitions(measuring, { entries: refreshes.map(changedAt), listings });
    // 39 lists have 64 MB.
    expect(last - before).toBeLessThan(20 * 2 ** 20);
  });
});
