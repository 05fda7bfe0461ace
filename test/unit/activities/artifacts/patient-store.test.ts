/** A store that refuses for some seconds keeps what a call returned: the call is not made again for its bytes. */
import { expect, test } from '@jest/globals';
import { type ArtifactStore, inTime } from '../../../../activities/artifacts/port.ts';

/** Refuses so many times. */
function refusing(times: number): { readonly store: ArtifactStore; tried(): number } {
  let tried = 0;
  const store: ArtifactStore = {
    put: async (bytes, contentType) => {
      tried += 1;
      if (tried <= times) throw new Error('503');
      return await Promise.resolve({ sha256: 'a'.repeat(64), bytes: bytes.length, contentType });
    },
    get: () => new Promise(() => undefined),
  };
  return { store, tried: () => tried };
}

test.each([
  [2, 4, ['fulfilled', 'fulfilled']],
  [9, 5, ['rejected', 'rejected']],
])('one that refuses %i times is tried %i times for two parts, which are %j', async (refusals, tries, endings) => {
  const { store, tried } = refusing(refusals);
  const patient = inTime(store, 450);
  const put = async () => {
    const [{ status }] = await Promise.allSettled([patient.put(new Uint8Array(1), 'image/png')]);
    return status;
  };
  expect([await put(), await put()]).toEqual(endings);
  expect(tried()).toBe(tries);
});
