/** Reading a conversation back from stored segments and the living execution. */
import { expect, test } from '@jest/globals';
import { createMemoryStore } from '../../../../activities/artifacts/memory.ts';
import { createMessageReader, createTranscriptReader } from '../../../../activities/run/read-transcript.ts';
import { defined } from '../../../../contracts/defined.ts';
import type { ArtifactRef } from '../../../../contracts/schemas/json.ts';
import type { Message } from '../../../../contracts/schemas/transcript.ts';
import { canonicalJson } from '../../../../domain/text/canonical.ts';

const messages: readonly Message[] = Array.from({ length: 12 }, (_, n) => ({ role: 'user', text: `message ${n}` }));

/** Three stored segments of three messages each; the rest is still in the run. */
async function stored() {
  const memory = createMemoryStore();
  let newest: ArtifactRef | undefined;
  for (const from of [0, 3, 6]) {
    const segment = {
      workflowId: 'run-1',
      ...defined({ previous: newest }),
      transcript: { from, messages: messages.slice(from, from + 3) },
      ledger: { from: 0, entries: [] },
    };
    newest = await memory.put(new TextEncoder().encode(canonicalJson(segment)), 'application/json');
  }
  let reads = 0;
  const get = async (ref: ArtifactRef) => {
    reads += 1;
    return await memory.get(ref);
  };
  const query = async (_name: string, from: number, to: number) => ({ messages: messages.slice(from, to) });
  // Sound: the reader asks for a handle and queries it, nothing else.
  const client = { workflow: { getHandle: () => ({ query }) } } as unknown as Parameters<
    typeof createTranscriptReader
  >[1];
  const read = createTranscriptReader({ ...memory, get }, client);
  return {
    read: async (from: number, to: number) => await read('run-1', 'run', from, to, newest),
    readsOf: () => reads,
  };
}

test('each page comes from the segment that holds it, and from the run what no segment holds', async () => {
  const { read } = await stored();
  expect(await read(0, 12)).toEqual(messages.slice(0, 3));
  expect(await read(4, 12)).toEqual(messages.slice(4, 6));
  expect(await read(8, 9)).toEqual(messages.slice(8, 9));
  expect(await read(9, 12)).toEqual(messages.slice(9, 12));
});

test('a segment is read once to find its place and once for its page, however long the chain (INV-D2)', async () => {
  const { read, readsOf } = await stored();
  for (const from of [0, 3, 6, 9]) await read(from, 12);
  expect(readsOf()).toBe(6);
});

test('a chain that does not reach back far enough is corrupt, not empty', async () => {
  const { read } = await stored();
  await expect(read(-1, 12)).rejects.toMatchObject({ code: 'ARTIFACT_CORRUPT' });
});

test('one message is asked of the run, and read where the run says that it is stored', async () => {
  const segment = { sha256: 'a'.repeat(64), bytes: 1, contentType: 'application/json' };
  const asked: unknown[][] = [];
  const query = async (_name: string, from: number, to: number) => ({
    from: Math.max(from, 9),
    total: 12,
    messages: messages.slice(Math.max(from, 9), to),
    segment,
  });
  const getHandle = (...run: unknown[]) => {
    asked.push(run);
    return { query };
  };
  // Sound: the reader asks for a handle and queries it, nothing else.
  const client = { workflow: { getHandle } } as unknown as Parameters<typeof createMessageReader>[0];
  const ranges: unknown[][] = [];
  const read = createMessageReader(client, async (...range) => {
    ranges.push(range);
    return [{ role: 'user', text: 'stored' }];
  });
  expect(await read('run-1', 'execution-1', 10)).toEqual(messages[10]);
  expect(ranges).toEqual([]);
  expect(await read('run-1', 'execution-1', 4)).toEqual({ role: 'user', text: 'stored' });
  expect(ranges).toEqual([['run-1', 'execution-1', 4, 5, segment]]);
  expect(await read('run-1', 'execution-1', 12)).toBeUndefined();
  expect(asked).toEqual(Array.from({ length: 3 }, () => ['run-1', 'execution-1']));
});
