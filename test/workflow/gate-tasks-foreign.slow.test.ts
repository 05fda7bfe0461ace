/**
 * Clients that no one here wrote make calls as tasks: the Python SDK over HTTP, and the 1.x SDK over stdio. The judge
 * is the MCP server behind the gate (INV-S1, INV-X1).
 */
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { CallToolResultSchema } from '@modelcontextprotocol/sdk/types.js';
import { type Arguments, INSTALL_MS, stdioOf } from '../support/foreign/clients.ts';
import { pythonTasks, type TaskClient } from '../support/foreign/tasks.ts';
import { type ForeignWorld, startForeignWorld } from '../support/foreign/world.ts';
import { replayOwn } from '../support/world/run-record.ts';

jest.setTimeout(240_000);

let python: TaskClient;
let scene: ForeignWorld;

beforeAll(async () => {
  python = await pythonTasks();
  scene = await startForeignWorld();
}, INSTALL_MS);
afterAll(async () => {
  await replayOwn(scene.world);
  await scene.stop();
});

async function begin(tool: string, args: Arguments): Promise<string> {
  const said = await python.begin(scene, tool, args).said;
  const [, taskId = ''] = /^working (gate-\S+)$/m.exec(said) ?? [];
  if (taskId === '') throw new Error(said);
  return taskId;
}

test('the Python SDK finds its task after the worker was killed and the gateways were replaced', async () => {
  const args = { purpose: 'py-killed' };
  const taskId = await begin('pay', args);
  expect(await begin('pay', args)).toBe(taskId);
  await scene.worker.kill();
  await scene.restartGateways();
  scene.worker = await scene.world.startWorker();
  expect(await python.list(scene).said).toContain(taskId);
  const following = python.follow(scene, taskId);
  await scene.decide('pay', args);
  const said = await following.said;
  expect(said).toContain('completed None');
  expect(said).toContain('False pay did');
  expect(scene.bank.callsFor('py-killed')).toHaveLength(1);
});

test('the Python SDK reads why a call was rejected, and cancels one that waits', async () => {
  const rejected = { purpose: 'py-rejected' };
  const taskId = await begin('pay', rejected);
  await scene.decide('pay', rejected, 'reject');
  expect(await python.follow(scene, taskId).said).toContain('failed Not executed: a person rejected this call');
  const cancelled = await begin('pay', { purpose: 'py-cancelled' });
  await scene.runOf('pay', { purpose: 'py-cancelled' });
  const said = await python.cancel(scene, cancelled).said;
  expect(said).toContain('cancelled');
  expect(await python.follow(scene, cancelled).said).toContain('before it ran');
  for (const purpose of ['py-rejected', 'py-cancelled']) expect(scene.bank.callsFor(purpose)).toEqual([]);
});

test('the 1.x SDK over stdio makes a task, and another process of the gate cancels or finds it', async () => {
  const connected = async (): Promise<Client> => {
    const client = new Client({ name: 'foreign', version: '1' });
    await client.connect(new StdioClientTransport(stdioOf(scene, 'short')));
    return client;
  };
  const first = await connected();
  const ids: string[] = [];
  for (const purpose of ['stdio-found', 'stdio-cancelled'])
    for await (const message of first.experimental.tasks.callToolStream(
      { name: 'bank__pay', arguments: { purpose } },
      CallToolResultSchema,
      { task: {} },
    )) {
      if (message.type !== 'taskCreated') throw new Error(message.type);
      ids.push(message.task.taskId);
      break;
    }
  await first.close();
  const [found = '', cancelled = ''] = ids;
  const second = await connected();
  const { tasks } = second.experimental;
  const result = tasks.getTaskResult(found, CallToolResultSchema);
  await scene.decide('pay', { purpose: 'stdio-found' });
  expect(await result).toMatchObject({ content: [{ text: expect.stringContaining('pay did') }] });
  expect(await tasks.cancelTask(cancelled)).toMatchObject({ status: 'cancelled' });
  await second.close();
  expect(scene.bank.callsFor('stdio-found')).toHaveLength(1);
  expect(scene.bank.callsFor('stdio-cancelled')).toEqual([]);
});
