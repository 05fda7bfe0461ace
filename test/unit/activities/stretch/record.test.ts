/** The record of a stretch with Temporal: what was decided is there before anything is sent (INV-G1, docs/adr/0058). */
import {
  ActivityCancelledError,
  ActivityCompletionError,
  ActivityNotFoundError,
  ActivityPausedError,
  ActivityResetError,
} from '@temporalio/client';
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { KeptRecord } from '../../../../activities/stretch/record.ts';
import type { ReportedProgress, StretchBeat, StretchedTurn } from '../../../../contracts/wire/stretch.ts';
import { START } from '../../../support/builders/run.ts';
import { stepOf, stretchedCall } from '../../../support/stretch/input.ts';

/** Turns that leave one after the other; the number says how many. */
function turnsOf(count: number): StretchedTurn[] {
  return Array.from({ length: count }, (_, index) => ({
    step: stepOf(index + 1, [{}]),
    at: START,
    calls: [stretchedCall({ callId: `t${index + 1}.c0` })],
  }));
}

/** Temporal, which answers a heartbeat when the test says so. */
class Held {
  /** Number of turns in each record that came, in order. */
  readonly told: number[] = [];
  readonly beats: StretchBeat[] = [];
  readonly heard: string[] = [];
  readonly record: KeptRecord;
  #underWay = 0;
  #most = 0;
  #answer: ((error?: Error) => void) | undefined;

  constructor() {
    this.record = new KeptRecord(
      async (beat) => {
        this.told.push(beat.turns.length);
        this.beats.push(beat);
        this.#underWay += 1;
        this.#most = Math.max(this.#most, this.#underWay);
        try {
          await new Promise<void>((resolve, reject) => {
            this.#answer = (error) => (error === undefined ? resolve() : reject(error));
          });
        } finally {
          this.#underWay -= 1;
        }
      },
      (what) => this.heard.push(what),
    );
  }

  /** Most heartbeats that were under way at once. */
  get most(): number {
    return this.#most;
  }

  /** Answers the heartbeat under way, and lets happen what follows from it. */
  async answer(error?: Error): Promise<void> {
    this.#answer?.(error);
    await passed(0);
  }
}

async function passed(ms: number): Promise<void> {
  await jest.advanceTimersByTimeAsync(ms);
}

const CANCELLED = new ActivityCancelledError('cancel requested');
const OVER = new ActivityNotFoundError('not found');
const AWAY = new ActivityCompletionError('deadline exceeded');

let temporal: Held;
beforeEach(() => {
  jest.useFakeTimers();
  temporal = new Held();
});
afterEach(() => {
  temporal.record.stop();
  jest.useRealTimers();
});

/** Puts turns on record, and tells in which state that is. */
function acknowledging(count: number): { answer: boolean | undefined } {
  const state: { answer: boolean | undefined } = { answer: undefined };
  void temporal.record.acknowledge(turnsOf(count)).then((answer) => (state.answer = answer));
  return state;
}

describe('what is put on record', () => {
  test('is acknowledged once Temporal has answered, and not before (INV-G1)', async () => {
    const one = acknowledging(1);
    await passed(30_000);
    expect(temporal.told).toEqual([1]);
    expect(one.answer).toBeUndefined();
    await temporal.answer();
    expect(one.answer).toBe(true);
  });

  test('waits for a heartbeat under way: one is sent at a time, and none with an older record after a newer one', async () => {
    await passed(1_000);
    const one = acknowledging(1);
    const two = acknowledging(2);
    await passed(5_000);
    expect(temporal.told).toEqual([0]);
    await temporal.answer();
    expect([one.answer, two.answer]).toEqual([undefined, undefined]);
    await temporal.answer();
    await temporal.answer();
    expect([one.answer, two.answer]).toEqual([true, true]);
    await passed(1_000);
    await temporal.answer();
    expect(temporal.told).toEqual(temporal.told.toSorted((before, after) => before - after));
    expect(temporal.told.at(-1)).toBe(2);
    expect(temporal.most).toBe(1);
  });

  test('tells that the stretch is alive: the next heartbeat follows a second later', async () => {
    await passed(900);
    acknowledging(1);
    await passed(0);
    await temporal.answer();
    await passed(900);
    expect(temporal.told).toEqual([1]);
    await passed(100);
    expect(temporal.told).toEqual([1, 1]);
  });

  test('is told by each later heartbeat, with what was noted since', async () => {
    acknowledging(1);
    await passed(0);
    await temporal.answer();
    temporal.record.note(turnsOf(2));
    await passed(1_000);
    expect(temporal.told).toEqual([1, 2]);
  });
});

describe('progress of calls under way', () => {
  const at = (callId: string, progress: number): ReportedProgress => ({
    callId,
    sentAt: '2026-01-01T00:00:00.000Z',
    progress,
  });

  test('rides on the next heartbeat with the newest record, and no heartbeat is sent for it', async () => {
    acknowledging(1);
    await passed(0);
    await temporal.answer();
    temporal.record.report(at('t1.c0', 0.25));
    temporal.record.report(at('t1.c0', 0.5));
    await passed(999);
    expect(temporal.beats).toHaveLength(1);
    acknowledging(2);
    await passed(0);
    await temporal.answer();
    expect(temporal.beats.map(({ turns, progress }) => [turns.length, progress])).toEqual([
      [1, undefined],
      [2, [at('t1.c0', 0.5)]],
    ]);
  });

  test('never brings an older record back: it waits behind a record that is under way, and goes with that record', async () => {
    await passed(1_000);
    temporal.record.report(at('t1.c0', 1));
    const one = acknowledging(1);
    await passed(5_000);
    temporal.record.report(at('t1.c0', 2));
    await temporal.answer();
    expect(one.answer).toBeUndefined();
    await temporal.answer();
    expect(one.answer).toBe(true);
    await passed(1_000);
    expect(temporal.told).toEqual([0, 1, 1]);
    expect(temporal.beats.at(-1)?.progress).toEqual([at('t1.c0', 2)]);
  });

  test('is dropped with its call; of many calls those heard of last are told, and the heartbeat stays small', async () => {
    for (let index = 0; index < 64; index += 1) temporal.record.report(at(`t1.c${index}`, 1));
    temporal.record.report(at('t1.c3', 2));
    temporal.record.forget('t1.c63');
    await passed(1_000);
    const { progress = [] } = temporal.beats[0] ?? {};
    expect(progress).toHaveLength(20);
    expect(progress.at(-1)).toEqual(at('t1.c3', 2));
    expect(progress.map(({ callId }) => callId)).not.toContain('t1.c63');
    expect(JSON.stringify(progress).length).toBeLessThan(4_096);
  });
});

describe('the timer', () => {
  test('beats each second until it is stopped', async () => {
    for (let second = 1; second <= 3; second += 1) {
      await passed(999);
      expect(temporal.told).toHaveLength(second - 1);
      await passed(1);
      expect(temporal.told).toHaveLength(second);
      await temporal.answer();
    }
    temporal.record.stop();
    await passed(60_000);
    expect(temporal.told).toHaveLength(3);
  });

  test('waits for Temporal: heartbeats that are not answered do not pile up', async () => {
    await passed(20_000);
    expect(temporal.told).toHaveLength(1);
    await temporal.answer();
    expect(temporal.told).toHaveLength(1);
    await passed(1_000);
    expect(temporal.told).toHaveLength(2);
  });

  test('goes on after a heartbeat that failed', async () => {
    await passed(1_000);
    await temporal.answer(AWAY);
    await passed(1_000);
    expect(temporal.told).toHaveLength(2);
  });
});

describe('nothing is acknowledged any more (INV-G1)', () => {
  test.each([
    ['a cancellation', CANCELLED],
    ['a pause by an operator', new ActivityPausedError('paused')],
    ['a reset by an operator', new ActivityResetError('reset')],
  ])('after %s, though Temporal has the record', async (_what, error) => {
    const one = acknowledging(1);
    await passed(0);
    await temporal.answer(error);
    expect(one.answer).toBe(false);
    expect(temporal.record.isCancelled).toBe(true);
    expect(temporal.record.isLost).toBe(false);
    expect(temporal.heard).toEqual(['cancelled']);
    const two = acknowledging(2);
    await passed(0);
    await temporal.answer();
    expect(two.answer).toBe(false);
  });

  test('a cancellation that a timed heartbeat heard counts as well, and each one is told: calls may be cancelled later', async () => {
    for (const times of [1, 2]) {
      await passed(1_000);
      await temporal.answer(CANCELLED);
      expect(temporal.heard).toHaveLength(times);
    }
    const one = acknowledging(1);
    await passed(0);
    await temporal.answer();
    expect(one.answer).toBe(false);
  });

  test('after a heartbeat whose fate is unknown, for good: it might replace a newer record', async () => {
    const one = acknowledging(1);
    await passed(0);
    await temporal.answer(AWAY);
    expect(one.answer).toBe(false);
    for (const count of [2, 3]) {
      const next = acknowledging(count);
      await passed(0);
      await temporal.answer();
      expect(next.answer).toBe(false);
    }
    expect(temporal.heard).toEqual([]);
    expect([temporal.record.isCancelled, temporal.record.isLost]).toEqual([false, false]);
  });

  test('nor after a timed heartbeat whose fate is unknown', async () => {
    await passed(1_000);
    const one = acknowledging(1);
    await temporal.answer(AWAY);
    await temporal.answer();
    expect(one.answer).toBe(false);
  });

  test('after Temporal has let go of the attempt: that is told once, and nothing more is sent', async () => {
    await passed(1_000);
    const one = acknowledging(1);
    const two = acknowledging(2);
    await temporal.answer(OVER);
    expect([one.answer, two.answer]).toEqual([false, false]);
    expect(temporal.record.isLost).toBe(true);
    const three = acknowledging(3);
    await passed(10_000);
    expect(three.answer).toBe(false);
    expect(temporal.told).toEqual([0]);
    expect(temporal.heard).toEqual(['lost']);
  });
});
