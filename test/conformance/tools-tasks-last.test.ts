/**
 * The end of a task: its result, which is asked for until it is had or cannot be, and the last question about it, which has as many
 * tries as Temporal gives it (INV-D3, INV-X1; ADR 0041).
 */
import type { ServerResponse } from 'node:http';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { DispatchResult } from '../../contracts/wire/tools.ts';
import type { PollResult } from '../../contracts/wire/legacy-2025.ts';
import { type TaskBench, taskBench } from '../support/activities/tasks.ts';
import { startTaskServer, type TaskScript, type TaskServer } from '../support/servers/task-server.ts';
import { until } from '../support/until.ts';

const FIRST = { attempt: 1 };
const SECOND = { attempt: 2 };
const LAST = { attempt: 3 };
const SUCCEEDED = { kind: 'ended', outcome: { kind: 'succeeded' } };
const working = { get: () => ({ status: 'working' }) };

let server: TaskServer;
let bench: TaskBench;
let begun: DispatchResult;
beforeEach(async () => {
  server = await startTaskServer();
  bench = await taskBench(server);
  begun = await bench.dispatch();
});
afterEach(async () => server.close());

const methods = (): readonly string[] => server.asked.map(({ method }) => method);

/** Of a completed task, as it is not had. */
function notHad(why: RegExp): object {
  const message = expect.stringMatching(new RegExp(`has completed, as its server says.*${why.source}`));
  return { kind: 'ended', outcome: { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message } };
}

/** Answers the first of these with a status, or all. */
function refusing(method: string, status: number, times = 1, headers: Record<string, string> = {}): TaskScript {
  let left = times;
  return {
    intercept: (asked, response) =>
      asked === method && left-- > 0 && (response.writeHead(status, headers).end('deploying'), true),
  };
}

/** Asks, and stops the worker in the middle of this question. */
async function stoppedIn(method: string, giveUp: 'withdrawn' | 'time' | undefined, script: TaskScript): Promise<void> {
  let held: ServerResponse | undefined;
  server.become({ ...script, intercept: (asked, response) => asked === method && ((held = response), true) });
  const going = bench.polling(begun, giveUp === undefined ? {} : { giveUp }, FIRST);
  await until(() => held, { what: `the question ${method}` });
  going.shutDown();
  await expect(going.result).rejects.toMatchObject({ name: 'CancelledFailure' });
  expect(methods()).not.toContain('DELETE');
  server.become(script);
}

describe('the result of a task that has completed', () => {
  const failing = (code: number, times = 1): Pick<TaskScript, 'result'> => {
    let left = times;
    const dug = { result: { content: [{ type: 'text', text: 'dug' }] } };
    return { result: () => (left-- > 0 ? { error: { code, message: 'store is starting' } } : dug) };
  };

  test('is asked for again after an error that may pass; its session is kept for that', async () => {
    server.become(failing(-32_603));
    expect(await bench.poll(begun)).toEqual({
      kind: 'unreached',
      message: 'the server could not be asked: it is completed, but: JSON-RPC error -32603: store is starting',
    });
    expect(methods()).not.toContain('DELETE');
    expect(await bench.poll(begun)).toMatchObject(SUCCEEDED);
    expect(methods().at(-1)).toBe('DELETE');
  });

  test('INV-X1: is no success where the server knows it no more: whether it was one, nobody has heard', async () => {
    server.become(failing(-32_602));
    expect(await bench.poll(begun)).toMatchObject(notHad(/-32602: store is starting.*Find out at the server/));
    expect(methods().at(-1)).toBe('DELETE');
  });

  test('nor where its session is gone', async () => {
    server.become(refusing('tasks/result', 404));
    expect(await bench.poll(begun)).toMatchObject(notHad(/session/));
  });

  test('of one that has failed, an error is the result', async () => {
    server.become({ ...failing(-32_603), get: () => ({ status: 'failed', statusMessage: 'rock' }) });
    expect(await bench.poll(begun)).toMatchObject({
      outcome: { kind: 'failed', executed: true, message: 'rock; JSON-RPC error -32603: store is starting' },
    });
  });
});

describe('the last question', () => {
  test.each<[string, TaskScript, string, string]>([
    [
      'a result that is away for a moment',
      refusing('tasks/result', 503),
      'it is completed, but: HTTP 503',
      'succeeded',
    ],
    [
      'one of a task that has failed',
      { ...refusing('tasks/result', 503), get: () => ({ status: 'failed' }) },
      'it is failed, but: HTTP 503',
      'failed',
    ],
    ['a server that is away itself', refusing('tasks/get', 503), 'HTTP 503', 'succeeded'],
    [
      'an answer to its cancellation that is lost',
      { ...working, ...refusing('tasks/cancel', 502) },
      'HTTP 502',
      'unknown',
    ],
  ])('is tried again after %s', async (_, script, text, kind) => {
    server.become(script);
    await expect(bench.poll(begun, { giveUp: 'time' }, FIRST)).rejects.toMatchObject({
      type: 'TOOL_UNAVAILABLE',
      nonRetryable: false,
      message: expect.stringContaining(text),
    });
    expect(methods()).not.toContain('DELETE');
    expect(await bench.poll(begun, { giveUp: 'time' }, SECOND)).toMatchObject({ kind: 'ended', outcome: { kind } });
    expect(methods().at(-1)).toBe('DELETE');
  });

  test('is tried again where the server did not cancel, and then could not say why', async () => {
    let looks = 0;
    server.become({
      get: () => ({ status: looks > 2 ? 'completed' : 'working' }),
      cancel: () => undefined,
      intercept: (method, response) =>
        method === 'tasks/get' && (looks += 1) === 2 && (response.writeHead(503).end(), true),
    });
    await expect(bench.poll(begun, { giveUp: 'time' }, FIRST)).rejects.toMatchObject({ type: 'TOOL_UNAVAILABLE' });
    expect(await bench.poll(begun, { giveUp: 'time' }, SECOND)).toMatchObject(SUCCEEDED);
  });

  test('waits before that as long as the server says', async () => {
    server.become(refusing('tasks/result', 503, 1, { 'retry-after': '7' }));
    await expect(bench.poll(begun, { giveUp: 'time' }, FIRST)).rejects.toMatchObject({ nextRetryDelay: 7_000 });
  });

  test.each<[string, TaskScript, object]>([
    ['it completed', {}, notHad(/its time is over; HTTP 503/)],
    [
      'it failed',
      { get: () => ({ status: 'failed' }) },
      { outcome: { kind: 'failed', executed: true, message: expect.stringContaining('HTTP 503') } },
    ],
  ])('is over with its last try: %s, and that is all that is known', async (_, script, outcome) => {
    server.become({ ...refusing('tasks/result', 503), ...script });
    expect(await bench.poll(begun, { giveUp: 'time' }, LAST)).toMatchObject(outcome);
    expect(methods().at(-1)).toBe('DELETE');
  });

  test('is over where another try would have no time', async () => {
    server.become(refusing('tasks/result', 503));
    const late = { ...FIRST, scheduledAt: Date.now() - 230_000 };
    expect(await bench.poll(begun, { giveUp: 'time' }, late)).toMatchObject(notHad(/HTTP 503/));
  });

  test('of a worker that is stopped as it reads the result: the next one has it', async () => {
    await stoppedIn('tasks/result', 'withdrawn', {});
    expect(await bench.poll(begun, { giveUp: 'withdrawn' }, SECOND)).toMatchObject(SUCCEEDED);
  });

  test.each(['tasks/get', 'tasks/cancel'])(
    'of one that is stopped in %s: the next one has it cancelled',
    async (method) => {
      await stoppedIn(method, 'withdrawn', working);
      const said = { kind: 'unknown', message: expect.stringContaining('says that it is cancelled') };
      expect(await bench.poll(begun, { giveUp: 'withdrawn' }, SECOND)).toMatchObject({ outcome: said });
      expect(server.tasks[0]?.cancelled).toBe(true);
      expect(methods().slice(-2)).toEqual(['tasks/cancel', 'DELETE']);
    },
  );

  test('a question that is not the last is asked again at once, too', async () => {
    await stoppedIn('tasks/get', undefined, {});
    expect(await bench.poll(begun, {}, SECOND)).toMatchObject(SUCCEEDED);
  });

  test.each(['tasks/get', 'tasks/result', 'tasks/cancel'])(
    'a token that is refused for %s is replaced once',
    async (at) => {
      server.become({
        ...(at === 'tasks/cancel' ? working : {}),
        intercept: (method, response, { headers }) =>
          method === at && headers.authorization === 'Bearer token-of-mint-2' && (response.writeHead(401).end(), true),
      });
      const kind = at === 'tasks/cancel' ? 'unknown' : 'succeeded';
      expect(await bench.poll(begun, { giveUp: 'time' }, LAST)).toMatchObject({ outcome: { kind } });
      expect(bench.minted.at(-1)?.request.refused).toBe('token-of-mint-2');
      expect(server.tasks[0]?.cancelled).toBe(at === 'tasks/cancel');
      expect(methods().at(-1)).toBe('DELETE');
    },
  );
});

describe('a task that was over when it was to be cancelled, as the answer says', () => {
  test.each([
    ['completed', 'succeeded'],
    ['failed', 'failed'],
  ])('%s: it has its result', async (status, kind) => {
    server.become({ ...working, cancel: () => ({ status }) });
    const result: PollResult = await bench.poll(begun, { giveUp: 'withdrawn' });
    expect(result).toMatchObject({ kind: 'ended', outcome: { kind } });
    expect(JSON.stringify(result)).toContain('dug');
    expect(methods().slice(-3)).toEqual(['tasks/cancel', 'tasks/result', 'DELETE']);
  });
});
