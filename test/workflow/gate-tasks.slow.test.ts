/** The gate's calls as tasks of MCP 2025-11-25, by the 1.x SDK, which knows them; the server behind is the judge. */
import { beforeAll, expect, test } from '@jest/globals';
import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { CallToolResultSchema, type CallToolResult, type Task } from '@modelcontextprotocol/sdk/types.js';
import { withCode } from '../support/refusal.ts';
import { startGateWorld } from '../support/scenes/gate-world.ts';
import { until } from '../support/until.ts';
import { decideNext } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

let client: Client;

const scene = during(() => startGateWorld());
beforeAll(async () => {
  client = await scene.connectEarlier('ann/coder');
});

/** Calls a tool as a task, and leaves it there. */
async function begin(by: Client, tool: string, args: Record<string, unknown>, ttl?: number): Promise<Task> {
  const params = { name: `bank__${tool}`, arguments: args };
  const options = { task: ttl === undefined ? {} : { ttl } };
  for await (const message of by.experimental.tasks.callToolStream(params, CallToolResultSchema, options)) {
    if (message.type === 'taskCreated') return message.task;
    if (message.type === 'error') throw message.error;
  }
  throw new Error('no task was created');
}

async function resultOf(by: Client, { taskId }: Task): Promise<CallToolResult> {
  return await by.experimental.tasks.getTaskResult(taskId, CallToolResultSchema);
}

async function ended(by: Client, { taskId }: Task): Promise<Task> {
  return await until(
    async () => {
      const task = await by.experimental.tasks.getTask(taskId);
      return task.status === 'working' ? undefined : task;
    },
    { what: 'the end of the task' },
  );
}

async function waiting({ taskId }: Task): Promise<Task> {
  return await until(
    async () => {
      const task = await client.experimental.tasks.getTask(taskId);
      return task.statusMessage?.includes('has not run') === true ? task : undefined;
    },
    { what: 'a task that waits for a person' },
  );
}

async function decide({ taskId }: Task, kind: 'approve' | 'reject' = 'approve'): Promise<void> {
  await decideNext(scene.world.countersign.run(taskId), 'ben', kind);
}

function textOf({ content }: CallToolResult): string {
  return content.map((part) => (part.type === 'text' ? part.text : part.type)).join('\n');
}

test('tells clients that calls may be tasks, and a call that needs nobody is one that ends by itself', async () => {
  expect(client.getServerCapabilities()).toMatchObject({
    tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } },
  });
  const { tools } = await client.listTools();
  expect(tools.find(({ name }) => name === 'bank__pay')).toMatchObject({ execution: { taskSupport: 'optional' } });
  expect(tools.find(({ name }) => name === 'countersign_result')?.execution).toBeUndefined();
  const args = { purpose: 'task-read' };
  const messages = [];
  for await (const message of client.experimental.tasks.callToolStream({ name: 'bank__lookup', arguments: args }))
    messages.push(message);
  expect(messages[0]).toMatchObject({ type: 'taskCreated', task: { status: 'working' } });
  expect(messages.at(-1)).toMatchObject({
    type: 'result',
    result: { content: [{ text: `lookup did ${JSON.stringify(args)}` }] },
  });
  expect(scene.bank.callsFor('task-read')).toHaveLength(1);
});

test('a task waits for a person in words, is approved in time, and its result is the call’s own (INV-X1)', async () => {
  const args = { purpose: 'task-approved' };
  const task = await begin(client, 'pay', args);
  expect(task).toMatchObject({ status: 'working', taskId: expect.stringMatching(/^gate-/) });
  const { status, statusMessage } = await waiting(task);
  expect(status).toBe('working');
  expect(statusMessage).toContain(`/runs/${task.taskId}`);
  const result = resultOf(client, task);
  await decide(task);
  expect(await result).toMatchObject({
    content: [{ text: `pay did ${JSON.stringify(args)}` }],
    _meta: {
      'countersign/call': { status: 'succeeded', reference: task.taskId },
      'io.modelcontextprotocol/related-task': { taskId: task.taskId },
    },
  });
  expect(await ended(client, task)).toMatchObject({ status: 'completed' });
  expect(scene.bank.callsFor('task-approved')).toHaveLength(1);
});

test('equal calls, as tasks or not, are one until the result of the task was delivered', async () => {
  const args = { purpose: 'task-equal' };
  const task = await begin(client, 'pay', args);
  expect((await begin(client, 'pay', args)).taskId).toBe(task.taskId);
  const plain = await client.callTool({ name: 'bank__pay', arguments: args });
  expect(plain).toMatchObject({ _meta: { 'countersign/call': { reference: task.taskId, status: 'waiting' } } });
  await decide(task);
  await ended(client, task);
  // How far a task is, is no delivery.
  expect((await begin(client, 'pay', args)).taskId).toBe(task.taskId);
  await resultOf(client, task);
  expect((await begin(client, 'pay', args)).taskId).not.toBe(task.taskId);
  expect(scene.bank.callsFor('task-equal')).toHaveLength(1);
  expect(textOf(await resultOf(client, task))).toContain('pay did');
});

test('a task outlives the gateway and the workers', async () => {
  const args = { purpose: 'task-restarted' };
  const task = await begin(client, 'pay', args);
  await waiting(task);
  const second = await scene.another();
  const elsewhere = await scene.connectEarlier('ann/coder', second);
  await Promise.all([scene.restartGateway(), scene.world.restartWorkers()]);
  client = await scene.connectEarlier('ann/coder');
  const result = resultOf(elsewhere, task);
  await decide(task);
  expect(textOf(await result)).toContain('pay did');
  await second.stop();
  expect(await ended(client, task)).toMatchObject({ taskId: task.taskId, status: 'completed' });
  expect(scene.bank.callsFor('task-restarted')).toHaveLength(1);
});

test('a gateway that stops while it holds a result says that the call goes on, and has delivered nothing', async () => {
  const args = { purpose: 'task-stopped' };
  const second = await scene.another();
  const held = await scene.connectEarlier('ann/coder', second);
  const task = await begin(held, 'slow', args);
  const result = resultOf(held, task);
  const lost = expect(result).rejects.toThrow('goes on');
  await scene.bank.held('task-stopped');
  await second.stop();
  await lost;
  scene.bank.release('task-stopped');
  expect((await begin(client, 'slow', args)).taskId).toBe(task.taskId);
  expect(textOf(await resultOf(client, task))).toContain('slow did');
  expect(scene.bank.callsFor('task-stopped')).toHaveLength(1);
});

test.each([
  ['rejected', 'pay', 'rejected'],
  ['denied', 'bare', 'denied'],
  ['not decided in time', 'odd', 'expired'],
])(
  'a call that is %s is a task that has failed, with the words of the call, and never arrives',
  async (what, tool, status) => {
    const args = { purpose: `task-${what}` };
    const task = await begin(client, tool, args);
    if (status === 'rejected') await decide(task, 'reject');
    const { statusMessage, ...end } = await ended(client, task);
    expect(end).toMatchObject({ status: 'failed' });
    const result = await resultOf(client, task);
    expect(result).toMatchObject({ isError: true, _meta: { 'countersign/call': { status } } });
    expect(textOf(result)).toBe(statusMessage);
    expect(scene.bank.callsFor(args.purpose)).toEqual([]);
  },
);

test('a task that waits is cancelled, never runs, and an equal call is a new one', async () => {
  const args = { purpose: 'task-cancelled' };
  const task = await begin(client, 'pay', args);
  await waiting(task);
  expect(await client.experimental.tasks.cancelTask(task.taskId)).toMatchObject({ status: 'cancelled' });
  expect(await ended(client, task)).toMatchObject({ status: 'cancelled' });
  const result = await resultOf(client, task);
  expect(result).toMatchObject({ isError: true, _meta: { 'countersign/call': { status: 'cancelled' } } });
  expect(textOf(result)).toContain('before it ran');
  await expect(client.experimental.tasks.cancelTask(task.taskId)).rejects.toThrow('has ended');
  expect(await scene.world.countersign.run(task.taskId).requests()).toEqual([]);
  expect((await begin(client, 'pay', args)).taskId).not.toBe(task.taskId);
  expect(scene.bank.callsFor('task-cancelled')).toEqual([]);
});

test('a call that was sent is not cancelled: it goes on, and its task says what became of it', async () => {
  const args = { purpose: 'task-sent' };
  const task = await begin(client, 'slow', args);
  await scene.bank.held('task-sent');
  await expect(client.experimental.tasks.cancelTask(task.taskId)).rejects.toThrow('may have been sent');
  scene.bank.release('task-sent');
  expect(textOf(await resultOf(client, task))).toContain('slow did');
  expect(scene.bank.callsFor('task-sent')).toHaveLength(1);
});

test('another person finds no task; another client of the same person reads it, and neither cancels nor ends it', async () => {
  const args = { purpose: 'task-foreign' };
  const task = await begin(client, 'pay', args);
  await waiting(task);
  const bea = await scene.connectEarlier('bea/coder');
  const asks = (by: Client) => by.experimental.tasks;
  for (const refused of [
    asks(bea).getTask(task.taskId),
    asks(bea).getTaskResult(task.taskId, CallToolResultSchema),
    asks(bea).cancelTask(task.taskId),
  ])
    await expect(refused).rejects.toMatchObject(withCode(-32_602, 'No task of yours'));
  const other = await scene.connectEarlier('ann/other');
  await expect(asks(other).cancelTask(task.taskId)).rejects.toThrow('Another client');
  for (const each of [bea, other]) expect((await asks(each).listTasks()).tasks).toEqual([]);
  await decide(task);
  expect(textOf(await resultOf(other, task))).toContain('pay did');
  expect((await begin(client, 'pay', args)).taskId).toBe(task.taskId);
  expect(scene.bank.callsFor('task-foreign')).toHaveLength(1);
});

test('hostile ids and cursors find nothing, and start nothing', async () => {
  const own = await scene.world.countersign.call({
    runId: 'task-of-nobody',
    call: { server: 'bank', tool: 'lookup', arguments: { purpose: 'own' }, initiator: { id: 'ann' } },
  });
  await own.answer();
  const before = scene.bank.calls.length;
  const ids = [
    '',
    'task-of-nobody',
    'gate-',
    `gate-${'0'.repeat(36)}`,
    "gate-' OR 1=1",
    'gate/default/x',
    '\u0000',
    '../x',
  ];
  for (const taskId of [...ids, `gate-00000000-0000-0000-0000-${'0'.repeat(12)}`, 'x'.repeat(100_000)]) {
    const { tasks } = client.experimental;
    for (const asked of [
      tasks.getTask(taskId),
      tasks.getTaskResult(taskId, CallToolResultSchema),
      tasks.cancelTask(taskId),
    ])
      await expect(asked).rejects.toMatchObject({ code: -32_602 });
  }
  for (const cursor of ['x', "' OR 1=1", 'A'.repeat(400), 'x'.repeat(100_000)])
    await expect(client.experimental.tasks.listTasks(cursor)).rejects.toMatchObject({ code: -32_602 });
  expect(scene.bank.calls).toHaveLength(before);
});

test('a task is kept for as long as the gate says, whatever its client asks for; what is no time is refused', async () => {
  const task = await begin(client, 'pay', { purpose: 'task-ttl' }, 1);
  // A run may last for 30 days, and Temporal keeps what is over for a day here.
  expect(task.ttl).toBe((30 + 1) * 86_400_000);
  expect(Date.now() - Date.parse(task.createdAt)).toBeLessThan(60_000);
  expect(await client.experimental.tasks.getTask(task.taskId)).toMatchObject({
    status: 'working',
    createdAt: task.createdAt,
  });
  await decide(task);
  const { ttl, lastUpdatedAt, createdAt } = await ended(client, task);
  expect(ttl).toBe(Date.parse(lastUpdatedAt) - Date.parse(createdAt) + 86_400_000);
  for (const wrong of ['soon', {}]) {
    // Sound: the client sends what it is given.
    const params = { name: 'bank__pay', arguments: { purpose: 'task-ttl' }, task: { ttl: wrong as number } };
    const answer = client.request({ method: 'tools/call', params }, CallToolResultSchema);
    await expect(answer).rejects.toMatchObject({ code: -32_602 });
  }
  expect(scene.bank.callsFor('task-ttl')).toHaveLength(1);
});

test('the tool that tells of waiting calls cannot be called as a task', async () => {
  const task = await begin(client, 'pay', { purpose: 'task-own-tool' });
  const refused = { name: 'countersign_result', arguments: { reference: task.taskId } };
  const stream = client.experimental.tasks.callToolStream(refused, CallToolResultSchema, { task: {} });
  expect(await stream.next()).toMatchObject({ value: { type: 'error', error: { code: -32_601 } } });
});

test('lists the tasks of this client alone, page by page', async () => {
  const args = Array.from({ length: 12 }, (_, index) => ({ purpose: `task-listed-${index}` }));
  const made = await Promise.all(args.map(async (each) => (await begin(client, 'pay', each)).taskId));
  const listed = async (): Promise<readonly string[]> => {
    const ids: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await client.experimental.tasks.listTasks(cursor);
      ids.push(...page.tasks.map(({ taskId }) => taskId));
      cursor = page.nextCursor;
    } while (cursor !== undefined);
    return ids;
  };
  await until(async () => await listed().then((ids) => made.every((id) => ids.includes(id))), { what: 'all tasks' });
});

test('a call that will not be made has no task: its client learns why', async () => {
  const params = { name: 'bank__pay', arguments: { purpose: 'x'.repeat(200_000) } };
  const stream = client.experimental.tasks.callToolStream(params, CallToolResultSchema, { task: {} });
  expect(await stream.next()).toMatchObject({
    value: { type: 'error', error: { code: -32_602, message: expect.stringContaining('ARGUMENTS_TOO_LARGE') } },
  });
});
