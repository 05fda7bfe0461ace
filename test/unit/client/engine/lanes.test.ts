/** Updates of one run leave a few at a time, in the order in which they came (F36). */
import { expect, test } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { Engine, Lanes } from '../../../../client/engine/engine.ts';

/** An update that is under way until the test ends it. */
class Held {
  isUnderWay = false;
  end: (error?: Error) => void = () => undefined;
  readonly settled: Promise<unknown>;
  constructor(send: (act: () => Promise<void>) => Promise<void>) {
    const act = async () => {
      this.isUnderWay = true;
      await new Promise<void>((resolve, reject) => {
        this.end = (error) => (error === undefined ? resolve() : reject(error));
      }).finally(() => (this.isUnderWay = false));
    };
    this.settled = Promise.allSettled([send(act)]);
  }
}

const underWay = (held: readonly Held[]) => held.flatMap(({ isUnderWay }, index) => (isUnderWay ? [index] : []));
/** Lets all that is ready happen. */
const turn = async () => await new Promise((resolve) => setImmediate(resolve));

test('at most four updates of a run are under way; a place goes to whoever has waited longest, also after a failure', async () => {
  const lanes = new Lanes();
  const held = Array.from({ length: 8 }, () => new Held((act) => lanes.run('one', act)));
  await turn();
  expect(underWay(held)).toEqual([0, 1, 2, 3]);
  held[2]?.end();
  await turn();
  expect(underWay(held)).toEqual([0, 1, 3, 4]);
  held[0]?.end(new Error('refused'));
  await turn();
  expect(underWay(held)).toEqual([1, 3, 4, 5]);
  for (const each of [1, 3, 4, 5, 6, 7]) {
    held[each]?.end();
    await turn();
  }
  await Promise.all(held.map(({ settled }) => settled));
  expect(underWay(held)).toEqual([]);
});

test('another run has places of its own, and those of a run that is done are free again', async () => {
  const lanes = new Lanes();
  const held = ['one', 'one', 'one', 'one', 'other'].map((run) => new Held((act) => lanes.run(run, act)));
  await turn();
  expect(underWay(held)).toEqual([0, 1, 2, 3, 4]);
  for (const each of held) each.end();
  await Promise.all(held.map(({ settled }) => settled));
  const again = Array.from({ length: 5 }, () => new Held((act) => lanes.run('one', act)));
  await turn();
  expect(underWay(again)).toEqual([0, 1, 2, 3]);
  for (const each of again) {
    each.end();
    await turn();
  }
});

test('every update of a client goes through them, and no read does', async () => {
  const connection = { withDeadline: async (_deadline: number, act: () => Promise<unknown>) => await act() };
  // Sound: the engine uses nothing else of a client.
  const engine = new Engine({ connection } as unknown as Client, 60_000);
  const updates = Array.from({ length: 6 }, () => new Held((act) => engine.update('one', act)));
  await turn();
  expect(underWay(updates)).toEqual([0, 1, 2, 3]);
  const read = new Held((act) => engine.read('one', act));
  await turn();
  expect(read.isUnderWay).toBe(true);
  for (const each of [read, ...updates]) {
    each.end();
    await turn();
  }
});
