/** Whether a call is a task, and what a run keeps of one: sealed, bound to the call, and proof of it (INV-G1, INV-S1). */
import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { authorityOf } from '../../../../../activities/discovery/access.ts';
import { openedTask, taskResult, taskWish } from '../../../../../activities/gate/legacy-2025/seals.ts';
import { createStateSeal, derivedFrom, type StateSeal } from '../../../../../activities/mcp/state-seal.ts';
import { Config } from '../../../../../contracts/schemas/config.ts';
import type { PollInput } from '../../../../../contracts/wire/legacy-2025.ts';
import type { DispatchInput } from '../../../../../contracts/wire/tools.ts';
import { RUN } from '../../../../support/activities/tool-activities.ts';

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
    ).toMatchObject({
      task: { only: true },
    });
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
