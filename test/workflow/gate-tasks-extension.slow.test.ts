/** The gate's calls as tasks of the extension for MCP 2026-07-28, by its own package; the server behind is the judge. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { resultFromTaskOutcome, type TaskEnabledSession } from '@modelcontextprotocol/ext-tasks/client';
import { z } from 'zod';
import { declaring, sendRaw, taskSession } from '../support/scenes/gate-extension.ts';
import { type GateWorld, type KeyName, startGateWorld } from '../support/scenes/gate-world.ts';
import { decideNext } from '../support/world/world.ts';

const EXTENSION = 'io.modelcontextprotocol/tasks';

let scene: GateWorld;
let session: TaskEnabledSession;

beforeAll(async () => {
  scene = await startGateWorld();
  session = await taskSession(scene, 'ann/coder');
});
afterAll(async () => {
  await session.close();
  await scene.stop();
});

type Declared = Readonly<Record<string, Record<string, never>>>;
type Args = Readonly<{ purpose: string }>;

async function callIn(by: TaskEnabledSession, tool: string, args: Args) {
  return await by.callTool(`bank__${tool}`, args);
}

/** Makes a call that becomes a task. */
async function begin(by: TaskEnabledSession, tool: string, args: Args) {
  const execution = await callIn(by, tool, args);
  if (execution.kind !== 'task') throw new Error('the call was answered at once');
  return { execution, taskId: execution.handle.taskId };
}

async function decide(taskId: string, kind: 'approve' | 'reject' = 'approve'): Promise<void> {
  await decideNext(scene.world.countersign.run(taskId), 'ben', kind);
}

test('a call that needs nobody has its result; one that waits is a task, and ends with the result of the call', async () => {
  const patient = await scene.another({ holdSeconds: 600 });
  const held = await taskSession(scene, 'ann/coder', patient.url);
  expect((await callIn(held, 'lookup', { purpose: 'ext-read' })).kind).toBe('immediate');
  await held.close();
  await patient.stop();
  const args = { purpose: 'ext-approved' };
  const { execution, taskId } = await begin(session, 'pay', args);
  expect(await session.task(taskId).snapshot()).toMatchObject({
    status: 'working',
    statusMessage: expect.stringContaining(`/runs/${taskId}`),
  });
  await decide(taskId);
  const { outcome } = await execution.settle();
  expect(resultFromTaskOutcome(outcome)).toMatchObject({
    content: [{ text: `pay did ${JSON.stringify(args)}` }],
    _meta: { 'countersign/call': { status: 'succeeded', reference: taskId } },
  });
  expect(scene.bank.callsFor('ext-approved')).toHaveLength(1);
  // The result has been delivered with the task, so this is another call.
  expect((await begin(session, 'pay', args)).taskId).not.toBe(taskId);
  expect(scene.bank.callsFor('ext-approved')).toHaveLength(1);
});

test('equal calls are one task, also through another gateway, and it outlives gateways and workers', async () => {
  const args = { purpose: 'ext-restarted' };
  const { execution, taskId } = await begin(session, 'pay', args);
  const second = await scene.another();
  const elsewhere = await taskSession(scene, 'ann/coder', second.url);
  expect((await begin(elsewhere, 'pay', args)).taskId).toBe(taskId);
  const reference = execution.serializeReference();
  await execution.detach();
  await Promise.all([scene.restartGateway(), scene.world.restartWorkers()]);
  await session.close();
  session = await taskSession(scene, 'ann/coder');
  const resumed = await session.resumeTask(reference);
  await decide(taskId);
  const { outcome } = await resumed.settle();
  expect(outcome).toMatchObject({
    status: 'completed',
    result: { content: [{ text: expect.stringContaining('pay did') }] },
  });
  expect(scene.bank.callsFor('ext-restarted')).toHaveLength(1);
  await elsewhere.close();
  await second.stop();
});

test('a rejected call is a task that has completed with an error of the tool, and never arrives', async () => {
  const args = { purpose: 'ext-rejected' };
  const { execution, taskId } = await begin(session, 'pay', args);
  await decide(taskId, 'reject');
  const { outcome } = await execution.settle();
  expect(outcome).toMatchObject({
    status: 'completed',
    result: { isError: true, content: [{ text: expect.stringContaining('a person rejected this call') }] },
  });
  expect(scene.bank.callsFor('ext-rejected')).toEqual([]);
});

test('a task that waits is cancelled and never runs; one that was sent goes on', async () => {
  const args = { purpose: 'ext-cancelled' };
  const { execution, taskId } = await begin(session, 'pay', args);
  await session.task(taskId).cancel();
  expect(await execution.result()).toMatchObject({
    status: 'cancelled',
    task: { statusMessage: expect.stringContaining('before it ran') },
  });
  expect(scene.bank.callsFor('ext-cancelled')).toEqual([]);
  const sent = await begin(session, 'slow', { purpose: 'ext-sent' });
  await scene.bank.held('ext-sent');
  await session.task(sent.taskId).cancel();
  expect(await session.task(sent.taskId).snapshot()).toMatchObject({ status: 'working' });
  scene.bank.release('ext-sent');
  expect(await session.task(sent.taskId).result()).toMatchObject({ status: 'completed' });
  expect(scene.bank.callsFor('ext-sent')).toHaveLength(1);
});

test('a client that does not declare the extension gets words, and is told of no task', async () => {
  const call = async (extensions: Declared) => {
    const params = { name: 'bank__pay', arguments: { purpose: 'ext-undeclared' }, _meta: declaring(extensions) };
    return (await sendRaw(scene, 'ann/coder', { method: 'tools/call', params })).result;
  };
  const told = await call({});
  expect(told).toMatchObject({ resultType: 'complete', content: [{ text: expect.stringContaining('has not run') }] });
  expect(told).not.toHaveProperty('taskId');
  const begun = await call({ [EXTENSION]: {} });
  expect(begun).toMatchObject({
    resultType: 'task',
    status: 'working',
    statusMessage: expect.stringContaining('People decide here'),
    ttlMs: (30 + 1) * 86_400_000,
  });
  const { taskId } = z.object({ taskId: z.string() }).parse(begun);
  const asked = async (method: string, by: KeyName, declared: Declared, id = taskId) => {
    const params = { taskId: id, inputResponses: {}, _meta: declaring(declared) };
    return (await sendRaw(scene, by, { method, params })).error;
  };
  for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel']) {
    expect(await asked(method, 'ann/coder', {})).toMatchObject({
      code: -32_021,
      data: { requiredCapabilities: { extensions: { [EXTENSION]: {} } } },
    });
    for (const refused of [
      await asked(method, 'bea/coder', { [EXTENSION]: {} }),
      await asked(method, 'ann/coder', { [EXTENSION]: {} }, "gate-' OR 1=1"),
      await asked(method, 'ann/coder', { [EXTENSION]: {} }, 'gate-00000000-0000-0000-0000-000000000000'),
    ])
      expect(refused).toMatchObject({ code: -32_602 });
  }
  const update = {
    method: 'tasks/update',
    params: { taskId, inputResponses: { x: {} }, _meta: declaring({ [EXTENSION]: {} }) },
  };
  expect((await sendRaw(scene, 'ann/coder', update)).result).toMatchObject({ resultType: 'complete' });
  for (const method of ['tasks/list', 'tasks/result'])
    expect(
      (await sendRaw(scene, 'ann/coder', { method, params: { taskId, _meta: declaring({ [EXTENSION]: {} }) } })).error,
    ).toMatchObject({ code: -32_601 });
  expect(scene.bank.callsFor('ext-undeclared')).toEqual([]);
});

test('says that it has the extension, and lists no field of the earlier tasks', async () => {
  const client = await scene.connect('ann/coder');
  expect(client.getServerCapabilities()).toMatchObject({ extensions: { [EXTENSION]: {} } });
  expect(client.getServerCapabilities()).not.toHaveProperty('tasks');
  for (const tool of (await client.listTools()).tools) expect(tool).not.toHaveProperty('execution');
});
