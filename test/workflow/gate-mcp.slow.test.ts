/** The gate as an MCP server: calls of agents that run elsewhere are judged, asked about, made once, and found again. */
import { beforeAll, expect, test } from '@jest/globals';
import type { CallToolResult, Client } from '@modelcontextprotocol/client';
import { startGateWorld } from '../support/scenes/gate-world.ts';
import { decisionOn, openRequests } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';
import { resetRun } from '../support/world/reset.ts';

let client: Client;

const scene = during(() => startGateWorld());
beforeAll(async () => {
  client = await scene.connect('ann/coder');
});

interface Told {
  readonly reference: string;
  readonly status: string;
}

async function call(by: Client, tool: string, args: Record<string, unknown>, reference?: string) {
  const meta = reference === undefined ? {} : { _meta: { 'countersign/reference': reference } };
  const result = await by.callTool({ name: `bank__${tool}`, arguments: args, ...meta });
  return { ...toldIn(result), result, text: textOf(result) };
}

function toldIn({ _meta: meta }: CallToolResult): Told {
  // Sound: tests compare what they use of it.
  return meta?.['countersign/call'] as Told;
}

function textOf({ content }: CallToolResult): string {
  return content.map((part) => (part.type === 'text' ? part.text : part.type)).join('\n');
}

async function approve(runId: string, by = 'ben'): Promise<void> {
  const run = scene.world.countersign.run(runId);
  const [request] = await openRequests(run);
  await run.decide(decisionOn(request, by));
}

test('offers what the catalog lets agents use, under lossless names, and a tool that tells of waiting calls', async () => {
  const { tools } = await client.listTools();
  expect(tools.map(({ name }) => name).toSorted()).toEqual(
    ['big', 'fail', 'lookup', 'odd', 'pay', 'slow', 'transfer', 'bare']
      .map((name) => `bank__${name}`)
      .concat('countersign_result')
      .toSorted(),
  );
  const alone = await scene.connect('ann/coder', '/bank');
  expect((await alone.listTools()).tools.map(({ name }) => name)).toContain('pay');
});

test('a call that needs nobody is made at once, and each equal one anew', async () => {
  const first = await call(client, 'lookup', { purpose: 'read' });
  expect(first).toMatchObject({ status: 'succeeded', text: 'lookup did {"purpose":"read"}' });
  expect((await call(client, 'lookup', { purpose: 'read' })).reference).not.toBe(first.reference);
  expect(scene.bank.callsFor('read')).toHaveLength(2);
});

test('a reference reads the outcome of its own call alone, and runs nothing', async () => {
  const args = { purpose: 'by-reference' };
  const { reference } = await call(client, 'pay', args);
  const asked = async (by: Client, value: string) =>
    await by.callTool({ name: 'countersign_result', arguments: { reference: value } });
  expect(await call(client, 'pay', { purpose: 'by-reference', amount: 9 }, reference)).toMatchObject({
    result: { isError: true },
    text: expect.stringContaining('is of another call'),
  });
  const bea = await scene.connect('bea/coder');
  expect(await asked(bea, reference)).toMatchObject({
    isError: true,
    content: [{ text: expect.stringContaining('CALL_UNKNOWN') }],
  });
  expect(await asked(client, 'gate-00000000-0000-0000-0000-000000000000')).toMatchObject({ isError: true });
  expect(await asked(client, reference)).toMatchObject({ _meta: { 'countersign/call': { status: 'waiting' } } });
  await approve(reference);
  expect(await call(client, 'pay', args, reference)).toMatchObject({ status: 'succeeded' });
  expect(await asked(client, reference)).toMatchObject({ content: [{ text: 'pay did {"purpose":"by-reference"}' }] });
  expect(scene.bank.callsFor('by-reference')).toHaveLength(1);
  // Its outcome was delivered, so this is another call.
  expect((await call(client, 'pay', args)).reference).not.toBe(reference);
});

test('another client of the same person may read, and takes nothing away from the one whose call it is', async () => {
  const args = { purpose: 'two-clients' };
  const { reference } = await call(client, 'pay', args);
  const other = await scene.connect('ann/other');
  await approve(reference);
  const read = await other.callTool({ name: 'countersign_result', arguments: { reference } });
  expect(toldIn(read)).toMatchObject({ status: 'succeeded' });
  expect(await call(client, 'pay', args)).toMatchObject({ status: 'succeeded', reference });
  expect(scene.bank.callsFor('two-clients')).toHaveLength(1);
});

test('equal calls at one moment, through two gateways, are one', async () => {
  const args = { purpose: 'at-once' };
  const second = await scene.another();
  const clients = [client, await scene.connect('ann/coder', '', second), await scene.connect('ann/coder')];
  const told = await Promise.all(clients.map(async (each) => await call(each, 'pay', args)));
  expect(new Set(told.map(({ reference }) => reference)).size).toBe(1);
  expect(await openRequests(scene.world.countersign.run(told[0]?.reference ?? ''))).toHaveLength(1);
  await approve(told[0]?.reference ?? '');
  expect(await call(clients[1] ?? client, 'pay', args)).toMatchObject({ status: 'succeeded' });
  expect(scene.bank.callsFor('at-once')).toHaveLength(1);
  await second.stop();
});

test('a gateway that stops in mid-call says that it goes on, and has delivered nothing', async () => {
  const args = { purpose: 'stopped-in-between' };
  const second = await scene.another({ holdSeconds: 600 });
  const held = await scene.connect('ann/coder', '', second);
  const waiting = call(held, 'slow', args);
  await scene.bank.held('stopped-in-between');
  await second.stop();
  const { status, reference } = await waiting;
  expect(status).toBe('running');
  scene.bank.release('stopped-in-between');
  expect(await call(client, 'slow', args)).toMatchObject({ status: 'succeeded', reference });
  expect(scene.bank.callsFor('stopped-in-between')).toHaveLength(1);
});

test('a call whose run was stopped while it waited did not run, and a ticket lives as long as a run may', async () => {
  const args = { purpose: 'stopped-run' };
  const { reference } = await call(client, 'pay', args);
  const { client: temporal, countersign } = scene.world;
  await countersign.run(reference).stop({ by: 'ann', reason: 'enough' });
  const told = await call(client, 'pay', args);
  expect(told).toMatchObject({ status: 'cancelled', reference, result: { isError: true } });
  expect(told.text).toContain('Not executed (RUN_CANCELLED): it was stopped (enough) before it ran');
  const anew = await call(client, 'pay', args);
  expect(anew.reference).not.toBe(reference);
  const execution = anew.reference.replace('gate-', '');
  for await (const { workflowId, runId } of temporal.workflow.list({ query: "WorkflowType = 'callTicket'" })) {
    if (runId !== execution) continue;
    const { raw } = await temporal.workflow.getHandle(workflowId, runId).describe();
    expect(Number(raw.executionConfig?.workflowExecutionTimeout?.seconds)).toBe(2_592_000 + 604_800);
    return;
  }
  throw new Error('visibility lists no ticket of that call');
});

test('a call whose run was stopped while it was under way is not known to have run', async () => {
  const args = { purpose: 'stopped-in-flight' };
  const { reference } = await call(client, 'slow', args);
  await scene.bank.held('stopped-in-flight');
  await scene.world.countersign.run(reference).stop({ by: 'ann', reason: 'enough', inFlight: 'cancel' });
  await scene.world.countersign.run(reference).result();
  const told = await call(client, 'slow', args);
  expect(told).toMatchObject({ status: 'unknown', reference, result: { isError: true } });
  expect(told.text).toContain('It is not known whether this call was executed');
  scene.bank.release('stopped-in-flight');
  expect(scene.bank.callsFor('stopped-in-flight')).toHaveLength(1);
});

test('what stands under the id of a call counts only if it was started for the call', async () => {
  const args = { purpose: 'planted' };
  const { reference } = await call(client, 'pay', args);
  const { client: temporal, config } = scene.world;
  const { memo } = await temporal.workflow.getHandle(reference).describe();
  const ticketId = String(memo?.['countersignTicket']);
  const lies = await scene.world.countersign.call({
    runId: 'lies',
    call: { server: 'bank', tool: 'lookup', arguments: args, initiator: { id: 'mallory' } },
  });
  await lies.answer();
  await temporal.workflow.getHandle(ticketId).terminate('by a writer to the namespace');
  const planted = { workflowId: ticketId, taskQueue: config.taskQueue, memo: { countersignRun: 'lies' } };
  await temporal.workflow.start('callTicket', planted);
  await expect(call(client, 'pay', args)).rejects.toThrow('RUN_ID_CONFLICT');
  expect(scene.bank.callsFor('planted', 'pay')).toEqual([]);
});

test('a rejection and a denial are errors that a model reads; other people and clients have calls of their own', async () => {
  const args = { purpose: 'refused' };
  const { reference } = await call(client, 'pay', args);
  const run = scene.world.countersign.run(reference);
  const [request] = await openRequests(run);
  const { kind: _, ...decision } = decisionOn(request, 'ben');
  const other = await scene.connect('ann/other');
  const bea = await scene.connect('bea/coder');
  const references = [(await call(other, 'pay', args)).reference, (await call(bea, 'pay', args)).reference];
  expect(new Set([reference, ...references]).size).toBe(3);
  await run.decide({ ...decision, kind: 'reject', reason: 'not today' });
  expect(await call(client, 'pay', args)).toMatchObject({
    status: 'rejected',
    result: { isError: true },
    text: expect.stringContaining('not today'),
  });
  expect(await call(client, 'bare', args)).toMatchObject({ status: 'denied', result: { isError: true } });
  expect(scene.bank.callsFor('refused')).toEqual([]);
});

test('what waits outlives the gateway and the workers', async () => {
  const args = { purpose: 'restarted' };
  const { reference } = await call(client, 'pay', args);
  await Promise.all([scene.restartGateway(), scene.world.restartWorkers()]);
  const back = await scene.connect('ann/coder');
  expect(await call(back, 'pay', args)).toMatchObject({ status: 'waiting', reference });
  await approve(reference);
  expect(await call(back, 'pay', args)).toMatchObject({ status: 'succeeded', reference });
  expect(scene.bank.callsFor('restarted')).toHaveLength(1);
  client = back;
});

test('a ticket that was reset stays that of its call: an equal call makes no second one', async () => {
  const args = { purpose: 'reset' };
  const { reference } = await call(client, 'pay', args);
  const { client: temporal } = scene.world;
  const { memo } = await temporal.workflow.getHandle(reference).describe();
  await resetRun(temporal, { workflowId: String(memo?.['countersignTicket']) });
  expect(await call(client, 'pay', args)).toMatchObject({ status: 'waiting', reference });
  await approve(reference);
  expect(await call(client, 'pay', args)).toMatchObject({ status: 'succeeded', reference });
  expect((await call(client, 'pay', args)).reference).not.toBe(reference);
  expect(scene.bank.callsFor('reset')).toHaveLength(1);
});

test('a client that goes while its call runs gets the outcome of that call when it comes back', async () => {
  const args = { purpose: 'gone' };
  const leaving = await scene.connect('ann/coder');
  const lost = call(leaving, 'slow', args).catch(() => 'lost');
  await scene.bank.held('gone');
  await leaving.close();
  expect(await lost).toBe('lost');
  scene.bank.release('gone');
  expect(await call(client, 'slow', args)).toMatchObject({ status: 'succeeded' });
  expect(scene.bank.callsFor('gone')).toHaveLength(1);
  expect(await call(client, 'slow', args)).toMatchObject({ status: 'succeeded' });
  expect(scene.bank.callsFor('gone')).toHaveLength(2);
});
