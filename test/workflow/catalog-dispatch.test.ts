/** What the catalog says when a call would leave is what counts, for each server by itself (S3.3, S3.5, INV-G1). */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import { ADMINISTRATORS, changed, connected } from '../support/scenes/catalogs.ts';
import { startEngine, type TestEngine } from '../support/engine.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import { ledgerShows, outcomes } from '../support/world/run-record.ts';
import { decisionOn, openRequests, startWorld, type World } from '../support/world/world.ts';

let engine: TestEngine;
let bank: RecordingServer;
/** Serves runs and catalogs; calls of tools wait for somebody who serves their queue. */
let world: World;
let config: ConfigInput;

beforeAll(async () => {
  engine = await startEngine();
  bank = await startRecordingServer();
  const server = { url: bank.url, credentials: { kind: 'none' as const }, taskQueue: 'tools' };
  config = {
    policy: { strategy: 'never', servers: { bank: { tools: { lookup: 'ask' } } } },
    servers: { bank: server, twin: server },
    catalog: { administrators: ADMINISTRATORS, newTools: 'strategy' },
  };
  world = await startWorld({ engine, config, role: 'runs' });
});
afterAll(async () => {
  await world.stop();
  await bank.close();
  await engine.stop();
});

/** A worker for the tools, as long as it is needed. It has read nothing yet. */
async function withTools<T>(act: () => Promise<T>): Promise<T> {
  const tools = await startWorld({ engine, config, role: 'tools' });
  try {
    return await act();
  } finally {
    await tools.workers.stop();
  }
}

test('a tool that was turned to ask is asked about, and then called once', async () => {
  const catalog = world.countersign.catalog('bank');
  await withTools(async () => await connected(catalog, bank.url));
  const pay = { tool: 'bank/pay', arguments: { purpose: 'turned' } };
  const run = await world.start([{ calls: [{ tool: 'bank/lookup' }] }, { calls: [pay] }, { text: 'done' }]);
  const [first] = await withTools(async () => await openRequests(run));
  // Nobody serves the tools any more: the next call is allowed, and on its way to nobody.
  if (first !== undefined) await run.decide(decisionOn(first, 'ann', 'reject'));
  await ledgerShows(run, 'dispatched', 't2.c0');
  await changed(catalog, { tool: 'pay', requiresApproval: true });
  await withTools(async () => {
    const [request] = await openRequests(run);
    expect(request?.callId).toBe('t2.c0');
    expect(request).toMatchObject({ generation: 1, reopenedBecause: expect.stringContaining('VERDICT_STRICTER') });
    expect(bank.callsFor('turned')).toEqual([]);
    if (request !== undefined) await run.decide(decisionOn(request, 'ann'));
    await run.result();
  });
  expect(await outcomes(run)).toEqual({ 't1.c0': 'rejected', 't2.c0': 'succeeded' });
  expect(bank.callsFor('turned')).toHaveLength(1);
});

test('two servers with one tool name: each has its own policy (S3.5)', async () => {
  const twin = world.countersign.catalog('twin');
  await withTools(async () => {
    await connected(world.countersign.catalog('bank'), bank.url);
    await connected(twin, bank.url);
    await changed(world.countersign.catalog('bank'), { tool: 'pay', requiresApproval: false });
    await changed(twin, { tool: 'pay', denied: true });
  });
  await world.restartWorkers();
  const calls = ['bank/pay', 'twin/pay'].map((tool) => ({ tool, arguments: { purpose: 'twins' } }));
  const run = await world.start([{ calls }, { text: 'done' }]);
  await withTools(async () => await run.result());
  expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded', 't1.c1': 'denied' });
  expect(bank.callsFor('twins')).toHaveLength(1);
});
