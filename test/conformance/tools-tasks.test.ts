/**
 * A task through the two activities that a run calls, on a server that keeps no rule: which token goes where, what may pass and what
 * may not, and how often it was begun (INV-X1, INV-S1, INV-S2; ADR 0041).
 */
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { createMemoryStore } from '../../activities/artifacts/memory.ts';
import type { ArtifactStore } from '../../activities/artifacts/port.ts';
import type { DispatchInput } from '../../contracts/wire/tools.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { taskBench, type TaskBenchOptions } from '../support/activities/tasks.ts';
import { allowedDispatch } from '../support/activities/tool-activities.ts';
import { aDefinition } from '../support/activities/tool-call.ts';
import { startTaskServer, type TaskServer } from '../support/servers/task-server.ts';

let server: TaskServer;
beforeEach(async () => void (server = await startTaskServer()));
afterEach(async () => server.close());

const bench = async (options?: TaskBenchOptions) => await taskBench(server, options);

test('INV-X1: it is begun once, and what it comes to is told without its ids', async () => {
  const { dispatch, poll, minted } = await bench();
  const begun = await dispatch();
  expect(begun).toMatchObject({ kind: 'task', task: { pollMs: 10 }, token: { strategy: 'given' } });
  server.become({ get: ({ polls }) => ({ status: polls > 1 ? 'completed' : 'working', statusMessage: 'digging' }) });
  expect(await poll(begun)).toEqual({ kind: 'working', message: 'digging' });
  expect(await poll(begun)).toMatchObject({ kind: 'ended', outcome: { kind: 'succeeded' } });
  expect(server.calls).toHaveLength(1);
  expect(server.calls[0]).toMatchObject({
    task: { ttl: 620_000 },
    _meta: { 'countersign/idempotency-key': 'conformance/t1.c0' },
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

test('a tool that its server shows only to clients that can be asked is begun as a task, where the operator says that they can', async () => {
  server.become({ asks: true });
  expect(await (await bench()).dispatch()).toMatchObject({ outcome: { kind: 'failed', code: 'TOOL_UNKNOWN' } });
  const { dispatch, poll } = await bench({ asks: true });
  expect(await poll(await dispatch())).toMatchObject({ outcome: { kind: 'succeeded' } });
});

describe('what may pass', () => {
  test.each([
    ['a server that answers 503', 503, 'HTTP 503'],
    ['one that wants nothing to do with it for now', 429, 'HTTP 429'],
    ['one whose proxy knows it not', 400, 'HTTP 400'],
  ])('%s', async (_, status, text) => {
    const { dispatch, poll } = await bench();
    const begun = await dispatch();
    server.become({
      intercept: (method, response) =>
        method === 'tasks/get' && (response.writeHead(status, { 'retry-after': '7' }).end('busy'), true),
    });
    expect(await poll(begun)).toEqual({
      kind: 'unreached',
      message: expect.stringContaining(text),
      retryAfterMs: 7_000,
    });
    server.become({});
    expect(await poll(begun)).toMatchObject({ outcome: { kind: 'succeeded' } });
  });

  test.each([
    ['a connection that breaks', 'tasks/get'],
    ['a result that breaks off', 'tasks/result'],
  ])('%s', async (_, broken) => {
    const { dispatch, poll } = await bench();
    const begun = await dispatch();
    server.become({
      intercept: (method, _response, request) => method === broken && (request.socket.resetAndDestroy(), true),
    });
    expect(await poll(begun)).toMatchObject({ kind: 'unreached' });
    server.become({});
    expect(await poll(begun)).toMatchObject({ outcome: { kind: 'succeeded' } });
  });

  test('an error of JSON-RPC that is not about its id', async () => {
    const { dispatch, poll } = await bench();
    const begun = await dispatch();
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
    expect(await poll(begun)).toEqual({
      kind: 'unreached',
      message: 'the server could not be asked: JSON-RPC error -32603: busy with [redacted]',
    });
  });

  test('a token that is not taken: a fresh one, once', async () => {
    const { dispatch, poll, minted } = await bench();
    const begun = await dispatch();
    const refused: string[] = [];
    server.become({
      intercept: (method, response, { headers }) => {
        if (method !== 'tasks/get' || headers.authorization !== 'Bearer token-of-mint-2') return false;
        refused.push(headers.authorization);
        response.writeHead(401).end();
        return true;
      },
    });
    expect(await poll(begun)).toMatchObject({ outcome: { kind: 'succeeded' } });
    expect(refused).toHaveLength(1);
    expect(minted.at(-1)?.request.refused).toBe('token-of-mint-2');
    // None that is as good: that is all.
    server.become({ intercept: (method, response) => method === 'tasks/get' && (response.writeHead(401).end(), true) });
    expect(await poll(begun)).toMatchObject({ kind: 'unreached' });
  });

  test('no token at all, or no key that opens it', async () => {
    let isOut = false;
    const { dispatch, poll } = await bench({
      mints: (_, count) => {
        if (isOut) throw new CountersignError('TOKEN_UNAVAILABLE', 'The issuer is away.', { retryAfterMs: 3_000 });
        return `token-${count}`;
      },
    });
    const begun = await dispatch();
    isOut = true;
    expect(await poll(begun)).toMatchObject({
      kind: 'unreached',
      message: expect.stringContaining('away'),
      retryAfterMs: 3_000,
    });
    const { poll: keyless } = await bench({ sealing: 'none' });
    expect(await keyless(begun)).toMatchObject({ kind: 'unreached', message: expect.stringContaining('grants.keys') });
  });
});

describe('what nobody waits for any longer', () => {
  test('is asked to be cancelled, and what the server said of it stands in the outcome', async () => {
    const { dispatch, poll } = await bench();
    const begun = await dispatch();
    server.become({ get: () => ({ status: 'working' }) });
    expect(await poll(begun, { giveUp: 'withdrawn' })).toMatchObject({
      kind: 'ended',
      outcome: { kind: 'unknown', message: expect.stringMatching(/run ended before it.*says that it is cancelled/) },
    });
    expect(server.asked.slice(-3).map(({ method }) => method)).toEqual(['tasks/get', 'tasks/cancel', 'DELETE']);
  });

  test('has its result where it ended in the very moment in which it was to be cancelled', async () => {
    const { dispatch, poll } = await bench();
    const begun = await dispatch();
    server.become({ get: ({ polls }) => ({ status: polls > 1 ? 'completed' : 'working' }), cancel: () => undefined });
    expect(await poll(begun, { giveUp: 'time' })).toMatchObject({ outcome: { kind: 'succeeded' } });
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
    const { dispatch, poll } = await bench();
    const begun = await dispatch();
    server.become(script);
    expect(await poll(begun, { giveUp: 'time' })).toMatchObject({
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
    const { dispatch, poll } = await bench();
    const begun = await dispatch();
    server.become({ ...large, streams: true, get: () => ({ status }) });
    expect(await poll(begun)).toMatchObject({ kind: 'ended', outcome });
  });

  test.each([
    ['completed', { kind: 'succeeded', result: { warnings: [expect.stringContaining('larger')] } }],
    ['failed', { kind: 'failed', executed: true, message: expect.stringContaining('larger') }],
  ])('of a task that has %s', async (status, outcome) => {
    const { dispatch, poll } = await bench();
    const begun = await dispatch();
    server.become({ ...large, get: () => ({ status }) });
    expect(await poll(begun)).toMatchObject({ kind: 'ended', outcome });
  });

  test('nor is the page of a proxy one', async () => {
    const { dispatch, poll } = await bench();
    const begun = await dispatch();
    server.become({
      intercept: (method, response) => method === 'tasks/result' && (response.writeHead(502).end(huge), true),
    });
    expect(await poll(begun)).toMatchObject({ kind: 'unreached', message: expect.stringContaining('HTTP 502') });
    server.become({});
    expect(await poll(begun)).toMatchObject({ outcome: { kind: 'succeeded' } });
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
  const { dispatch, polling, poll } = await bench({ artifacts });
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

describe('a task is begun nowhere', () => {
  test.each([
    ['for a run that does not wait for any', { tasks: undefined }, undefined, 'configure `tasks`'],
    ['by a worker that can seal nothing', {}, 'none', 'grants.keys'],
  ] as const)('%s: nothing is sent, and it says so', async (_, over, sealing, text) => {
    const { dispatch, minted } = await bench({ sealing });
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
    const { dispatch } = await bench();
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

  test('INV-G1: for whoever else asks', async () => {
    const { dispatch, poll } = await bench();
    const begun = await dispatch();
    const { run } = allowedDispatch(
      { server: '', serverUrl: '', definition: aDefinition(), hash: '', modelName: '' },
      {},
      [],
      {
        server: { name: 'mine', url: server.url },
      },
    );
    await expect(poll(begun, { run: { ...run, workflowId: 'other' } })).rejects.toMatchObject({
      code: 'DISPATCH_FORBIDDEN',
    });
    const before = server.asked.length;
    expect(await poll(begun, { callId: 't1.c1' })).toMatchObject({ kind: 'unreached' });
    expect(server.asked).toHaveLength(before);
  });
});
