/**
 * The negative control of `test/fault/query-rebuilds.test.ts`, and what writes `test/replay/damaged`: without the guard each run is
 * damaged (INV-D1, docs/adr/0044). Played by hand, because it waits for races that a busy machine may win: `npm test -- drill unguarded`.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { FORMS, played, type Stage, startStage } from '../support/faults/asked-elsewhere.ts';

const LONG_MS = 400_000;

let stage: Stage;

beforeAll(async () => {
  stage = await startStage();
}, LONG_MS);

afterAll(async () => {
  await stage?.close();
});

test.each(FORMS)(
  '%s: without the guard each query is answered, and runs are not what a replay makes of them',
  async (form) => {
    const seen = await played(stage, form, { guarded: false });
    expect([...seen.values()].some(({ refused }) => refused)).toBe(false);
    expect([...seen].filter(([, { different }]) => different === undefined)).toEqual([]);
  },
  LONG_MS,
);
