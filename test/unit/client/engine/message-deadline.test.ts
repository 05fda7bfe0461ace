/** A message outlasts a workflow task that got lost; a reading does not wait that long (docs/adr/0067). */
import { expect, jest, test } from '@jest/globals';
import { refreshEnd } from '../../../../client/catalog/catalog-handle.ts';
import { Engine } from '../../../../client/engine/engine.ts';
import { fakeClient } from '../../../support/servers/fake-client.ts';
import { withCode } from '../../../support/refusal.ts';

/** Temporal's default timeout of a workflow task, in milliseconds. */
const TASK_TIMEOUT_MS = 10_000;
const NOW = 1_000_000;

/** Milliseconds that a reading and a message may take. */
async function deadlinesOf(deadlineMs?: number): Promise<{ readonly reading: number; readonly message: number }> {
  const times: number[] = [];
  const clock = jest.spyOn(Date, 'now').mockReturnValue(NOW);
  try {
    const engine = new Engine(fakeClient({}, times), deadlineMs);
    await engine.read('run', async () => 'read');
    await engine.update('run', undefined, async () => 'taken');
  } finally {
    clock.mockRestore();
  }
  const [reading = 0, message = 0] = times.map((deadline) => deadline - NOW);
  return { reading, message };
}

test('by default a message waits longer than the timeout of a task', async () => {
  const { reading, message } = await deadlinesOf();
  expect(reading).toBe(10_000);
  expect(message).toBeGreaterThan(TASK_TIMEOUT_MS + 5_000);
});

test('a deadline that the caller names holds for both', async () => {
  expect(await deadlinesOf(3_000)).toEqual({ reading: 3_000, message: 3_000 });
});

test('a deadline that is no number is refused, before anything is sent', async () => {
  await expect(deadlinesOf(Number(undefined))).rejects.toMatchObject(withCode('USAGE', 'deadlineMs is not a number'));
  const read = async (): Promise<never> => await Promise.reject(new Error('It was read.'));
  const waits = refreshEnd({ tenant: 'acme', server: 'bank' }, read, 1, Number.NaN);
  await expect(waits).rejects.toMatchObject({ code: 'USAGE' });
});

test.each([Number.MAX_SAFE_INTEGER, Number.POSITIVE_INFINITY])(
  'a deadline of %d is one that gRPC can say',
  async (ms) => {
    const { reading, message } = await deadlinesOf(ms);
    // gRPC has eight digits, of hours at most. A longer time throws outside of every promise.
    expect(reading / 3_600_000).toBeLessThan(100_000_000);
    expect(message).toBe(reading);
  },
);
