/** A store that refuses for some seconds keeps what a call returned: the call is not made again for its bytes. */
import { expect, test } from '@jest/globals';
import { type ArtifactStore, inTime } from '../../../../activities/artifacts/port.ts';

/** Refuses these tries, the first being 1. */
function refusing(isRefused: (attempt: number) => boolean): { readonly store: ArtifactStore; tried(): number } {
  let tried = 0;
  const store: ArtifactStore = {
    put: async (bytes, contentType) => {
      tried += 1;
      if (isRefused(tried)) throw new Error('503');
      return await Promise.resolve({ sha256: 'a'.repeat(64), bytes: bytes.length, contentType });
    },
    get: () => new Promise(() => undefined),
  };
  return { store, tried: () => tried };
}

async function putIn(store: ArtifactStore): Promise<string> {
  const [{ status }] = await Promise.allSettled([store.put(new Uint8Array(1), 'image/png')]);
  return status;
}

test.each<[string, (attempt: number) => boolean, number, readonly string[]]>([
  ['is back at the third try', (at) => at <= 2, 4, ['fulfilled', 'fulfilled']],
  ['is back at the last try, and busy once more', (at) => at <= 3 || at === 5, 6, ['fulfilled', 'fulfilled']],
  ['stays away', () => true, 5, ['rejected', 'rejected']],
])('of one that %s', async (_what, isRefused, tries, endings) => {
  const { store, tried } = refusing(isRefused);
  const patient = inTime(store, 450, new AbortController().signal);
  expect([await putIn(patient), await putIn(patient)]).toEqual(endings);
  expect(tried()).toBe(tries);
});

test('what was refused is not tried again when nobody waits any more', async () => {
  const { store, tried } = refusing(() => true);
  expect(await putIn(inTime(store, 45_000, AbortSignal.abort()))).toBe('rejected');
  expect(tried()).toBe(1);
});

test('nothing is asked of it once the time is over', async () => {
  const { store, tried } = refusing((attempt) => attempt === 1);
  const hanging: ArtifactStore = { ...store, put: async () => await new Promise(() => undefined) };
  const patient = inTime(hanging, 10, new AbortController().signal);
  expect(await putIn(patient)).toBe('rejected');
  Object.assign(hanging, store);
  expect(await putIn(patient)).toBe('rejected');
  expect(tried()).toBe(0);
});
