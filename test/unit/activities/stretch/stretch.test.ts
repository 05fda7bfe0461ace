/**
 * The activity that goes on from model step to model step: what leaves, what it returns, and when it ends (INV-G1,
 * INV-G3, INV-G4, INV-X1, docs/adr/0058).
 *
 * One file, because every test runs the same attempt and reads the one order of what happened.
 */
import { cancellationDetails, cancellationSignal, CompleteAsyncError, heartbeat } from '@temporalio/activity';
import {
  ActivityCancelledError,
  ActivityCompletionError,
  ActivityNotFoundError,
  ActivityPausedError,
  ActivityResetError,
} from '@temporalio/client';
import { CancelledFailure } from '@temporalio/common';
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { failureOf } from '../../../../contracts/failure.ts';
import { Undecodable } from '../../../../contracts/payload-converter.ts';
import type { StretchRecord } from '../../../../contracts/wire/stretch.ts';
import type { DispatchResult } from '../../../../contracts/wire/tools.ts';
import { EMPTY_JOURNAL, Journal } from '../../../../domain/run/journal.ts';
import { afterCalls, openedTurn, stretchRun } from '../../../../domain/run/stretch.ts';
import { resultsOf } from '../../../../domain/run/turn.ts';
import { conversation } from '../../../support/builders/message.ts';
import { askVerdict } from '../../../support/builders/judgement.ts';
import { outcomes } from '../../../support/builders/outcome.ts';
import { START } from '../../../support/builders/run.ts';
import { limits } from '../../../support/builders/run-spec.ts';
import { BUT_INTERVALS } from '../../../support/activities/clock.ts';
import { type BenchOptions, StretchBench } from '../../../support/stretch/bench.ts';
import { endedAs, stepOf, stretchedCall, stretchInput } from '../../../support/stretch/input.ts';

const { succeeded, failed, unknown } = outcomes();
const CANCELLED = new ActivityCancelledError('cancel requested');
const OVER = new ActivityNotFoundError('not found');
const AWAY = new ActivityCompletionError('deadline exceeded');
const ANSWER = stepOf(3, []);

beforeEach(() => {
  jest.useFakeTimers({ now: START, doNotFake: [...BUT_INTERVALS] });
});
afterEach(() => {
  jest.useRealTimers();
});

/** Lets happen what follows from what has happened. */
async function settle(): Promise<void> {
  for (let round = 0; round < 5; round += 1) await new Promise((resolve) => setImmediate(resolve));
}

/** A second passes, and the timed heartbeat with it. */
async function beat(): Promise<void> {
  jest.advanceTimersByTime(1_000);
  await settle();
}

/** Something that the test ends when it wants to. */
class Gate<T> {
  readonly #ended: Promise<T>;
  #settle: ((value: T | Error) => void) | undefined;

  constructor() {
    this.#ended = new Promise<T>((resolve, reject) => {
      this.#settle = (value) => (value instanceof Error ? reject(value) : resolve(value));
    });
  }

  readonly pass = async (): Promise<T> => await this.#ended;

  async open(value: T | Error): Promise<void> {
    this.#settle?.(value);
    await settle();
  }
}

const failureOfRun = async (running: Promise<unknown>): Promise<unknown> =>
  await running.then(
    () => 'nothing failed',
    (error: unknown) => error,
  );

/** Each turn of a record by the kinds of its results; `-` for a turn that did not leave. */
function told({ turns }: StretchRecord): string[] {
  return turns.map(({ calls }) =>
    calls === undefined
      ? '-'
      : calls.map(({ result }) => (result?.kind === 'ended' ? result.outcome.kind : (result?.kind ?? '?'))).join(' '),
  );
}

describe('a stretch', () => {
  test('goes on through calls that need nobody, until there is an answer', async () => {
    const bench = new StretchBench({ model: [stepOf(1, [{}, {}]), stepOf(2, [{}]), ANSWER] });
    const record = await bench.run();
    expect(bench.log).toEqual([
      'step 1',
      'record t1.c0 t1.c1',
      'taken',
      'call t1.c0',
      'call t1.c1',
      'step 2',
      'record t2.c0',
      'taken',
      'call t2.c0',
      'step 3',
    ]);
    expect(told(record)).toEqual(['succeeded succeeded', 'succeeded', '-']);
    expect(record.turns.map(({ step }) => step)).toEqual([stepOf(1, [{}, {}]), stepOf(2, [{}]), ANSWER]);
  });

  test('says when each thing happened, by the clock of its worker', async () => {
    const bench = new StretchBench({
      model: [
        () => {
          jest.setSystemTime(START + 10);
          return stepOf(1, [{}]);
        },
        ANSWER,
      ],
      server: () => {
        jest.setSystemTime(START + 30);
        return endedAs();
      },
    });
    const [first] = (await bench.run()).turns;
    expect(first).toMatchObject({ at: START + 10, calls: [{ sentAt: START + 10, endedAt: START + 30 }] });
  });

  test('sends the calls of a turn side by side: each has its own result (INV-G3)', async () => {
    const gates = [new Gate<DispatchResult>(), new Gate<DispatchResult>()];
    const bench = new StretchBench({
      model: [stepOf(1, [{}, {}]), ANSWER],
      server: async ({ callId }) => await (gates[Number(callId.at(-1))]?.pass() ?? endedAs()),
    });
    const running = bench.run();
    await settle();
    expect(bench.log.slice(-2)).toEqual(['call t1.c0', 'call t1.c1']);
    await gates[1]?.open(endedAs(failed));
    await beat();
    // What is known goes with the next heartbeat.
    expect(bench.records.map(told)).toEqual([['? ?'], ['? failed']]);
    await gates[0]?.open(endedAs());
    expect(told(await running)).toEqual(['succeeded failed', '-']);
  });

  test('stops its heartbeats with its end', async () => {
    const bench = new StretchBench({ model: [ANSWER] });
    await bench.run();
    await beat();
    expect(bench.records).toEqual([]);
  });

  test('ends with a turn that must be asked: none of its calls leaves, and none is on record (INV-G1)', async () => {
    const bench = new StretchBench({ model: [stepOf(1, [{}]), stepOf(2, [{}, { verdict: askVerdict() }])] });
    expect(told(await bench.run())).toEqual(['succeeded', '-']);
    expect(bench.log.at(-1)).toBe('step 2');
  });

  test('ends with each model step on a worker that calls no servers', async () => {
    const bench = new StretchBench({ model: [stepOf(1, [{}])], server: undefined });
    expect(told(await bench.run())).toEqual(['-']);
    expect(bench.log).toEqual(['step 1']);
  });

  test.each<[string, DispatchResult]>([
    ['may have run', endedAs(unknown)],
    ['was not sent', { kind: 'not-sent', code: 'TOOL_UNAVAILABLE', message: 'No.' }],
    ['must be asked', { kind: 'reopen', code: 'VERDICT_STRICTER', message: 'Ask.' }],
  ])('ends where a call %s: the run settles it', async (_what, result) => {
    const bench = new StretchBench({
      model: [stepOf(1, [{}, {}])],
      server: ({ callId }) => (callId === 't1.c0' ? result : endedAs()),
    });
    const { turns } = await bench.run();
    expect(turns.map(({ calls = [] }) => calls.map((call) => call.result))).toEqual([[result, endedAs()]]);
    expect(bench.log).not.toContain('step 2');
  });

  test('a dispatch that throws may have run; the others go on (INV-X1, INV-G3)', async () => {
    const bench = new StretchBench({
      model: [stepOf(1, [{}, {}, {}])],
      server: ({ callId }) => {
        if (callId === 't1.c0') throw new Error('a secret of the server');
        if (callId === 't1.c1') throw failureOf('TOOL_UNAVAILABLE', 'It is away.');
        return endedAs();
      },
    });
    const record = await bench.run();
    expect(told(record)).toEqual(['unknown unknown succeeded']);
    const [first, second] = record.turns[0]?.calls ?? [];
    expect(first?.result).toMatchObject({ outcome: { code: 'OUTCOME_UNKNOWN' } });
    expect(second?.result).toMatchObject({ outcome: { code: 'OUTCOME_UNKNOWN', message: 'It is away.' } });
    expect(JSON.stringify(record)).not.toContain('a secret');
  });
});

describe('nothing leaves before Temporal has its turn on record (INV-G1)', () => {
  test('however long the answer takes', async () => {
    const gate = new Gate<void>();
    const bench = new StretchBench({ model: [stepOf(1, [{}]), ANSWER], heartbeat: gate.pass });
    const running = bench.run();
    await settle();
    await beat();
    expect(bench.log).toEqual(['step 1', 'record t1.c0']);
    expect(bench.records.at(-1)?.turns[0]).toMatchObject({
      step: { judged: { judgements: [{ callId: 't1.c0', verdict: { kind: 'allow' } }] } },
      calls: [{ callId: 't1.c0', digest: expect.stringMatching(/^[0-9a-f]{64}$/), sentAt: START }],
    });
    await gate.open(undefined);
    expect(bench.log.slice(2, 4)).toEqual(['taken', 'call t1.c0']);
    await running;
  });

  test.each([
    ['whose fate is unknown', AWAY],
    ['that says that the run no longer wants it', CANCELLED],
    ['that says that an operator has paused it', new ActivityPausedError('paused')],
    ['that says that an operator has reset it', new ActivityResetError('reset')],
  ])('after a heartbeat %s nothing of the turn leaves, and it is returned without calls', async (_what, error) => {
    let left = 1;
    const bench = new StretchBench({
      model: [stepOf(1, [{}]), stepOf(2, [{}, {}])],
      heartbeat: () => {
        left -= 1;
        if (left < 0) throw error;
      },
    });
    const record = await bench.run();
    expect(told(record)).toEqual(['succeeded', '-']);
    expect(record.turns[1]).toEqual({ step: stepOf(2, [{}, {}]), at: START });
    expect(bench.log).toEqual(['step 1', 'record t1.c0', 'taken', 'call t1.c0', 'step 2', 'record t2.c0 t2.c1']);
  });

  test('an attempt for which Temporal no longer waits ends its step and its calls, and fails: what it says does not count', async () => {
    const signals: AbortSignal[] = [];
    const gate = new Gate<DispatchResult>();
    const bench = new StretchBench({
      model: [stepOf(1, [{}])],
      server: async () => {
        signals.push(cancellationSignal());
        return await gate.pass();
      },
      heartbeat: () => {
        if (bench.records.length > 1) throw OVER;
      },
    });
    const failure = failureOfRun(bench.run());
    await settle();
    await beat();
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
    await gate.open(endedAs());
    expect(await failure).toMatchObject({ type: 'INTERNAL', nonRetryable: false });
    expect(bench.log).not.toContain('step 2');
  });
});

describe('a model step that fails', () => {
  const refusal = failureOf('MODEL_REJECTED', 'No.');

  test('fails the stretch while nothing is on record: Temporal tries again', async () => {
    const bench = new StretchBench({ model: [refusal] });
    expect(await failureOfRun(bench.run())).toBe(refusal);
  });

  test('for good, after a turn, ends the stretch with what was done and the refusal: the model is not asked again', async () => {
    const bench = new StretchBench({ model: [stepOf(1, [{}]), refusal] });
    const result = await bench.run();
    expect(told(result)).toEqual(['succeeded']);
    expect(result.failed).toEqual({ code: 'MODEL_REJECTED', message: 'No.', facts: {} });
  });

  test.each([
    ['for a while', 'MODEL_UNAVAILABLE'],
    ['because its worker has lost the conversation', 'TRANSCRIPT_MISMATCH'],
  ] as const)(
    '%s, after a turn, ends the stretch with what was done: the next one asks the model again',
    async (_, code) => {
      const bench = new StretchBench({ model: [stepOf(1, [{}]), failureOf(code, 'Away.')] });
      const result = await bench.run();
      expect(told(result)).toEqual(['succeeded']);
      expect(result).not.toHaveProperty('failed');
    },
  );
});

describe('a stretch ends', () => {
  const many = [1, 2, 3, 4].map((turn) => stepOf(turn, [{}]));

  test('with its last turn', async () => {
    const bench = new StretchBench({ model: many });
    const bounds = { turns: 2, seconds: 60, bytes: 1_000_000 };
    expect(told(await bench.run(stretchInput({ bounds })))).toEqual(['succeeded', 'succeeded']);
  });

  test('before a step that would begin after its time; a step that has begun is not cut', async () => {
    const bench = new StretchBench({
      model: many.map((step) => () => {
        jest.advanceTimersByTime(4_000);
        return step;
      }),
    });
    const bounds = { turns: 10, seconds: 8, bytes: 1_000_000 };
    expect(told(await bench.run(stretchInput({ bounds })))).toEqual(['succeeded', 'succeeded']);
  });

  test('with a turn for which the record has no room: none of its calls leaves (INV-G1)', async () => {
    const bench = new StretchBench({
      model: [stepOf(1, [{}]), stepOf(2, [{ arguments: { text: 'x'.repeat(5_000) } }])],
    });
    const bounds = { turns: 10, seconds: 60, bytes: 5_000 };
    expect(told(await bench.run(stretchInput({ bounds })))).toEqual(['succeeded', '-']);
    expect(bench.log.filter((line) => line.startsWith('call'))).toEqual(['call t1.c0']);
  });

  test('after results that fill the record', async () => {
    const result = { content: [{ type: 'text' as const, text: 'x'.repeat(5_000) }] };
    const bench = new StretchBench({ model: many, server: () => endedAs({ ...succeeded, result }) });
    const bounds = { turns: 10, seconds: 60, bytes: 5_000 };
    expect(told(await bench.run(stretchInput({ bounds })))).toEqual(['succeeded']);
  });

  test('where a limit of the run is reached (INV-G4)', async () => {
    const bench = new StretchBench({ model: many });
    const dispatch = { decidedIn: ['run-1'], limits: limits({ tokens: 45 }) };
    // A step takes 15 tokens.
    expect(told(await bench.run(stretchInput({ dispatch })))).toEqual(['succeeded', 'succeeded', 'succeeded']);
  });
});

describe('the progress of calls under way', () => {
  const SENT = { phase: 'sent', sentAt: '2026-01-01T00:00:00.000Z' };

  test('is in the heartbeat with the record, until the call has ended; the result has none', async () => {
    const [first, second] = [new Gate<void>(), new Gate<void>()];
    const bench = new StretchBench({
      model: [stepOf(1, [{}, {}]), ANSWER],
      server: async ({ callId }) => {
        heartbeat({ phase: 'connecting', callId });
        heartbeat({ ...SENT, callId, progress: callId === 't1.c0' ? 1 : 5, total: 8, resume: 'sealed' });
        await (callId === 't1.c0' ? first : second).pass();
        return endedAs();
      },
    });
    const running = bench.run();
    await settle();
    await beat();
    const progress = [
      { callId: 't1.c0', sentAt: SENT.sentAt, progress: 1, total: 8 },
      { callId: 't1.c1', sentAt: SENT.sentAt, progress: 5, total: 8 },
    ];
    const [kept, beaten] = bench.records;
    expect(kept).not.toHaveProperty('progress');
    expect(beaten).toEqual({ ...kept, progress });
    await first.open();
    await beat();
    expect(bench.records.at(-1)).toMatchObject({ progress: progress.slice(1) });
    await second.open();
    const answer = await running;
    expect(Object.keys(answer)).toEqual(['turns']);
    expect(JSON.stringify(bench.records)).not.toContain('sealed');
  });

  test('of another call, and what is none, is not told', async () => {
    const gate = new Gate<void>();
    const bench = new StretchBench({
      model: [stepOf(1, [{}]), ANSWER],
      server: async () => {
        heartbeat({ ...SENT, callId: 't9.c9', progress: 1 });
        heartbeat({ ...SENT, callId: 't1.c0', progress: Number.POSITIVE_INFINITY });
        heartbeat('odd');
        await gate.pass();
        return endedAs();
      },
    });
    const running = bench.run();
    await settle();
    await beat();
    expect(bench.records).toHaveLength(2);
    for (const record of bench.records) expect(record).not.toHaveProperty('progress');
    await gate.open();
    await running;
  });
});

describe('a record that another attempt has left', () => {
  const left: StretchRecord = { turns: [{ step: stepOf(1, [{}]), at: START, calls: [stretchedCall()] }] };

  test('is returned: the model is not asked again, and nothing is sent', async () => {
    const bench = new StretchBench({ model: [], left });
    expect(await bench.run()).toEqual(left);
    await beat();
    expect(bench.log).toEqual([]);
  });

  test('is returned without the progress of calls that were under way: that goes into no history', async () => {
    const progress = [{ callId: 't1.c0', sentAt: '2026-01-01T00:00:00.000Z', progress: 1 }];
    const bench = new StretchBench({ model: [], left: { ...left, progress } });
    expect(await bench.run()).toEqual(left);
  });

  test.each([undefined, null, { turns: [] }])('that is empty is none: %p', async (empty) => {
    const bench = new StretchBench({ model: [ANSWER], left: empty });
    expect(told(await bench.run())).toEqual(['-']);
  });

  test('that cannot be read is another worker’s to read: calls may have left by it (INV-X1)', async () => {
    const bench = new StretchBench({ model: [], left: new Undecodable('sealed') });
    const failure = { type: 'CONFIG_INVALID', details: [{ path: 'encryption.keys' }], nonRetryable: false };
    expect(await failureOfRun(bench.run())).toMatchObject(failure);
    expect(bench.log).toEqual([]);
  });

  test.each<[string, unknown]>([
    ['that is no object', 'turns'],
    ['without turns', {}],
    ['with a call without its time', { turns: [{ ...left.turns[0], calls: [{ callId: 't1.c0' }] }] }],
  ])('%s is no worker’s: the run ends, since calls may have left by it (INV-X1)', async (_what, unread) => {
    const bench = new StretchBench({ model: [], left: unread });
    expect(await failureOfRun(bench.run())).toMatchObject({ type: 'INTERNAL', nonRetryable: true });
    expect(bench.log).toEqual([]);
  });
});

describe('a stretch that the run no longer wants', () => {
  /** A call that ends by its gate or by its cancellation. */
  function slowCall(cancelsCalls: BenchOptions['cancelsCalls']) {
    const gate = new Gate<DispatchResult>();
    const signals: AbortSignal[] = [];
    let isWanted = true;
    const bench = new StretchBench({
      model: [stepOf(1, [{}])],
      server: async () => {
        signals.push(cancellationSignal());
        return await gate.pass();
      },
      heartbeat: () => {
        if (!isWanted) throw CANCELLED;
      },
      ...(cancelsCalls === undefined ? {} : { cancelsCalls }),
    });
    const running = bench.run();
    return {
      bench,
      running,
      gate,
      isCancelled: () => signals.map(({ aborted }) => aborted),
      end: async () => {
        await settle();
        isWanted = false;
        await beat();
      },
    };
  }

  test('lets a call under way finish, has its result, and begins nothing more', async () => {
    const { bench, running, gate, isCancelled, end } = slowCall(undefined);
    await end();
    expect(isCancelled()).toEqual([false]);
    await gate.open(endedAs());
    expect(told(await running)).toEqual(['succeeded']);
    expect(bench.steps).toHaveLength(1);
  });

  test('cancels a call under way if the run says so', async () => {
    const { running, gate, isCancelled, end } = slowCall(async () => await Promise.resolve(true));
    await end();
    expect(isCancelled()).toEqual([true]);
    await gate.open(endedAs(unknown));
    expect(told(await running)).toEqual(['unknown']);
  });

  test('lets it finish if the run does not answer', async () => {
    const { running, gate, isCancelled, end } = slowCall(async () => await Promise.reject(new Error('no worker')));
    await end();
    expect(isCancelled()).toEqual([false]);
    await gate.open(endedAs());
    expect(told(await running)).toEqual(['succeeded']);
  });

  test('cancels it once the run says so: an interruption may be followed by a stop', async () => {
    let says = false;
    const { running, gate, isCancelled, end } = slowCall(async () => await Promise.resolve(says));
    await end();
    expect(isCancelled()).toEqual([false]);
    says = true;
    await beat();
    expect(isCancelled()).toEqual([true]);
    await gate.open(endedAs(unknown));
    await running;
  });

  test('asks a run that is slow to answer one question at a time', async () => {
    const asked: ((answer: boolean) => void)[] = [];
    const { running, gate, isCancelled, end } = slowCall(
      async () => await new Promise<boolean>((resolve) => asked.push(resolve)),
    );
    await end();
    for (let second = 0; second < 10; second += 1) await beat();
    expect(asked).toHaveLength(1);
    asked[0]?.(false);
    await beat();
    expect(asked).toHaveLength(2);
    asked[1]?.(true);
    await settle();
    expect(isCancelled()).toEqual([true]);
    await gate.open(endedAs(unknown));
    await running;
  });

  test('gives up a model step; what was done before is returned, and nothing if there was none', async () => {
    for (const before of [[], [stepOf(1, [{}])]]) {
      let isWanted = true;
      const bench = new StretchBench({
        model: [
          ...before,
          async () =>
            await new Promise((_, reject) => {
              cancellationSignal().addEventListener('abort', () => reject(new CancelledFailure('given up')));
            }),
        ],
        heartbeat: () => {
          if (!isWanted) throw CANCELLED;
        },
      });
      const running = bench.run();
      await settle();
      isWanted = false;
      await beat();
      expect(told(await running)).toEqual(before.map(() => 'succeeded'));
    }
  });

  test('takes an answer that came all the same, and none of its calls leaves', async () => {
    const gate = new Gate<ReturnType<typeof stepOf>>();
    const bench = new StretchBench({
      model: [gate.pass],
      heartbeat: () => {
        throw CANCELLED;
      },
    });
    const running = bench.run();
    await settle();
    await beat();
    await gate.open(stepOf(1, [{}]));
    expect(told(await running)).toEqual(['-']);
    expect(bench.log).not.toContain('call t1.c0');
  });
});

describe('a worker that shuts down', () => {
  test('gives up the model step, and the attempt fails while nothing is on record', async () => {
    const bench = new StretchBench({
      model: [
        async () =>
          await new Promise((_, reject) => {
            const signal = cancellationSignal();
            signal.addEventListener('abort', () => reject(signal.reason as Error));
          }),
      ],
    });
    const failure = failureOfRun(bench.run());
    await settle();
    bench.shutDown();
    expect(await failure).toBeInstanceOf(CancelledFailure);
  });

  test('ends its calls, which know that it shuts down, and begins nothing more', async () => {
    const bench = new StretchBench({
      model: [stepOf(1, [{}])],
      server: async () => {
        const signal = cancellationSignal();
        await new Promise<void>((resolve) => {
          signal.addEventListener('abort', () => resolve());
        });
        expect(cancellationDetails()).toMatchObject({ workerShutdown: true });
        return endedAs();
      },
    });
    const running = bench.run();
    await settle();
    bench.shutDown();
    expect(told(await running)).toEqual(['succeeded']);
  });

  test('sends no call of a turn that was not on record before', async () => {
    const gate = new Gate<void>();
    const bench = new StretchBench({ model: [stepOf(1, [{}])], heartbeat: gate.pass });
    const running = bench.run();
    await settle();
    bench.shutDown();
    await gate.open(undefined);
    expect(told(await running)).toEqual(['-']);
    expect(bench.log).toEqual(['step 1', 'record t1.c0', 'taken']);
  });

  test('begins nothing if it shut down before', async () => {
    const signals: boolean[] = [];
    const bench = new StretchBench({
      model: [
        () => {
          signals.push(cancellationSignal().aborted);
          throw new CancelledFailure('given up');
        },
      ],
    });
    bench.shutDown();
    expect(await failureOfRun(bench.run())).toBeInstanceOf(CancelledFailure);
    expect(signals).toEqual([true]);
  });
});

describe('an attempt that the SDK takes for over, though Temporal does not', () => {
  const slow = () => {
    const gate = new Gate<DispatchResult>();
    return { gate, model: [stepOf(1, [{}]), ANSWER], server: gate.pass };
  };

  test('goes on, and completes by the client of its heartbeats', async () => {
    const { gate, ...options } = slow();
    const bench = new StretchBench(options);
    const failure = failureOfRun(bench.run());
    await settle();
    bench.takeForOver();
    await gate.open(endedAs());
    expect(await failure).toBeInstanceOf(CompleteAsyncError);
    expect(bench.completed.map(told)).toEqual([['succeeded', '-']]);
  });

  test('fails by that client, too: else the run would ask a model that refuses again and again', async () => {
    const gate = new Gate<ReturnType<typeof stepOf>>();
    const bench = new StretchBench({ model: [gate.pass] });
    const failure = failureOfRun(bench.run());
    await settle();
    bench.takeForOver();
    const refusal = failureOf('MODEL_REJECTED', 'No.');
    await gate.open(refusal);
    expect(await failure).toBeInstanceOf(CompleteAsyncError);
    expect(bench.failed).toEqual([refusal]);
    expect(bench.completed).toEqual([]);
  });

  test('fails if it cannot complete: the run takes its last record', async () => {
    const { gate, ...options } = slow();
    const complete = () => {
      throw AWAY;
    };
    const bench = new StretchBench({ ...options, complete });
    const failure = failureOfRun(bench.run());
    await settle();
    bench.takeForOver();
    await gate.open(endedAs());
    expect(await failure).toMatchObject({ type: 'INTERNAL', nonRetryable: false });
    expect(bench.failed).toEqual([]);
  });

  test('one that is over for Temporal, too, says nothing more', async () => {
    const { gate, ...options } = slow();
    const bench = new StretchBench({
      ...options,
      heartbeat: () => {
        if (bench.records.length > 1) throw OVER;
      },
    });
    const failure = failureOfRun(bench.run());
    await settle();
    bench.takeForOver();
    await beat();
    await gate.open(endedAs());
    expect(await failure).toMatchObject({ type: 'INTERNAL', nonRetryable: false });
    expect([bench.completed, bench.failed]).toEqual([[], []]);
  });
});

describe('the conversation of each step', () => {
  test('is what the run will have recorded, by length, digest and text', async () => {
    const opening = conversation();
    const journal = new Journal(EMPTY_JOURNAL);
    const seen = { length: journal.transcriptLength, digest: journal.transcriptDigest };
    for (const message of opening) journal.append(message);
    const base = stretchInput();
    const input = { ...base, step: { ...base.step, base: seen, tail: opening } };
    const bench = new StretchBench({
      model: [stepOf(1, [{}, { arguments: { path: 'b' } }]), stepOf(2, [{}]), stepOf(3, [])],
      server: ({ callId }) => endedAs(callId === 't1.c1' ? failed : succeeded),
    });
    const record = await bench.run(input);

    let run = stretchRun(input.state);
    for (const [index, { step, at, calls = [] }] of record.turns.entries()) {
      const given = bench.steps[index];
      expect(given).toMatchObject({
        turn: index + 1,
        base: { length: journal.transcriptLength - (given?.tail.length ?? 0) },
      });
      expect(journal.messages(given?.base.length ?? 0, journal.transcriptLength)).toEqual(given?.tail);
      const rebuilt = new Journal({
        ...EMPTY_JOURNAL,
        transcriptLength: given?.base.length ?? 0,
        transcriptDigest: given?.base.digest ?? '',
      });
      for (const message of given?.tail ?? []) rebuilt.append(message);
      expect(rebuilt.transcriptDigest).toBe(journal.transcriptDigest);

      journal.append({ role: 'assistant', parts: [...step.parts] });
      run = afterCalls(openedTurn({ ...run, calls: [] }, step, input, at), calls);
      journal.append({ role: 'tool', results: resultsOf(run) });
    }
    expect(bench.steps).toHaveLength(3);
  });

  test('counts the calls before it, if a policy rule reads them', async () => {
    const base = stretchInput();
    const input = { ...base, step: { ...base.step, earlier: { tools: {} } } };
    const bench = new StretchBench({ model: [stepOf(1, [{}, {}]), ANSWER] });
    await bench.run(input);
    expect(bench.steps.map(({ earlier }) => earlier)).toEqual([
      { tools: {} },
      { tools: { 'files/write_file': { succeeded: 2 } } },
    ]);
    const without = new StretchBench({ model: [stepOf(1, [{}]), ANSWER] });
    await without.run();
    expect(without.steps.map((step) => 'earlier' in step)).toEqual([false, false]);
  });
});

test('heartbeats of its steps and calls do not replace its record', async () => {
  const beats: unknown[] = [];
  const bench = new StretchBench({
    model: [
      () => {
        heartbeat('a step');
        return stepOf(1, [{}]);
      },
      ANSWER,
    ],
    server: () => {
      heartbeat({ sentAt: 'now' });
      return endedAs();
    },
  });
  bench.environment.on('heartbeat', (details: unknown) => beats.push(details));
  await bench.run();
  expect(beats).toEqual([]);
});
