/** Toolsets that are kept between steps, bounded by what they take. */
import { describe, expect, test } from '@jest/globals';
import type { ArtifactStore } from '../../../../activities/artifacts/port.ts';
import { createToolsetLoader } from '../../../../activities/catalog/reader.ts';
import type { ToolsetRef } from '../../../../contracts/wire/identity.ts';

const MIB = 1_048_576;
const NO_TOOLS = new TextEncoder().encode(
  JSON.stringify({ server: 'files', serverUrl: 'https://files.test/mcp', tools: [] }),
);

function harness() {
  const read: string[] = [];
  const artifacts: ArtifactStore = {
    put: async () => {
      throw new Error('not expected');
    },
    get: async ({ sha256 }) => {
      read.push(sha256.slice(-2));
      return NO_TOOLS;
    },
  };
  const load = createToolsetLoader(artifacts);
  /** Loads a toolset that is said to be so large, under a name of two digits. */
  const of = async (name: string, bytes: number): Promise<void> => {
    const tools: ToolsetRef['tools'] = { sha256: name.padStart(64, '0'), bytes, contentType: 'application/json' };
    await load([{ server: 'files', tools }]);
  };
  return { read, of };
}

describe('toolsets', () => {
  test('are read once while they are kept', async () => {
    const { read, of } = harness();
    await of('01', MIB);
    await of('01', MIB);
    expect(read).toEqual(['01']);
  });

  test('INV-D2: take 64 MiB together; what was not used for longest goes first', async () => {
    const { read, of } = harness();
    for (const name of ['01', '02', '03']) await of(name, 20 * MIB);
    await of('01', 20 * MIB);
    await of('04', 20 * MIB);
    expect(read).toEqual(['01', '02', '03', '04']);
    await of('01', 20 * MIB);
    await of('02', 20 * MIB);
    expect(read).toEqual(['01', '02', '03', '04', '02']);
  });

  test('one that takes more alone is kept until the next', async () => {
    const { read, of } = harness();
    await of('01', 100 * MIB);
    await of('01', 100 * MIB);
    await of('02', MIB);
    await of('01', 100 * MIB);
    expect(read).toEqual(['01', '02', '01']);
  });

  test('are fifty at most, however small', async () => {
    const { read, of } = harness();
    for (let index = 10; index < 61; index += 1) await of(String(index), 1);
    await of('10', 1);
    expect(read.filter((name) => name === '10')).toHaveLength(2);
  });
});
