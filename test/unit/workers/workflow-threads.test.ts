/** A workflow thread is ended if it has work and gives no answer in so many looks, and only then (docs/adr/0064). */
import { EventEmitter } from 'node:events';
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { endIfSilent, type MadeThread } from '../../../workers/workflow-threads.ts';

const PATIENCE = { lookMs: 1_000, looks: 3 };

beforeEach(() => void jest.useFakeTimers());
afterEach(() => void jest.useRealTimers());

/** A thread, which answers when the test says so. */
function madeThread() {
  const answers: (() => void)[] = [];
  const log = { error: jest.fn<(message: string, meta: object) => void>() };
  const workerThread = Object.assign(new EventEmitter(), { terminate: jest.fn(async () => 0) });
  const client = {
    send: async (_: { readonly runId: string }): Promise<void> => {
      await new Promise<void>((answered) => {
        answers.push(answered);
      });
    },
  };
  // Sound: these parts alone are used.
  endIfSilent({ thread: workerThread, client } as unknown as MadeThread, PATIENCE, log);
  return { client, answers, log, workerThread };
}

test('without work it may be silent for ever', () => {
  const { workerThread } = madeThread();
  jest.advanceTimersByTime(100_000);
  expect(workerThread.terminate).not.toHaveBeenCalled();
});

test('with work it is ended at the last look, and the log says so; later looks do nothing', () => {
  const { client, workerThread, log } = madeThread();
  void client.send({ runId: 'run-a' });
  jest.advanceTimersByTime(2_999);
  expect(workerThread.terminate).not.toHaveBeenCalled();
  jest.advanceTimersByTime(100_000);
  expect(workerThread.terminate).toHaveBeenCalledTimes(1);
  const told = [expect.stringContaining('has not answered for 3 s'), { temporalRunId: 'run-a' }];
  expect(log.error.mock.calls).toEqual([told]);
});

test('each answer begins the count anew', async () => {
  const { client, answers, workerThread } = madeThread();
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

test('a thread that has ended is looked at no more', () => {
  const { client, workerThread } = madeThread();
  void client.send({ runId: 'run-a' });
  workerThread.emit('exit', 0);
  expect(jest.getTimerCount()).toBe(0);
});
