/**
 * A query reaches a worker that does not have the run in memory, while something in history has no workflow task yet,
 * or has one that a process holds which never answers (INV-D1, docs/adr/0044). The run must go on from the task, never
 * from what the query took in: at each point at which it may wait, with somebody who answers at once. What a replay
 * would do is compared with what was recorded, with its times.
 */
import { expect, jest, test } from '@jest/globals';
import { FORMS, NAMES, played, startStage } from '../support/faults/asked-elsewhere.ts';
import { replayOwn } from '../support/world/run-record.ts';
import { during } from '../support/world/during.ts';

jest.setTimeout(600_000);
/** On a busy machine the task may overtake the query at some point. Then nothing was refused there, and nothing shown. */
const MOST_PLAYS = 3;
/** Points of one play at which that may happen. */
const MOST_LOST = 3;

const stage = during(() => startStage());

test.each(FORMS)(
  '%s: each query is refused, each run goes on from its task, and is what a replay makes of it',
  async (form) => {
    const refused = new Set<string>();
    for (let plays = 0; plays < MOST_PLAYS && refused.size < NAMES.length; plays += 1) {
      const seen = await played(stage, form, {
        guarded: true,
        ended: async (world) => await replayOwn(world),
      });
      expect([...seen].filter(([, { different }]) => different !== undefined)).toEqual([]);
      const answered = [...seen].filter(([, each]) => !each.refused).map(([name]) => name);
      expect(answered.slice(MOST_LOST)).toEqual([]);
      for (const name of NAMES) if (!answered.includes(name)) refused.add(name);
    }
    expect([...refused].sort()).toEqual([...NAMES].sort());
  },
);

// That this is so at every point, in both forms, is played by hand: test/drill/unguarded-queries.test.ts.
test('control: without the guard each query is answered, and the comparison finds runs that are not what a replay makes of them', async () => {
  const seen = await played(stage, FORMS[0], { guarded: false, ended: async () => undefined });
  expect([...seen].filter(([, { refused }]) => refused)).toEqual([]);
  expect([...seen.values()].filter(({ different }) => different !== undefined)).not.toEqual([]);
});
