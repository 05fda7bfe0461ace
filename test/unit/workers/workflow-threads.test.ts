/** A workflow thread is ended if it has work and gives no answer in so many looks, and only then (docs/adr/0064). */
import { EventEmitter } from 'node:events';
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { untimeThreads } from '../../../workers/workflow-threads.ts';

const PATIENCE = { lookMs: 1_000, looks: 3 };

beforeEach(() => void jest.useFakeTimers());
afterEach(() => void jest.useRealTimers());

type Creators = Parameters<typeof untimeThreads>[0] & object;

/** A creator of one thread, which answers when the test says so. */
async function madeThread() {
  const answers: (() => void)[] = [];
  const log = { error: jest.fn<(message: string, meta: object) => void>() };
  const workerThread = Object.assign(new EventEmitter(), { terminate: jest.fn() });
  const client = {
    workerThread,
    send: async (_: { readonly runId: string }): Promise<void> => {
      await new Promise<void>((answered) => {
        answers.push(answered);
      });
    },
  };
  const made: unknown[] = [];
  const create = async (options: unknown) => {
    made.push(options);
    return { workerThreadClients: [client] };
  };
  // Sound: these fields alone are used.
  const creators = { create } as unknown as Creators;
  untimeThreads(creators, PATIENCE);
  untimeThreads(creators, PATIENCE);
  // Sound: as above.
  await creators.create({ isolateExecutionTimeoutMs: 5_000, logger: log } as unknown as Parameters<
    Creators['create']
  >[0]);
  return { client, answers, log, workerThread, made };
}

test('the limit is taken away, once', async () => {
  const { made } = await madeThread();
  expect(made).toEqual([expect.objectContaining({ isolateExecutionTimeoutMs: undefined })]);
});

test('without work it may be silent for ever', async () => {
  const { workerThread } = await madeThread();
  jest.advanceTimersByTime(100_000);
  expect(workerThread.terminate).not.toHaveBeenCalled();
});

test('with work it is ended at the last look, and the log says so; later looks do nothing', async () => {
  const { client, workerThread, log } = await madeThread();
  void client.send({ runId: 'run-a' });
  jest.advanceTimersByTime(2_999);
  expect(workerThread.terminate).not.toHaveBeenCalled();
  jest.advanceTimersByTime(100_000);
  expect(workerThread.terminate).toHaveBeenCalledTimes(1);
  const told = [expect.stringContaining('has not answered for 3 s'), { temporalRunId: 'run-a' }];
  expect(log.error.mock.calls).toEqual([told]);
});

test('each answer begins the count anew', async () => {
  const { client, answers, workerThread } = await madeThread();
  const first = client.send({ runId: 'run-0' });
  void client.send({ runId: 'run-a' });
  jest.advanceTimersByTime(2_999);
  answers[0]?.();
  await first;
  jest.advanceTimersByTime(2_000);
  expect(workerThread.terminate).not.toHaveBeenCalled();
  jest.advanceTimersByTime(1);
  expect(workerThread.terminate).toHaveBeenCalledTimes(1);
});

test('a thread that has ended is looked at no more', async () => {
  const { client, workerThread } = await madeThread();
  void client.send({ runId: 'run-a' });
  workerThread.emit('exit', 0);
  expect(jest.getTimerCount()).toBe(0);
});
