/** A gateway says that a client is there for a moment at a time, so that its word ends soon after the client has gone. */
import { expect, test } from '@jest/globals';
import { until } from '../../support/until.ts';
import { GateCalls, type GateCallsParts } from '../../../gateway/gate/calls.ts';

const RUN = 'gate-00000000-0000-0000-0000-000000000001';
const MOMENT_MS = 15_000;

function callsWith(over: Partial<GateCallsParts> = {}) {
  const words: number[] = [];
  // Sound: these are what it uses.
  const parts = { present: async (_runId: string, end: number) => void words.push(end), ...over } as GateCallsParts;
  return { calls: new GateCalls(parts, { holdSeconds: 600, dispatch: 'on-return' }), words };
}

const MADE = { runId: RUN, isOnReturn: true };

test('its word is good for some seconds, and not beyond the time for which the client is held', async () => {
  const { calls, words } = callsWith();
  const before = Date.now();
  await calls.present(MADE);
  const second = callsWith();
  await second.calls.present(MADE, before + 2_000);
  expect(words).toHaveLength(1);
  expect(words[0]).toBeGreaterThan(before);
  expect(words[0]).toBeLessThanOrEqual(Date.now() + MOMENT_MS);
  expect(second.words).toEqual([before + 2_000]);
});

test('a client that polls costs one word in a while, however often it asks', async () => {
  const { calls, words } = callsWith();
  for (let polls = 0; polls < 100; polls += 1) await calls.present(MADE);
  expect(words).toHaveLength(1);
});

test('a client that is back after its last word has ended is told again', async () => {
  const { calls, words } = callsWith();
  await calls.present(MADE, Date.now() + 20);
  await until(async () => Date.now() > (words[0] ?? 0), { what: 'the end of the word' });
  await calls.present(MADE, Date.now() + 2_000);
  expect(words).toHaveLength(2);
});

test('nothing is said to a run that does not wait for its client, or of a client that is no longer held', async () => {
  const { calls, words } = callsWith();
  await calls.present({ ...MADE, isOnReturn: false });
  await calls.present(MADE, Date.now() - 1);
  expect(words).toEqual([]);
});
