/** Tasks of MCP 2025-11-25: what a list says of them, what a server says, and what a run keeps. */
import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { authorityOf } from '../../../../../activities/discovery/access.ts';
import { openedTask, taskResult, taskWish } from '../../../../../activities/gate/legacy-2025/seals.ts';
import type { Names, Trace } from '../../../../../activities/mcp/classify-failure.ts';
import {
  begunTask,
  isTask,
  waitsForTasks,
  withTaskSupport,
  wordOf,
} from '../../../../../activities/mcp/legacy-2025/tasks.ts';
import { createStateSeal, derivedFrom, type StateSeal } from '../../../../../activities/mcp/state-seal.ts';
import { createScrubber } from '../../../../../activities/scrubbing/scrubber.ts';
import { Config } from '../../../../../contracts/schemas/config.ts';
import type { PollInput } from '../../../../../contracts/wire/legacy-2025.ts';
import type { DispatchInput } from '../../../../../contracts/wire/tools.ts';
import { RUN } from '../../../../support/activities/tool-activities.ts';

describe('whether a call is a task, and what a run keeps of one: sealed, bound to the call, and proof of it (INV-G1, INV-S1)', () => {
  const config = Config.parse({
    servers: {
      mine: { url: 'https://mine.example/mcp', tasks: { optional: ['dig'], seconds: 60 } },
      plain: { url: 'https://plain.example/mcp' },
    },
  });
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const found = createStateSeal(
    new Map([['k', derivedFrom(String(privateKey.export({ type: 'pkcs8', format: 'pem' })))]]),
  );
  if (found === undefined) throw new Error('there is a key');
  const seal: StateSeal = found;

  const target = { server: 'mine', serverUrl: 'https://mine.example/mcp', tool: 'dig', definitionHash: 'd'.repeat(64) };
  const base = {
    run: RUN,
    callId: 't1.c0',
    attempt: 1,
    name: 'mine__dig',
    target,
    server: { name: 'mine', url: target.serverUrl },
    limits: { resultBytes: 1_000, callTimeoutSeconds: 20 },
    toolset: [],
  };
  // Sound: what is sealed needs no more of a dispatch.
  const dispatch = { ...base, tasks: true } as unknown as DispatchInput;
  const EVIDENCE = { strategy: 'given' };
  const ID = { taskId: 'task-1', sessionId: 'session-1', version: '2025-11-25' };
  const GRANT = { server: 'mine', ref: 'ann-mine' };
  const SHOWN = ['token-of-list', 'token-of-call'];
  const SENT = '2026-01-01T00:00:00.000Z';

  describe('a call is a task', () => {
    const tool = { name: 'dig', inputSchema: {} };
    const required = { ...tool, taskSupport: 'required' } as const;
    const optional = { ...tool, taskSupport: 'optional' } as const;

    test('where its tool can only be called so, and kept somewhat longer than it may take', () => {
      expect(taskWish(dispatch, required, config, seal)).toEqual({ task: { ttlMs: 660_000, only: true } });
      const server = { name: 'plain', url: 'https://plain.example/mcp' };
      expect(taskWish({ ...dispatch, server }, required, config, seal)).toMatchObject({ task: { ttlMs: 620_000 } });
      expect(
        taskWish({ ...dispatch, server: { ...server, name: 'named-by-the-run' } }, required, config, seal),
      ).toMatchObject({ task: { only: true } });
    });

    test('or where it may be called so and the operator says so', () => {
      expect(taskWish(dispatch, optional, config, seal)).toMatchObject({ task: { only: false } });
      expect(taskWish(dispatch, { ...optional, name: 'other' }, config, seal)).toEqual({});
      expect(taskWish({ ...dispatch, server: { ...dispatch.server, name: 'plain' } }, optional, config, seal)).toEqual(
        {},
      );
      expect(taskWish(dispatch, tool, config, seal)).toEqual({});
    });

    test.each([
      ['a run that does not wait for any', { ...dispatch, tasks: undefined }, seal, 'configure `tasks`'],
      ['a worker without a key', dispatch, undefined, 'grants.keys'],
    ])('and never of %s', (_, given, sealing, text) => {
      // Sound: an absent field and an undefined one read the same.
      const input = given as DispatchInput;
      expect(taskWish(input, optional, config, sealing)).toEqual({});
      expect(taskWish(input, required, config, sealing)).toEqual({ refused: expect.stringContaining(text) });
    });
  });

  async function sealed(
    over: object = {},
    authorization: Parameters<typeof authorityOf>[0] = {},
  ): Promise<Extract<Awaited<ReturnType<typeof taskResult>>, { kind: 'task' }>> {
    const ending = { kind: 'task', id: ID, ...over } as const;
    const authority = authorityOf(authorization, SHOWN);
    const result = await taskResult(ending, dispatch, { config, seal }, authority, SENT, EVIDENCE);
    if (result.kind !== 'task') throw new Error('it is a task');
    return result;
  }

  async function poll(
    over: Partial<PollInput> = {},
    authorization: Parameters<typeof authorityOf>[0] = {},
  ): Promise<PollInput> {
    return { ...base, sealed: (await sealed({}, authorization)).task.sealed, ...over };
  }

  describe('what a run keeps of it', () => {
    test('INV-S1: shows no id, and opens for its call', async () => {
      const { task, token } = await sealed({ pollMs: 5, message: 'digging' });
      expect(token).toEqual(EVIDENCE);
      expect(task).toMatchObject({ sentAt: SENT, until: '2026-01-01T00:01:00.000Z', pollMs: 5, message: 'digging' });
      expect(JSON.stringify(task)).not.toMatch(/task-1|session-1|token-of/);
      expect(await openedTask({ ...base, sealed: task.sealed }, seal)).toEqual({
        id: ID,
        authorization: {},
        shown: SHOWN,
      });
    });

    test('ends with the server, where that keeps it for less than it may take', async () => {
      expect((await sealed({ ttlMs: 5_000 })).task.until).toBe('2026-01-01T00:00:05.000Z');
      expect((await sealed({ ttlMs: 9e15 })).task.until).toBe('2026-01-01T00:01:00.000Z');
    });

    test.each<[string, Partial<PollInput>]>([
      ['another call', { callId: 't1.c1' }],
      ['another dispatch', { attempt: 2 }],
      ['another run', { run: { ...RUN, workflowId: 'other' } }],
      ['another initiator', { run: { ...RUN, initiator: { ...RUN.initiator, id: 'eve' } } }],
      ['another tool', { target: { ...target, tool: 'pay' } }],
      ['another server of the same address', { server: { ...base.server, name: 'admin' } }],
      ['another server', { target: { ...target, serverUrl: 'https://evil.example/mcp' } }],
    ])('INV-G1, INV-S2: does not open for %s', async (_, over) => {
      expect(await openedTask(await poll(over), seal)).toBeUndefined();
    });

    test('nor without the key, nor as what another pause has sealed', async () => {
      expect(await openedTask(await poll(), undefined)).toBeUndefined();
      const { namespace, workflowId } = RUN;
      const binding = { namespace, workflowId, callId: 't1.c0', round: 1, serverUrl: target.serverUrl };
      const state = await seal.seal('{"taskId":"forged"}', binding);
      expect(await openedTask({ ...base, sealed: state }, seal)).toBeUndefined();
    });

    test('INV-S2: has the authorization with which it was begun, and no other', async () => {
      const authorization = { grant: GRANT, consented: ['dig:deep'] };
      const other = { server: 'mine', ref: 'eve-mine' };
      expect(await openedTask(await poll({ grants: [other, GRANT] }, authorization), seal)).toMatchObject({
        authorization,
      });
      expect(await openedTask(await poll({ grants: [other] }, authorization), seal)).toBeUndefined();
      expect(await openedTask(await poll({ grants: [GRANT] }), seal)).toMatchObject({ authorization: {} });
    });

    test('a task that nothing can seal is a fault', async () => {
      const ending = { kind: 'task', id: ID } as const;
      await expect(taskResult(ending, dispatch, { config }, authorityOf({}, []), undefined, EVIDENCE)).rejects.toThrow(
        'seal',
      );
    });
  });
});

describe("what is believed of a server's word on a task", () => {
  const names: Names = { server: 'mine', tool: 'dig', quote: (text) => text };
  const plain = createScrubber([]);
  const ID = 'task-0123456789ab';
  const SESSION = 'session-0123456789';

  function answered(
    result: Record<string, unknown>,
    session: { readonly sessionId?: string } = { sessionId: SESSION },
  ): Trace {
    return { kind: 'answered', answer: { kind: 'result', result }, session };
  }

  const begun = (task: Record<string, unknown>, session?: { readonly sessionId?: string }) =>
    begunTask(answered({ task }, session), names, (ids) => createScrubber(ids));

  describe('a task in place of a result', () => {
    test('is one only where it was asked for, and where there is no result', () => {
      const task = { taskId: ID, status: 'working' };
      expect(isTask(answered({ task }))).toBe(true);
      expect(isTask({ kind: 'answered', answer: { kind: 'result', result: { task } } })).toBe(false);
      expect(isTask(answered({ task, content: [] }))).toBe(false);
      expect(isTask(answered({ task: 'one' }))).toBe(false);
      expect(isTask({ kind: 'answered', answer: { kind: 'error', code: 1, message: '' }, session: {} })).toBe(false);
    });

    test('INV-S1: its ids are in nothing but its id', () => {
      const ending = begun({
        taskId: ID,
        status: 'working',
        statusMessage: `at ${ID} in ${SESSION}`,
        pollInterval: 7,
        ttl: 9,
      });
      expect(ending).toEqual({
        kind: 'task',
        id: { taskId: ID, sessionId: SESSION },
        pollMs: 7,
        ttlMs: 9,
        message: 'at [redacted] in [redacted]',
      });
    });

    test('what is said of it keeps short numbers and words that are also its ids', () => {
      const task = { taskId: '1042', status: 'working', statusMessage: 'order 1042 is looked for on the shelf' };
      expect(begun(task, { sessionId: 'shelf' })).toMatchObject({ message: 'order 1042 is looked for on the shelf' });
    });

    test.each([
      ['no id', { status: 'working' }],
      ['an empty id', { taskId: '', status: 'working' }],
      ['an id that is too long', { taskId: 'x'.repeat(2_049), status: 'working' }],
      ['no status', { taskId: ID }],
      ['a status that nobody knows', { taskId: ID, status: 'dreaming' }],
    ])('one with %s is not known to be anything', (_, task) => {
      expect(begun(task)).toMatchObject({ kind: 'unknown', code: 'OUTCOME_UNKNOWN' });
    });

    test('nor is one in a session whose id is too long', () => {
      expect(begun({ taskId: ID, status: 'working' }, { sessionId: 's'.repeat(2_049) })).toMatchObject({
        kind: 'unknown',
      });
    });
  });

  test.each([
    ['zero', 0],
    ['negative', -5],
    ['text', '5'],
    ['not finite', Number.POSITIVE_INFINITY],
    ['nothing', null],
  ])('a time that is %s is left out', (_, time) => {
    expect(wordOf({ status: 'working', pollInterval: time, ttl: time }, plain)).toEqual({ status: 'working' });
  });

  test('a message is one line, bounded, and no text at all where it is none', () => {
    const word = wordOf({ status: 'working', statusMessage: `a\n\u202eb ${'x'.repeat(500)}` }, plain);
    expect(word?.message).toMatch(/^a b x+… \(\d+ more characters\)$/);
    expect(wordOf({ status: 'working', statusMessage: 7 }, plain)).toEqual({ status: 'working' });
  });
});

describe('what a list says of tools that can only, or may, be called as tasks: no more than who reads it understands (INV-D1)', () => {
  const config = Config.parse({
    servers: {
      mine: { url: 'https://mine.example/mcp', tasks: { optional: ['search'] } },
      plain: { url: 'https://plain.example/mcp' },
    },
  });
  const PLAIN = { name: 'look', inputSchema: {} };
  const DIG = { name: 'dig', inputSchema: {}, taskSupport: 'required' } as const;
  const SEARCH = { name: 'search', inputSchema: {}, taskSupport: 'optional' } as const;
  const { taskSupport: _, ...SEARCH_PLAIN } = SEARCH;
  const OTHER = { ...SEARCH_PLAIN, name: 'other' };
  const earlier = [{ name: 'bad', reason: 'it is not an object' }];
  const listing = { tools: [PLAIN, DIG, SEARCH, { ...OTHER, taskSupport: 'optional' } as const], refused: earlier };

  test('a run that waits for tasks: what can only be called so, and of the rest what the operator names', () => {
    expect(withTaskSupport(config, 'mine', listing, true)).toEqual({
      tools: [PLAIN, DIG, SEARCH, OTHER],
      refused: earlier,
    });
  });

  test.each(['plain', 'named-by-the-run'])(
    'of server %s, no tool that is only called as a task, where no run waits for tasks',
    (server) => {
      expect(withTaskSupport(config, server, listing, true).tools).toEqual([PLAIN, DIG, SEARCH_PLAIN, OTHER]);
    },
  );

  test('a run that cannot wait for tasks: none that can only be called so, and it is said why', () => {
    expect(withTaskSupport(config, 'mine', { ...listing, resources: true }, false)).toEqual({
      tools: [PLAIN, SEARCH_PLAIN, OTHER],
      refused: [...earlier, { name: 'dig', reason: expect.stringContaining('configure `tasks` of its server') }],
      resources: true,
    });
  });

  test('tasks are waited for where the operator says so of some server', () => {
    const url = 'https://plain.example/mcp';
    const of = (tasks?: object) => waitsForTasks(Config.parse({ servers: { plain: { url }, mine: { url, tasks } } }));
    expect([of(), of({}), of({ seconds: 60 })]).toEqual([false, true, true]);
  });
});
