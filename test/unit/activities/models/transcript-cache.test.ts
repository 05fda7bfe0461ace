/** What a worker remembers of conversations: hits, misses, forks, eviction. */
import { describe, expect, test } from '@jest/globals';
import { createTranscriptCache, type ReadBase } from '../../../../activities/models/model-step.ts';
import type { Message } from '../../../../contracts/schemas/transcript.ts';
import { EMPTY_DIGEST, extendDigest } from '../../../../domain/run/journal.ts';

function messages(count: number, mark = 'm'): Message[] {
  return Array.from({ length: count }, (_, index) => ({ role: 'user', text: `${mark}${index}` }));
}

/** The step whose base is the first `length` messages and whose tail is the rest up to `end`. */
function position(all: readonly Message[], length: number, end = all.length) {
  return {
    base: { length, digest: all.slice(0, length).reduce(extendDigest, EMPTY_DIGEST) },
    tail: all.slice(length, end),
  };
}

/** A run that answers with its first messages, and counts how often it is asked. */
function source(all: readonly Message[], length = all.length) {
  const asked: number[] = [];
  const readBase: ReadBase = async () => {
    asked.push(length);
    return all.slice(0, length);
  };
  return { asked, readBase };
}

const SIZE = JSON.stringify(messages(1)[0]).length;

describe('the conversation of a step', () => {
  test('the first step asks nobody', async () => {
    const { asked, readBase } = source([]);
    const all = messages(2);
    expect(await createTranscriptCache()('run', position(all, 0), readBase)).toEqual(all);
    expect(asked).toEqual([]);
  });

  test('INV-D2: a worker that took the last step needs the new messages only', async () => {
    const all = messages(6);
    const { asked, readBase } = source(all);
    const cache = createTranscriptCache();
    for (const [length, end] of [
      [0, 2],
      [2, 4],
      [4, 6],
    ] as const) {
      expect(await cache('run', position(all, length, end), readBase)).toEqual(all.slice(0, end));
    }
    expect(asked).toEqual([]);
  });

  test('a worker that does not know it reads it once', async () => {
    const all = messages(7);
    const { asked, readBase } = source(all, 5);
    const cache = createTranscriptCache();
    expect(await cache('run', position(all, 5), readBase)).toEqual(all);
    const more = [...all, ...messages(1, 'n')];
    expect(await cache('run', position(more, 7), readBase)).toEqual(more);
    expect(asked).toHaveLength(1);
  });

  test('a retried step finds what its first attempt left', async () => {
    const all = messages(4);
    const { asked, readBase } = source(all);
    const cache = createTranscriptCache();
    await cache('run', position(all, 0, 2), readBase);
    await cache('run', position(all, 2), readBase);
    expect(await cache('run', position(all, 2), readBase)).toEqual(all);
    expect(asked).toEqual([]);
  });

  test('runs with the same beginning do not take it from each other', async () => {
    const cache = createTranscriptCache();
    const [a, b] = [
      [...messages(2), ...messages(4, 'a')],
      [...messages(2), ...messages(4, 'b')],
    ];
    const { asked, readBase } = source([]);
    for (const [length, end] of [
      [0, 2],
      [2, 4],
      [4, 6],
    ] as const) {
      for (const [run, all] of Object.entries({ a, b })) {
        expect(await cache(run, position(all, length, end), readBase)).toEqual(all.slice(0, end));
      }
    }
    expect(asked).toEqual([]);
  });

  test('two steps that read the same conversation at once leave it there once', async () => {
    const all = messages(4);
    const { asked, readBase } = source(all, 2);
    const cache = createTranscriptCache({ maxBytes: 4 * SIZE, maxEntries: 100 });
    const both = [cache('run', position(all, 2), readBase), cache('run', position(all, 2), readBase)];
    expect(await Promise.all(both)).toEqual([all, all]);
    expect(await cache('run', position(all, 2), readBase)).toEqual(all);
    expect(asked).toHaveLength(2);
  });

  test('what it returns is a copy: changing it changes nothing for the next step', async () => {
    const cache = createTranscriptCache();
    const all = messages(4);
    const { readBase } = source(all);
    const first = await cache('run', position(all, 0, 2), readBase);
    // Sound: an array behind a readonly type, mutated here on purpose.
    (first as Message[]).length = 0;
    expect(await cache('run', position(all, 2), readBase)).toEqual(all);
  });
});

describe('a stored conversation that is not the one of the step', () => {
  const mismatch = { code: 'TRANSCRIPT_MISMATCH' };
  const all = messages(4);

  test('is refused where a message differs', async () => {
    const { readBase } = source(messages(4, 'other'), 3);
    await expect(createTranscriptCache()('run', position(all, 3), readBase)).rejects.toMatchObject(mismatch);
  });

  test('is refused where it is too short', async () => {
    const { readBase } = source(all, 2);
    await expect(createTranscriptCache()('run', position(all, 3), readBase)).rejects.toMatchObject(mismatch);
  });

  test('is refused where the digest is known but names another length', async () => {
    const cache = createTranscriptCache();
    const { readBase } = source(all);
    await cache('run', position(all, 0, 2), readBase);
    const { base, tail } = position(all, 2);
    await expect(cache('run', { base: { ...base, length: 3 }, tail }, readBase)).rejects.toMatchObject(mismatch);
    await expect(cache('run', { base: { ...base, length: 0 }, tail }, readBase)).rejects.toMatchObject(mismatch);
  });

  test('is not remembered, and the error quotes no message', async () => {
    const cache = createTranscriptCache();
    const wrong = source(messages(4, 'secret'), 3);
    const failure = cache('run', position(all, 3), wrong.readBase);
    await expect(failure).rejects.toMatchObject({ message: expect.not.stringContaining('secret') });
    const right = source(all, 3);
    expect(await cache('run', position(all, 3), right.readBase)).toEqual(all);
    expect(right.asked).toHaveLength(1);
  });
});

describe('the cache is bounded', () => {
  const runs = ['a', 'b', 'c'].map((mark) => messages(4, mark));

  async function missesAfter(
    limits: { maxBytes: number; maxEntries: number },
    order: readonly number[],
  ): Promise<number> {
    const cache = createTranscriptCache(limits);
    const seen = new Map<number, number>();
    let misses = 0;
    for (const index of order) {
      const all = runs[index] ?? [];
      const { asked, readBase } = source(all, seen.get(index) ?? 0);
      const end = seen.get(index) ?? 0;
      await cache(String(index), position(all, end, end + 1), readBase);
      seen.set(index, end + 1);
      misses += asked.length;
    }
    return misses;
  }

  test('by conversations: the one not used for longest goes', async () => {
    const limits = { maxBytes: 1_000_000, maxEntries: 2 };
    expect(await missesAfter(limits, [0, 1, 0, 1, 0, 1])).toBe(0);
    expect(await missesAfter(limits, [0, 1, 0, 2, 0])).toBe(0);
    expect(await missesAfter(limits, [0, 1, 0, 2, 1])).toBe(1);
  });

  test('by bytes: a conversation counts once, however many steps it had', async () => {
    expect(await missesAfter({ maxBytes: 4 * SIZE, maxEntries: 100 }, [0, 0, 0, 0])).toBe(0);
    expect(await missesAfter({ maxBytes: 4 * SIZE, maxEntries: 100 }, [0, 0, 1, 1, 0, 1])).toBe(1);
    expect(await missesAfter({ maxBytes: 3 * SIZE, maxEntries: 100 }, [0, 1, 2, 0, 1, 2])).toBe(2);
  });

  test('a conversation larger than all of it is served and not kept', async () => {
    expect(await missesAfter({ maxBytes: SIZE, maxEntries: 100 }, [0, 0, 0])).toBe(1);
  });
});
