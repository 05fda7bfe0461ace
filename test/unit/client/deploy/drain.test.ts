/** A drain asks no more than it may, stops where the deployment changes, and leaves no run between two builds. */
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import fc from 'fast-check';
import { plain } from '../../../../cli/session/terminal.ts';
import type { DrainOptions } from '../../../../client/index.ts';
import type { FakeRun } from '../../../support/fake-deployment.ts';

/** Pauses pass at once, and time with them. */
let now = 0;
jest.unstable_mockModule('node:timers/promises', () => ({
  setTimeout: async (ms: number) => {
    now += ms;
    await new Promise((resolve) => void setImmediate(resolve));
  },
}));

const { drainedText, drainFault } = await import('../../../../cli/verbs/deploy.ts');
const { CountersignError } = await import('../../../../contracts/errors.ts');
const { takeoverFault } = await import('../../../../workers/replay/refusals.ts');
const { FakeDeployment } = await import('../../../support/fake-deployment.ts');
const { codeOf } = await import('../../../support/world/run-record.ts');

beforeEach(() => void jest.spyOn(Date, 'now').mockImplementation(() => now));
afterEach(() => void jest.restoreAllMocks());

const away = new CountersignError('ENGINE_UNAVAILABLE', 'Temporal did not answer in time.');
/** For what is not replayed. */
const REPLAYING = { bundle: { code: '', buildId: 'b' }, config: {} } as unknown as Parameters<typeof takeoverFault>[1];

/** Moves by options, and replays nothing. */
const MOVING = { mayMove: async () => await Promise.resolve(undefined) } satisfies DrainOptions;

/** Runs that wait on `a`, while `b` is current. */
function waiting(runs: number): InstanceType<typeof FakeDeployment> {
  const temporal = new FakeDeployment('a', 'b');
  temporal.addRuns('a', runs);
  return temporal;
}

/** As Temporal 1.32 does: the next execution begins on the current build, and works there at once. */
function movesOn(run: FakeRun): void {
  run.executions += 1;
  run.build = 'b';
}

function count(changes: readonly string[], start: string): number {
  return changes.filter((change) => change.startsWith(start)).length;
}

/** Long enough for one run after the other. */
const LONG_MS = 86_400_000;

const SCENARIO = fc.record({
  runs: fc.integer({ min: 0, max: 150 }),
  batch: fc.integer({ min: 1, max: 60 }),
  /** Readings that visibility lags behind. */
  lag: fc.integer({ min: 0, max: 3 }),
  /** Looks at a run until it has moved: it works on something. */
  looks: fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 1, maxLength: 7 }),
  /** Every so many runs, one ends in place of moving. */
  ending: fc.integer({ min: 2, max: 9 }),
});

type Scenario = typeof SCENARIO extends fc.Arbitrary<infer T> ? T : never;

/** Has runs move after some looks, and counts how many are asked and not moved. */
function played({ runs, lag, looks, ending }: Scenario, move: (run: FakeRun) => void) {
  const temporal = waiting(runs);
  temporal.lag = lag;
  const left = new Map<string, number>();
  const seen = { most: 0 };
  temporal.onNudge = (workflowId) => {
    left.set(workflowId, looks[left.size % looks.length] ?? 0);
    seen.most = Math.max(seen.most, left.size - gone.size);
  };
  const gone = new Set<string>();
  temporal.onLook = (workflowId, run) => {
    const rest = left.get(workflowId);
    if (rest === undefined || run === undefined || gone.has(workflowId)) return;
    left.set(workflowId, rest - 1);
    if (rest > 0) return;
    gone.add(workflowId);
    if (gone.size % ending === 0) temporal.runs.delete(workflowId);
    else move(run);
  };
  return { temporal, seen };
}

test('never are more than `batch` asked and not moved, each is asked once, and all move', async () => {
  await fc.assert(
    fc.asyncProperty(SCENARIO, async (scenario) => {
      const { temporal, seen } = played(scenario, movesOn);
      const drained = await temporal.deployment.drain('a', { batch: scenario.batch, withinMs: LONG_MS });
      expect(drained).toMatchObject({ asked: scenario.runs, left: 0 });
      expect(temporal.pinnedTo('a')).toEqual([]);
      expect(temporal.changes).toHaveLength(scenario.runs);
      expect(new Set(temporal.changes).size).toBe(scenario.runs);
      expect(seen.most).toBeLessThanOrEqual(scenario.batch);
    }),
  );
});

test('neither are they where runs are moved by options, and no override stays', async () => {
  await fc.assert(
    fc.asyncProperty(SCENARIO, async (scenario) => {
      const { temporal, seen } = played(scenario, (run) => void (run.build = 'b'));
      const drained = await temporal.deployment.drain('a', { ...MOVING, batch: scenario.batch, withinMs: LONG_MS });
      expect(drained).toMatchObject({ asked: scenario.runs, left: 0 });
      expect(count(temporal.changes, 'nudge')).toBe(scenario.runs);
      expect(count(temporal.changes, 'move')).toBe(scenario.runs);
      expect(temporal.overridden).toEqual([]);
      expect(seen.most).toBeLessThanOrEqual(scenario.batch);
    }),
  );
});

test('however a drain by options ends, no override stays, and what has not moved is with its build', async () => {
  const broken = fc.record({
    runs: fc.integer({ min: 1, max: 30 }),
    batch: fc.integer({ min: 1, max: 12 }),
    /** The nudge that fails, and the look that does. */
    nudge: fc.integer({ min: 0, max: 29 }),
    promotes: fc.boolean(),
    moved: fc.integer({ min: 0, max: 20 }),
  });
  await fc.assert(
    fc.asyncProperty(broken, async ({ runs, batch, nudge, promotes, moved }) => {
      const temporal = waiting(runs);
      let nudges = 0;
      temporal.onNudge = (_, run) => {
        nudges += 1;
        if (nudges <= moved) run.build = 'b';
        if (nudges !== nudge + 1) return;
        if (promotes) temporal.makeCurrent('a');
        else throw new Error('Temporal is away');
      };
      await temporal.deployment.drain('a', { ...MOVING, batch, withinMs: 300 }).catch(() => undefined);
      expect(temporal.overridden).toEqual([]);
      expect(temporal.pinnedTo('a').length + temporal.pinnedTo('b').length).toBe(runs);
      expect(temporal.pinnedTo('b').length).toBe(Math.min(moved, nudges));
    }),
  );
});

describe('without `move`', () => {
  test('two go ahead, and where Temporal leaves them on the build no other is asked', async () => {
    const temporal = waiting(20);
    temporal.onNudge = (_, run) => void (run.executions += 1);
    const refusal = temporal.deployment.drain('a');
    await expect(refusal).rejects.toMatchObject({ code: 'DRAIN_REFUSED', message: expect.stringContaining('--move') });
    expect(temporal.changes).toEqual(['nudge run-0', 'nudge run-1']);
  });

  test('an execution that has begun, and has not worked yet, shows nothing', async () => {
    const temporal = waiting(3);
    let looks = 0;
    temporal.onNudge = (_, run) => {
      run.executions += 1;
      run.upgrades = true;
    };
    temporal.onLook = (_, run) => {
      looks += 1;
      if (looks < 4 || run === undefined) return;
      run.upgrades = false;
      run.build = 'b';
    };
    expect(await temporal.deployment.drain('a')).toMatchObject({ asked: 3, left: 0 });
  });

  test('a run that has ended does not show that Temporal moves runs', async () => {
    const temporal = waiting(6);
    temporal.onNudge = (workflowId, run) => {
      if (count(temporal.changes, 'nudge') <= 2) temporal.runs.delete(workflowId);
      else run.executions += 1;
    };
    expect(await codeOf(temporal.deployment.drain('a'))).toBe('DRAIN_REFUSED');
    expect(temporal.changes).toEqual(['nudge run-0', 'nudge run-1', 'nudge run-2', 'nudge run-3']);
  });

  test('where those that went ahead work on something, others go beside them after a while', async () => {
    const temporal = waiting(6);
    temporal.onNudge = (workflowId, run) => {
      if (workflowId !== 'run-0' && workflowId !== 'run-1') movesOn(run);
    };
    temporal.onLook = (_, run) => {
      if (run?.build === 'a' && temporal.pinnedTo('a').length <= 2) movesOn(run);
    };
    const began = now;
    expect(await temporal.deployment.drain('a')).toMatchObject({ asked: 6, left: 0 });
    expect(now - began).toBeGreaterThan(20_000);
    expect(now - began).toBeLessThan(30_000);
  });

  test('runs that begin on the current build and never work there are not drained: they are left, and hold others back', async () => {
    const temporal = waiting(6);
    temporal.onNudge = (_, run) => {
      run.executions += 1;
      run.upgrades = true;
      run.goingTo = 'b';
      run.attempt = 9;
    };
    const told: number[] = [];
    const tell = (left: number): void => void told.push(left);
    expect(await temporal.deployment.drain('a', { withinMs: 10_000, tell })).toMatchObject({ asked: 2, left: 6 });
    expect(told.at(-1)).toBe(6);
    // The last ones too, which no others hold back.
    const began = now;
    expect(await temporal.deployment.drain('a', { withinMs: 60_000 })).toMatchObject({ asked: 4, left: 4 });
    expect(now - began).toBeGreaterThanOrEqual(60_000);
    expect(temporal.pinnedTo('b')).toEqual([]);
  });

  test('where Temporal has moved some, one that it begins on the build again is named, and asked once', async () => {
    const temporal = waiting(6);
    temporal.onNudge = (workflowId, run) => {
      if (workflowId === 'run-3' || workflowId === 'run-1') run.executions += 1;
      else movesOn(run);
    };
    const drained = await temporal.deployment.drain('a');
    expect(drained).toMatchObject({ asked: 6, left: 2, unmoved: ['run-1', 'run-3'] });
    expect(temporal.changes).toHaveLength(6);
    expect(drainedText(drained, plain)).toContain('run-3  Temporal has begun it on a again');
  });

  test('workflows that are not ours are counted, and not asked', async () => {
    const temporal = waiting(1);
    temporal.onNudge = (_, run) => movesOn(run);
    temporal.addRuns('a', 2, { type: 'theirs' });
    expect(await temporal.deployment.drain('a')).toMatchObject({ asked: 1, left: 2 });
  });
});

const CHANGES: readonly (readonly [string, (temporal: InstanceType<typeof FakeDeployment>) => void])[] = [
  ['was rolled back', (temporal) => temporal.makeCurrent('a')],
  ['has another current build', (temporal) => temporal.makeCurrent('c')],
  ['sends new runs to the build again', (temporal) => temporal.setRamp({ build: 'a', percent: 5 })],
];

describe('with `move`', () => {
  test.each(CHANGES)(
    'where the deployment %s it moves no further run, and takes back what nobody took up',
    async (_, change) => {
      const temporal = waiting(20);
      temporal.onNudge = (workflowId) => {
        if (workflowId === 'run-3') change(temporal);
      };
      // A replay takes its time.
      const mayMove = async (): Promise<undefined> => void (now += 1_500);
      expect(await codeOf(temporal.deployment.drain('a', { mayMove }))).toBe('DEPLOYMENT_CHANGED');
      expect(count(temporal.changes, 'move')).toBe(4);
      expect(temporal.overridden).toEqual([]);
      expect(temporal.pinnedTo('a')).toHaveLength(20);
    },
  );

  test('what is between two builds at the end of its time counts for its build again, and a second drain finds it', async () => {
    const temporal = waiting(3);
    expect(await temporal.deployment.drain('a', { ...MOVING, withinMs: 1 })).toMatchObject({ asked: 3, left: 3 });
    expect(temporal.pinnedTo('a')).toHaveLength(3);
    temporal.onNudge = (_, run) => void (run.build = 'b');
    expect(await temporal.deployment.drain('a', MOVING)).toMatchObject({ asked: 3, left: 0 });
    expect(temporal.overridden).toEqual([]);
  });

  test('no run is replayed after the end of its time, although its batch has room', async () => {
    const temporal = waiting(50);
    let replays = 0;
    const mayMove = async (): Promise<undefined> => {
      replays += 1;
      now += 4_000;
    };
    expect(await temporal.deployment.drain('a', { mayMove, withinMs: 10_000 })).toMatchObject({ asked: 3, left: 50 });
    expect(replays).toBe(3);
    expect(temporal.overridden).toEqual([]);
  });

  test('what may not move is kept, with its reason', async () => {
    const temporal = waiting(3);
    temporal.onNudge = (_, run) => void (run.build = 'b');
    const mayMove = async ({ workflowId }: { readonly workflowId: string }) =>
      await Promise.resolve(workflowId === 'run-1' ? 'it does not replay' : undefined);
    expect(await temporal.deployment.drain('a', { mayMove })).toMatchObject({
      asked: 2,
      left: 1,
      kept: [{ workflowId: 'run-1', reason: 'it does not replay' }],
    });
  });

  test('what could not be read is left, says nothing of the build, and holds no other back; the next drain asks again', async () => {
    const temporal = waiting(3);
    temporal.onNudge = (_, run) => void (run.build = 'b');
    let isAway = true;
    const mayMove = async ({ workflowId }: { readonly workflowId: string }): Promise<string | undefined> => {
      if (workflowId !== 'run-1' || !isAway) return undefined;
      const error = new Error('Deadline exceeded');
      const fault = await takeoverFault({ kind: 'unreadable', name: 'n', workflowId, error }, REPLAYING);
      return fault?.message;
    };
    const began = now;
    const drained = await temporal.deployment.drain('a', { mayMove, batch: 1 });
    const reason = 'The history of run-1 could not be read, so it was not replayed: Deadline exceeded';
    expect(drained).toMatchObject({ asked: 2, left: 1, kept: [], unread: [{ workflowId: 'run-1', reason }] });
    expect(now - began).toBeLessThan(10_000);
    expect(drainedText(drained, plain)).toContain(`run-1  ${reason}`);
    const fault = drainFault(drained);
    expect(fault).toMatchObject({ code: 'DRAIN_INCOMPLETE', message: expect.stringContaining(reason) });
    expect(fault?.traits.exitCode).toBe(6);
    isAway = false;
    const again = await temporal.deployment.drain('a', { mayMove });
    expect(again).toMatchObject({ asked: 1, left: 0, unread: [] });
    expect(drainFault(again)).toBeUndefined();
  });

  test('where Temporal is away altogether, the drain ends with that after one history', async () => {
    const temporal = waiting(20);
    let replays = 0;
    const mayMove = async (): Promise<undefined> => {
      replays += 1;
      now += 10_000;
      temporal.onRead = () => {
        throw away;
      };
      throw await Promise.resolve(away);
    };
    expect(await codeOf(temporal.deployment.drain('a', { mayMove }))).toBe('ENGINE_UNAVAILABLE');
    expect(replays).toBe(1);
    expect(temporal.changes).toEqual([]);
  });

  test('the first failure is told, nothing is asked after it, and each that is left is taken back whatever becomes of others', async () => {
    const temporal = waiting(40);
    temporal.onNudge = (workflowId) => {
      if (workflowId === 'run-29') throw new Error('Temporal is away');
    };
    temporal.onOverride = (workflowId) => {
      if (workflowId === 'run-0' && count(temporal.changes, 'nudge') === 30) throw new Error('still away');
    };
    await expect(temporal.deployment.drain('a', MOVING)).rejects.toThrow('Temporal is away');
    expect(count(temporal.changes, 'move')).toBe(30);
    expect(temporal.overridden).toEqual(['run-0']);
  });

  test('a drain that is interrupted asks no further run, and says what is left', async () => {
    const temporal = waiting(5);
    const interrupted = new AbortController();
    temporal.onNudge = (workflowId) => {
      if (workflowId === 'run-1') interrupted.abort();
    };
    const options = { ...MOVING, signal: interrupted.signal };
    expect(await temporal.deployment.drain('a', options)).toMatchObject({ asked: 2, left: 5 });
    expect(temporal.overridden).toEqual([]);
  });

  test('what another drain has moved back is asked again', async () => {
    const temporal = waiting(1);
    temporal.onNudge = (_, run) => {
      if (count(temporal.changes, 'nudge') === 1) delete run.movedTo;
      else run.build = 'b';
    };
    expect(await temporal.deployment.drain('a', MOVING)).toMatchObject({ asked: 1, left: 0 });
    expect(count(temporal.changes, 'nudge')).toBe(2);
  });
});

test('a build that takes new runs is not drained, nor one where no build does', async () => {
  const temporal = waiting(2);
  expect(await codeOf(temporal.deployment.drain('b'))).toBe('DRAIN_REFUSED');
  temporal.setRamp({ build: 'a', percent: 5 });
  expect(await codeOf(temporal.deployment.drain('a'))).toBe('DRAIN_REFUSED');
  temporal.setRamp(undefined);
  temporal.current = undefined;
  expect(await codeOf(temporal.deployment.drain('a'))).toBe('DRAIN_REFUSED');
  expect(await codeOf(temporal.deployment.drain('none'))).toBe('BUILD_UNKNOWN');
  expect(temporal.changes).toEqual([]);
});
