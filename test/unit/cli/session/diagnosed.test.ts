/** How many histories that fail are looked at, and what is said of the others. */
import { expect, test } from '@jest/globals';
import {
  causesOf,
  replayFailureText,
  type Diagnosed,
  diagnosedOf,
  MOST_DIAGNOSED,
} from '../../../../cli/session/broken-ledger.ts';
import type { Cause, Diagnosis } from '../../../../workers/replay/diagnosis.ts';
import type { ReplayOutcome } from '../../../../workers/replay/replay.ts';

const failing = (name: string): ReplayOutcome => ({ name, workflowId: name, error: new Error('no') });
const sound = (name: string): ReplayOutcome => ({ name, workflowId: name });
const because = (cause: Cause): Diagnosis => ({ cause, certainty: 'likely', text: 'so', task: 4 });

/** What each is told, and which were looked at. */
async function diagnosed(outcomes: readonly ReplayOutcome[], cause: Cause, most?: number) {
  const asked: string[] = [];
  async function* source() {
    for (const outcome of outcomes) yield await Promise.resolve(outcome);
  }
  const told: Diagnosed[] = [];
  for await (const each of diagnosedOf(
    source(),
    async ({ name }) => {
      asked.push(name);
      return await Promise.resolve(because(cause));
    },
    most,
  ))
    told.push(each);
  return { asked, told };
}

const NAMES = Array.from({ length: MOST_DIAGNOSED + 3 }, (_, index) => `run-${index}`);
const MANY = [sound('first'), ...NAMES.map(failing), sound('last')];

test('ten that fail are looked at, the first ones; every other is counted', async () => {
  const { asked, told } = await diagnosed(MANY, 'build');
  expect(asked).toEqual(NAMES.slice(0, 10));
  expect(told.map(({ name }) => name)).toEqual(MANY.map(({ name }) => name));
  expect(told.filter(({ notLookedAt }) => notLookedAt).map(({ name }) => name)).toEqual(NAMES.slice(10));
  const causes = causesOf(told);
  expect(causes).toEqual({ build: 10, query: 0, unknown: 0, unread: 0, notLookedAt: 3 });
  expect(replayFailureText(13, 15, causes)).toBe(
    '13 of 15 histories do not replay with this code; it must not be deployed over them (10 by this build, 3 not looked at: --diagnose-all does).',
  );
});

test('all of them, where that is asked for', async () => {
  const { asked, told } = await diagnosed(MANY, 'build', Number.POSITIVE_INFINITY);
  expect(asked).toEqual(NAMES);
  expect(causesOf(told)).toMatchObject({ build: 13, notLookedAt: 0 });
});

test('the code is cleared only where each was looked at', async () => {
  const some = await diagnosed(MANY, 'query');
  expect(replayFailureText(13, 15, causesOf(some.told))).toBe(
    '13 of 15 histories do not replay with this code; it must not be deployed over them (10 damaged by a query, 3 not looked at: --diagnose-all does).',
  );
  const all = await diagnosed(MANY.slice(0, 4), 'query');
  expect(replayFailureText(3, 4, causesOf(all.told))).toContain('the code is not at fault');
});

test('one that was looked at, and of which nothing can be said, is unknown', () => {
  expect(causesOf([failing('a'), sound('b')])).toEqual({ build: 0, query: 0, unknown: 1, unread: 0, notLookedAt: 0 });
});

test('what could not be read is no fault of the code, takes nothing of the ten, and is counted apart', async () => {
  const unread = NAMES.map((name): ReplayOutcome => ({ ...failing(name), isUnread: true }));
  const { asked, told } = await diagnosed([...unread, failing('last')], 'build');
  expect(asked).toEqual(['last']);
  const causes = causesOf(told);
  expect(causes).toEqual({ build: 1, query: 0, unknown: 0, unread: 13, notLookedAt: 0 });
  expect(replayFailureText(14, 20, causes)).toBe(
    '1 of 20 histories do not replay with this code; it must not be deployed over them (1 by this build, 13 could not be read).',
  );
  expect(replayFailureText(13, 20, causesOf(unread))).toBe(
    '13 of 20 histories could not be read, so it is not known whether this code replays them. The reason stands under each.',
  );
});
