/**
 * `dispatch: on-return`: an approved call of an MCP client leaves only while its client is there, and is checked anew
 * then (INV-G1, INV-X1).
 */
import { beforeAll, expect, test } from '@jest/globals';
import type { Client } from '@modelcontextprotocol/client';
import { CallToolResultSchema } from '@modelcontextprotocol/sdk/types.js';
import type { RunHandle } from '../../client/index.ts';
import { startGateWorld } from '../support/scenes/gate-world.ts';
import { until } from '../support/until.ts';
import { factsOf } from '../support/world/run-record.ts';
import { decisionOn, openRequests } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

let client: Client;

const scene = during(() => startGateWorld({ dispatch: 'on-return' }));
beforeAll(async () => {
  client = await scene.connect('ann/coder');
});

/** Makes a call, and the same again while it is under way: a busy machine may need longer than a client is held. */
async function call(by: Client, purpose: string, tool = 'pay') {
  return await until(
    async () => {
      const { _meta: meta } = await by.callTool({ name: `bank__${tool}`, arguments: { purpose, amount: 1 } });
      // Sound: tests compare what they use of it.
      const told = meta?.['countersign/call'] as { readonly reference: string; readonly status: string };
      return told.status === 'running' ? undefined : told;
    },
    { what: `the end of ${purpose}, or a question to people` },
  );
}

async function approve(run: RunHandle): Promise<void> {
  const [request] = await openRequests(run);
  await run.decide(decisionOn(request, 'ben'));
}

/** Makes the run take tasks, and continue as new: what could leave has left by then. */
async function rolled({ runId }: Pick<RunHandle, 'runId'>): Promise<void> {
  const handle = scene.world.client.workflow.getHandle(runId);
  const { runId: before } = await handle.describe();
  await handle.signal('nudge');
  await until(async () => (await handle.describe()).runId !== before, { what: `continue-as-new of ${runId}` });
}

const executions = (purpose: string): number => scene.bank.callsFor(purpose).length;

test('an approved call waits for its client, through continue-as-new and other workers, and leaves once when it is back', async () => {
  const { reference, status } = await call(client, 'later');
  expect(status).toBe('waiting');
  const run = scene.world.countersign.run(reference);
  await approve(run);
  await rolled(run);
  await scene.world.restartWorkers();
  await rolled(run);
  expect(executions('later')).toBe(0);
  expect(factsOf(await run.ledger(), 'dispatched')).toEqual([]);
  expect(await call(client, 'later')).toMatchObject({ reference, status: 'succeeded' });
  expect(executions('later')).toBe(1);
});

test('a call that is approved while its client is held leaves at once; one that needs nobody always does', async () => {
  const gateway = await scene.another({ holdSeconds: 30 });
  const held = await scene.connect('ann/coder', '', gateway);
  const calling = call(held, 'held');
  const [id] = await until(
    async () => {
      const waiting = await scene.world.countersign.waiting();
      const own = waiting.filter(({ runId }) => runId.startsWith('gate-'));
      return own.length > 0 ? own.map(({ runId }) => runId) : undefined;
    },
    { what: 'the call in the inbox' },
  );
  await approve(scene.world.countersign.run(id ?? ''));
  expect(await calling).toMatchObject({ reference: id, status: 'succeeded' });
  expect(executions('held')).toBe(1);
  expect(await call(client, 'needs nobody', 'fail')).toMatchObject({ status: 'failed' });
  expect(executions('needs nobody')).toBe(1);
  await held.close();
  await gateway.stop();
});

test('another client of the same person reads, and lets nothing leave; nor does a word that is no time', async () => {
  const { reference } = await call(client, 'other');
  const run = scene.world.countersign.run(reference);
  await approve(run);
  const other = await scene.connect('ann/other');
  const told = await other.callTool({ name: 'countersign_result', arguments: { reference } });
  expect(told._meta?.['countersign/call']).toMatchObject({ reference, status: 'running' });
  const handle = scene.world.client.workflow.getHandle(reference);
  for (const word of ['soon', null, 1.5, { until: Date.now() + 60_000 }, Date.now() - 1])
    await handle.signal('present', word);
  await rolled(run);
  expect(executions('other')).toBe(0);
  expect(await call(client, 'other')).toMatchObject({ reference, status: 'succeeded' });
  expect(executions('other')).toBe(1);
});

test('a call that is stopped while it waits for its client never leaves, and an equal one is a new one', async () => {
  const { reference } = await call(client, 'stopped');
  const run = scene.world.countersign.run(reference);
  await approve(run);
  await run.stop({ by: 'ann', reason: 'enough' });
  await run.result();
  expect(await call(client, 'stopped')).toMatchObject({ reference, status: 'cancelled' });
  expect((await call(client, 'stopped')).reference).not.toBe(reference);
  expect(executions('stopped')).toBe(0);
});

test('an approval that has lapsed when the client is back is asked for again, and starts nothing', async () => {
  const first = await call(client, 'lapsed', 'transfer');
  expect(first).toMatchObject({ status: 'waiting' });
  const { reference } = first;
  const run = scene.world.countersign.run(reference);
  const [request] = await openRequests(run);
  if (request === undefined) throw new Error('it is asked');
  await run.decide(decisionOn(request, 'ben'));
  const decidedAt = Date.now();
  await until(async () => Date.now() > decidedAt + 2_000, { what: 'the end of the approval' });
  expect(await call(client, 'lapsed', 'transfer')).toMatchObject({ reference, status: 'waiting' });
  expect(executions('lapsed')).toBe(0);
  const again = await until(async () => (await run.requests()).find(({ digest }) => digest !== request.digest), {
    what: 'the second request',
  });
  expect(again.reopenedBecause).toContain('APPROVAL_LAPSED');
  await run.decide(decisionOn(again, 'ben'));
  expect(await call(client, 'lapsed', 'transfer')).toMatchObject({ reference, status: 'succeeded' });
  expect(executions('lapsed')).toBe(1);
});

test('a task that its client asks about leaves once it is approved', async () => {
  const earlier = await scene.connectEarlier('ann/coder');
  const stream = earlier.experimental.tasks.callToolStream(
    { name: 'bank__pay', arguments: { purpose: 'task' } },
    CallToolResultSchema,
    { task: {} },
  );
  const kinds: string[] = [];
  let isApproved = false;
  for await (const message of stream) {
    kinds.push(message.type);
    if (message.type !== 'taskStatus' || isApproved) continue;
    const run = scene.world.countersign.run(message.task.taskId);
    if ((await run.requests()).length === 0) continue;
    await approve(run);
    isApproved = true;
  }
  expect(kinds.at(-1)).toBe('result');
  expect(executions('task')).toBe(1);
});

test('a client that is back in the very task in which the run hands over is told to the next execution: nothing leaves in between', async () => {
  const { reference } = await call(client, 'both');
  const run = scene.world.countersign.run(reference);
  await approve(run);
  await rolled(run);
  // Its next execution waits for the client by now.
  await run.requests();
  await scene.world.workers.stop();
  const handle = scene.world.client.workflow.getHandle(reference);
  const { runId: before } = await handle.describe();
  await handle.signal('nudge');
  await handle.signal('present', Date.now() + 60_000);
  await scene.world.restartWorkers();
  expect(await run.result()).toMatchObject({ status: 'completed' });
  expect((await handle.describe()).runId).not.toBe(before);
  const kinds = (await run.ledger()).map(({ fact }) => fact.kind);
  expect(kinds.lastIndexOf('run.rolled')).toBeLessThan(kinds.indexOf('dispatched'));
  expect(factsOf(await run.ledger(), 'outcome')).toMatchObject([{ outcome: 'succeeded' }]);
  expect(executions('both')).toBe(1);
});
