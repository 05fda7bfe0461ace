/**
 * A task through the two activities that a run calls, on a server that keeps no rule: which token goes where, what may
 * pass and what may not, how often it was begun, and how it ends (INV-D3, INV-X1, INV-S1, INV-S2; ADR 0041).
 * One file, because a task is followed from its beginning to its end.
 */
import { randomBytes } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { createMemoryStore } from '../../activities/artifacts/memory.ts';
import type { ArtifactStore } from '../../activities/artifacts/port.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { PollResult } from '../../contracts/wire/legacy-2025.ts';
import type { DispatchInput, DispatchResult } from '../../contracts/wire/tools.ts';
import { type TaskBench, taskBench } from '../support/activities/tasks.ts';
import { RUN } from '../support/activities/tool-activities.ts';
import { startTaskServer, type TaskScript, type TaskServer } from '../support/servers/task-server.ts';
import { until } from '../support/until.ts';

let server: TaskServer;
beforeEach(async () => void (server = await startTaskServer()));
afterEach(async () => server.close());

test('a tool that its server shows only to clients that can be asked is begun as a task, where the operator says that they can', async () => {
  server.become({ asks: true });
  expect(await (await taskBench(server)).dispatch()).toMatchObject({
    outcome: { kind: 'failed', code: 'TOOL_UNKNOWN' },
  });
  const { dispatch, poll } = await taskBench(server, { asks: true });
  expect(await poll(await dispatch())).toMatchObject({ outcome: { kind: 'succeeded' } });
});

describe('a task is begun nowhere', () => {
  test.each([
    ['for a run that does not wait for any', { tasks: undefined }, undefined, 'configure `tasks`'],
    ['by a worker that can seal nothing', {}, 'none', 'grants.keys'],
  ] as const)('%s: nothing is sent, and it says so', async (_, over, sealing, text) => {
    const { dispatch, minted } = await taskBench(server, { sealing });
    // Sound: an absent field and an undefined one read the same.
    expect(await dispatch(over as Partial<DispatchInput>)).toMatchObject({
      kind: 'ended',
      outcome: { kind: 'failed', executed: false, code: 'TOOL_REFUSED', message: expect.stringContaining(text) },
    });
    expect(minted).toEqual([]);
    expect(server.asked).toEqual([]);
  });

  test('where its server takes none any more', async () => {
    server.become({ capabilities: { tools: {} } });
    const { dispatch } = await taskBench(server);
    expect(await dispatch()).toMatchObject({
      outcome: {
        kind: 'failed',
        executed: false,
        code: 'TOOL_REFUSED',
        message: expect.stringContaining('takes no tasks'),
      },
    });
    expect(server.calls).toEqual([]);
  });
});

test('a result that is read while its question is withdrawn does not take the session with it: whoever asks next has it', async () => {
  const store = createMemoryStore();
  let withdraw = (): void => {};
  const artifacts: ArtifactStore = {
    ...store,
    put: async (...given) => {
      withdraw();
      return await store.put(...given);
    },
  };
  const { dispatch, polling, poll } = await taskBench(server, { artifacts });
  const begun = await dispatch();
  const image = { type: 'image', mimeType: 'image/png', data: Buffer.from('png').toString('base64') };
  server.become({ result: () => ({ result: { content: [image] } }) });
  const first = polling(begun);
  withdraw = () => first.shutDown();
  await first.result.catch(() => undefined);
  const methods = (): string[] => server.asked.map(({ method }) => method);
  expect(methods().at(-1)).toBe('tasks/result');
  withdraw = () => {};
  expect(await poll(begun, { giveUp: 'withdrawn' })).toMatchObject({ outcome: { kind: 'succeeded' } });
  expect(methods().at(-1)).toBe('DELETE');
});

/** A new one each time, as of no other. */
const mints = (_request: unknown, count: number): string => `${count}-${randomBytes(16).toString('hex')}`;

/** Whatever it was ever sent. */
function telling(heard: readonly string[]) {
  return { result: { content: [{ type: 'text', text: `called with ${heard.join(' and ')}` }] } };
}

test('what becomes of a task: the tokens of the list before the call, of the refused call and of the call', async () => {
  const list = 'token-of-the-list';
  const listedWith = { secrets: [list, 'client-secret'], shown: [list] };
  const { dispatch, poll, minted } = await taskBench(server, { mints, listedWith });
  const heard: string[] = [list];
  server.become({
    intercept: (method, response, { headers: { authorization = '' } }) => {
      if (method !== 'tools/call') return false;
      heard.push(authorization);
      return heard.length === 2 && (response.writeHead(401).end(), true);
    },
    result: () => telling(heard),
    get: () => ({ status: 'completed', statusMessage: heard.at(-1) }),
  });
  const begun = await dispatch();
  expect(heard.slice(1)).toEqual(minted.map(({ token }) => `Bearer ${token}`));
  expect(heard).toHaveLength(3);
  const ended = await poll(begun);
  expect(minted).toHaveLength(3);
  expect(ended).toMatchObject({ outcome: { kind: 'succeeded' } });
  const text = JSON.stringify([begun, ended]);
  expect(text).toContain('called with [redacted] and');
  for (const secret of [list, ...minted.map(({ token }) => token)]) expect(text).not.toContain(secret);
});

test('a result keeps its numbers, also if one is the id of its task', async () => {
  const { dispatch, poll } = await taskBench(server);
  const text = 'order 1042 was refunded: $1042.00';
  server.become({ taskId: '1042', result: () => ({ result: { content: [{ type: 'text', text }] } }) });
  const ended = await poll(await dispatch());
  expect(ended).toMatchObject({ outcome: { kind: 'succeeded', result: { content: [{ text }] } } });
});

describe('a task that was begun', () => {
  const FIRST = { attempt: 1 };
  const SECOND = { attempt: 2 };
  const LAST = { attempt: 3 };
  const SUCCEEDED = { kind: 'ended', outcome: { kind: 'succeeded' } };
  const working = { get: () => ({ status: 'working' }) };

  let bench: TaskBench;
  let begun: DispatchResult;
  beforeEach(async () => {
    bench = await taskBench(server);
    begun = await bench.dispatch();
  });

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
  async function stoppedIn(
    method: string,
    giveUp: 'withdrawn' | 'time' | undefined,
    script: TaskScript,
  ): Promise<void> {
    let held: ServerResponse | undefined;
    server.become({ ...script, intercept: (asked, response) => asked === method && ((held = response), true) });
    const going = bench.polling(begun, giveUp === undefined ? {} : { giveUp }, FIRST);
    await until(() => held, { what: `the question ${method}` });
    going.shutDown();
    await expect(going.result).rejects.toMatchObject({ name: 'CancelledFailure' });
    expect(methods()).not.toContain('DELETE');
    server.become(script);
  }

  test('INV-X1: it is begun once, and what it comes to is told without its ids', async () => {
    const { minted } = bench;
    expect(begun).toMatchObject({ kind: 'task', task: { pollMs: 10 }, token: { strategy: 'given' } });
    server.become({ get: ({ polls }) => ({ status: polls > 1 ? 'completed' : 'working', statusMessage: 'digging' }) });
    expect(await bench.poll(begun)).toEqual({ kind: 'working', message: 'digging' });
    expect(await bench.poll(begun)).toMatchObject({ kind: 'ended', outcome: { kind: 'succeeded' } });
    expect(server.calls).toHaveLength(1);
    expect(server.calls[0]).toMatchObject({
      task: { ttl: 620_000 },
      _meta: { 'countersign/idempotency-key': expect.stringMatching(/^conformance\/t1\.c0\/[0-9a-f]{16}$/) },
    });
    // INV-S2: a token for each, and only that of the call says which call it is.
    expect(minted.map(({ request: { tool, call } }) => [tool, call?.callId])).toEqual([
      ['dig', 't1.c0'],
      ['dig', undefined],
      ['dig', undefined],
    ]);
    const [task] = server.tasks;
    expect(JSON.stringify(begun)).not.toContain(task?.id);
    expect(JSON.stringify(begun)).not.toContain(task?.session);
  });

  describe('what may pass', () => {
    test.each([
      ['a server that answers 503', 503, 'HTTP 503'],
      ['one that wants nothing to do with it for now', 429, 'HTTP 429'],
      ['one whose proxy knows it not', 400, 'HTTP 400'],
    ])('%s', async (_, status, text) => {
      server.become({
        intercept: (method, response) =>
          method === 'tasks/get' && (response.writeHead(status, { 'retry-after': '7' }).end('busy'), true),
      });
      expect(await bench.poll(begun)).toEqual({
        kind: 'unreached',
        message: expect.stringContaining(text),
        retryAfterMs: 7_000,
      });
      server.become({});
      expect(await bench.poll(begun)).toMatchObject({ outcome: { kind: 'succeeded' } });
    });

    test.each([
      ['a connection that breaks', 'tasks/get'],
      ['a result that breaks off', 'tasks/result'],
    ])('%s', async (_, broken) => {
      server.become({
        intercept: (method, _response, request) => method === broken && (request.socket.resetAndDestroy(), true),
      });
      expect(await bench.poll(begun)).toMatchObject({ kind: 'unreached' });
      server.become({});
      expect(await bench.poll(begun)).toMatchObject({ outcome: { kind: 'succeeded' } });
    });

    test('an error of JSON-RPC that is not about its id', async () => {
      const id = server.tasks[0]?.id ?? '';
      const error = { code: -32_603, message: `busy with ${id}` };
      server.become({
        intercept: (method, response, _request, asked) =>
          method === 'tasks/get' &&
          (response
            .writeHead(200, { 'content-type': 'application/json' })
            .end(JSON.stringify({ jsonrpc: '2.0', id: asked, error })),
          true),
      });
      expect(await bench.poll(begun)).toEqual({
        kind: 'unreached',
        message: 'the server could not be asked: JSON-RPC error -32603: busy with [redacted]',
      });
    });

    test('a token that is not taken: a fresh one, once', async () => {
      const { minted } = bench;
      const refused: string[] = [];
      server.become({
        intercept: (method, response, { headers }) => {
          if (method !== 'tasks/get' || headers.authorization !== 'Bearer token-of-mint-2') return false;
          refused.push(headers.authorization);
          response.writeHead(401).end();
          return true;
        },
      });
      expect(await bench.poll(begun)).toMatchObject({ outcome: { kind: 'succeeded' } });
      expect(refused).toHaveLength(1);
      expect(minted.at(-1)?.request.refused).toBe('token-of-mint-2');
      // None that is as good: that is all.
      server.become({
        intercept: (method, response) => method === 'tasks/get' && (response.writeHead(401).end(), true),
      });
      expect(await bench.poll(begun)).toMatchObject({ kind: 'unreached' });
    });

    test('no token at all, or no key that opens it', async () => {
      let isOut = false;
      const { dispatch, poll } = await taskBench(server, {
        mints: (_, count) => {
          if (isOut) throw new CountersignError('TOKEN_UNAVAILABLE', 'The issuer is away.', { retryAfterMs: 3_000 });
          return `token-${count}`;
        },
      });
      const task = await dispatch();
      isOut = true;
      expect(await poll(task)).toMatchObject({
        kind: 'unreached',
        message: expect.stringContaining('away'),
        retryAfterMs: 3_000,
      });
      const { poll: keyless } = await taskBench(server, { sealing: 'none' });
      expect(await keyless(task)).toMatchObject({ kind: 'unreached', message: expect.stringContaining('grants.keys') });
    });
  });

  describe('what nobody waits for any longer', () => {
    test('is asked to be cancelled, and what the server said of it stands in the outcome', async () => {
      server.become({ get: () => ({ status: 'working' }) });
      expect(await bench.poll(begun, { giveUp: 'withdrawn' })).toMatchObject({
        kind: 'ended',
        outcome: { kind: 'unknown', message: expect.stringMatching(/run ended before it.*says that it is cancelled/) },
      });
      expect(server.asked.slice(-3).map(({ method }) => method)).toEqual(['tasks/get', 'tasks/cancel', 'DELETE']);
    });

    test('has its result where it ended in the very moment in which it was to be cancelled', async () => {
      server.become({ get: ({ polls }) => ({ status: polls > 1 ? 'completed' : 'working' }), cancel: () => undefined });
      expect(await bench.poll(begun, { giveUp: 'time' })).toMatchObject({ outcome: { kind: 'succeeded' } });
    });

    test.each([
      ['refuses', { get: () => ({ status: 'working' }), cancel: () => undefined }, 'did not say that it did'],
      ['makes nothing of it', { get: () => ({ status: 'working' }), cancel: () => ({ status: 1 }) }, 'did not say'],
      [
        'is away',
        {
          intercept: (_method: string, response: { writeHead(code: number): { end(): void } }) => (
            response.writeHead(502).end(),
            true
          ),
        },
        'could not be asked to cancel it: HTTP 502',
      ],
    ])('is not known where the server %s', async (_, script, text) => {
      server.become(script);
      expect(await bench.poll(begun, { giveUp: 'time' })).toMatchObject({
        outcome: { kind: 'unknown', message: expect.stringContaining(text) },
      });
    });
  });

  describe('a result that is larger than this service reads (INV-X2)', () => {
    const huge = 'x'.repeat(33 * 1024 * 1024);
    const large = { result: () => ({ result: { content: [{ type: 'text', text: huge }] } }) };

    test.each([
      ['completed', { kind: 'unknown', message: expect.stringContaining('larger') }],
      ['failed', { kind: 'failed', executed: true, message: expect.stringContaining('larger') }],
    ])('in a stream, where it need not have been the result, of a task that has %s', async (status, outcome) => {
      server.become({ ...large, streams: true, get: () => ({ status }) });
      expect(await bench.poll(begun)).toMatchObject({ kind: 'ended', outcome });
    });

    test.each([
      ['completed', { kind: 'unknown', message: expect.stringContaining('larger') }],
      ['failed', { kind: 'failed', executed: true, message: expect.stringContaining('larger') }],
    ])('of a task that has %s', async (status, outcome) => {
      server.become({ ...large, get: () => ({ status }) });
      expect(await bench.poll(begun)).toMatchObject({ kind: 'ended', outcome });
    });

    test('nor is the page of a proxy one', async () => {
      server.become({
        intercept: (method, response) => method === 'tasks/result' && (response.writeHead(502).end(huge), true),
      });
      expect(await bench.poll(begun)).toMatchObject({
        kind: 'unreached',
        message: expect.stringContaining('HTTP 502'),
      });
      server.become({});
      expect(await bench.poll(begun)).toMatchObject({ outcome: { kind: 'succeeded' } });
    });
  });

  test('INV-G1: is told of to nobody else who asks', async () => {
    await expect(bench.poll(begun, { run: { ...RUN, workflowId: 'other' } })).rejects.toMatchObject({
      code: 'DISPATCH_FORBIDDEN',
    });
    const before = server.asked.length;
    expect(await bench.poll(begun, { callId: 't1.c1' })).toMatchObject({ kind: 'unreached' });
    expect(server.asked).toHaveLength(before);
  });

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
            method === at &&
            headers.authorization === 'Bearer token-of-mint-2' &&
            (response.writeHead(401).end(), true),
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
});
