/**
 * The agent of llama-stack calls through the gate, as an MCP client that no one here wrote, with headers that each of
 * its requests brings (S1.1, S1.4, S4.8). It knows nothing of approvals: the judge is the MCP server behind the gate.
 */
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import { ticketIdOf } from '../../domain/gate/ticket.ts';
import { INSTALL_MS } from '../support/foreign/clients.ts';
import { callBy, type LlamaStack, startLlamaStack } from '../support/foreign/llama-stack.ts';
import { type SseBridge, startSseBridge } from '../support/foreign/sse-bridge.ts';
import { type ForeignWorld, type Hold, startForeignWorld } from '../support/foreign/world.ts';
import { type KeyName, secretOf } from '../support/scenes/gate-world.ts';
import { until } from '../support/until.ts';
import { replayOwn } from '../support/world/run-record.ts';
import { decideNext } from '../support/world/world.ts';

jest.setTimeout(120_000);

let stack: LlamaStack;
let scene: ForeignWorld;
let bridges: Readonly<Record<Hold, SseBridge>>;

beforeAll(async () => {
  stack = await startLlamaStack();
  scene = await startForeignWorld();
  const bridge = async (hold: Hold) => await startSseBridge(() => `${scene.gateways[hold].url}/mcp`);
  bridges = { short: await bridge('short'), long: await bridge('long') };
}, INSTALL_MS);
afterAll(async () => {
  await replayOwn(scene.world);
  await Promise.all([bridges.short.close(), bridges.long.close(), stack.close()]);
  await scene.stop();
});

interface Calling {
  readonly by?: KeyName;
  readonly headers?: Readonly<Record<string, string>>;
  readonly hold?: Hold;
}

function headersOf(by: KeyName): Readonly<Record<string, string>> {
  return { Authorization: `Bearer ${secretOf(by)}` };
}

/** Lets the agent make this call, and returns what its model was told. */
async function call(tool: string, purpose: string, calling: Calling = {}): Promise<string> {
  const { status, said } = await answerTo(tool, purpose, calling);
  expect(status).toBe(200);
  return said;
}

async function answerTo(tool: string, purpose: string, { by = 'ann/coder', headers, hold = 'long' }: Calling) {
  const url = bridges[hold].url;
  const asking = { url, headers: headers ?? headersOf(by), tool: `bank__${tool}`, arguments: { purpose } };
  return await callBy(stack, asking);
}

function executions(purpose: string): number {
  return scene.bank.callsFor(purpose).length;
}

/** Makes a call that is held for a moment, and again until people are asked: a busy machine needs longer than that. */
async function waiting(purpose: string): Promise<void> {
  const isAsked = async () => (await call('pay', purpose, { hold: 'short' })).includes('has not run');
  await until(isAsked, { what: `a question about ${purpose}` });
}

/** Waits until this person's call has a run, and lets Ben decide. */
async function decide(person: string, args: JsonObject, kind: 'approve' | 'reject'): Promise<void> {
  const paid = { tenant: 'default', person, server: 'bank', tool: 'pay', arguments: args, client: 'key/coder' };
  const tickets = scene.world.countersign.tickets(60);
  const ticket = await until(async () => await tickets.find(ticketIdOf(paid)), { what: `the ticket of ${person}` });
  await decideNext(scene.world.countersign.run(ticket.runId), 'ben', kind);
}

test('it sees what the gate offers, and what needs nobody is called at once', async () => {
  expect(await call('lookup', 'allowed')).toContain('lookup did {');
  expect(executions('allowed')).toBe(1);
});

test('a denied call is never made, and its model is told so', async () => {
  expect(await call('bare', 'denied')).toContain('denied');
  expect(executions('denied')).toBe(0);
});

test('a call that waits is found by the same call, before the decision and after it', async () => {
  await waiting('later');
  expect(await call('pay', 'later', { hold: 'short' })).toContain('has not run');
  expect(executions('later')).toBe(0);
  await decide('ann', { purpose: 'later' }, 'approve');
  expect(await call('pay', 'later')).toContain('pay did {');
  expect(executions('later')).toBe(1);
});

test('a call that is approved while it is held is answered with what the server said', async () => {
  const calling = call('pay', 'in-time');
  await decide('ann', { purpose: 'in-time' }, 'approve');
  expect(await calling).toContain('pay did {');
  expect(executions('in-time')).toBe(1);
});

test('a rejected call, and one that nobody decides, never arrive, and its model is told why', async () => {
  const calling = call('pay', 'rejected');
  await decide('ann', { purpose: 'rejected' }, 'reject');
  expect(await calling).toContain('a person rejected this call');
  expect(await call('odd', 'expired')).toContain('nobody decided before');
  expect([executions('rejected'), executions('expired')]).toEqual([0, 0]);
});

describe('headers of a request', () => {
  test('S1.1: say who calls: the same call of two people is two calls, and each is decided for itself', async () => {
    const args = { purpose: 'both' };
    const [ann, bea] = [call('pay', 'both'), call('pay', 'both', { by: 'bea/coder' })];
    await decide('bea', args, 'reject');
    await decide('ann', args, 'approve');
    expect(await ann).toContain('pay did {');
    expect(await bea).toContain('a person rejected this call');
    expect(executions('both')).toBe(1);
  });

  test('that show no key, or one that is not known, open nothing', async () => {
    for (const headers of [{}, { Authorization: 'Bearer nobody' }]) {
      const { status } = await answerTo('lookup', 'stranger', { headers });
      expect(status).toBeGreaterThanOrEqual(400);
    }
    expect(executions('stranger')).toBe(0);
  });

  test('S1.4: end at the gate: no server gets the key', () => {
    expect(scene.bank.calls.length).toBeGreaterThan(0);
    expect(JSON.stringify(scene.bank.calls.map(({ headers }) => headers))).not.toContain('gate-key');
  });
});

test('a call waits on while its worker is killed and its gateways are replaced', async () => {
  await waiting('killed');
  await scene.worker.kill();
  await scene.restartGateways();
  scene.worker = await scene.world.startWorker();
  const calling = call('pay', 'killed');
  await decide('ann', { purpose: 'killed' }, 'approve');
  expect(await calling).toContain('pay did {');
  expect(executions('killed')).toBe(1);
});
