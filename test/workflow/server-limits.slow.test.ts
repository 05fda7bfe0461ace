/** Limits that protect servers, over whole runs: what is over them waits by timer, and nothing of it is lost or sent twice. */
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import { compareWithHistory, readDeeds } from '../../client/ledger/history.ts';
import type { RunSpecInput } from '../../contracts/schemas/run-spec.ts';
import type { RunState } from '../../contracts/schemas/run-state.ts';
import { type CallExchange, type RawServer, startRawServer } from '../support/servers/raw-server.ts';
import { executions, factsOf, outcomes } from '../support/world/run-record.ts';
import { until } from '../support/until.ts';
import { decisionOn, openRequests, startWorld, type World } from '../support/world/world.ts';

/** Calls that are under way at a server, and how many there were at most. */
class Desk {
  readonly open: CallExchange[] = [];
  most = 0;

  take(exchange: CallExchange): void {
    exchange.execute();
    this.open.push(exchange);
    this.most = Math.max(this.most, this.open.length);
  }

  answerAll(): void {
    for (const exchange of this.open.splice(0)) exchange.result({ content: [{ type: 'text', text: 'done' }] });
  }
}

const TOOL = [{ name: 'do', description: 'Does it.', inputSchema: { type: 'object' } }];
const NAMES = ['busy', 'broken', 'asks', 'short'] as const;
type Name = (typeof NAMES)[number];

let servers: Readonly<Record<Name, RawServer>>;
let world: World;
let desk = new Desk();

function working(): Parameters<RawServer['become']>[0] {
  return { era: 'modern', pages: [TOOL], onCall: (exchange) => desk.take(exchange) };
}

beforeAll(async () => {
  const started = await Promise.all(NAMES.map(async (name) => [name, await startRawServer(working())] as const));
  // Sound: one for each name.
  servers = Object.fromEntries(started) as Record<Name, RawServer>;
  const of = (name: Name, limits?: object) =>
    ({ url: servers[name].url, credentials: { kind: 'none' }, limits }) as const;
  world = await startWorld({
    config: {
      policy: { strategy: 'never' },
      servers: {
        busy: of('busy', { concurrency: 2 }),
        broken: of('broken', { breaker: { failures: 2, withinSeconds: 600, openSeconds: 2 } }),
        asks: of('asks'),
        short: of('short', { concurrency: 1, waitSeconds: 2 }),
      },
    },
  });
});
afterEach(() => {
  desk.answerAll();
  desk = new Desk();
  for (const server of Object.values(servers)) server.become(working());
});
afterAll(async () => {
  await world.stop();
  for (const server of Object.values(servers)) await server.close();
});

async function start(name: Name, count: number, over: Partial<RunSpecInput> = {}): Promise<RunHandle> {
  const calls = Array.from({ length: count }, (_, index) => ({ tool: `${name}/do`, arguments: { index } }));
  return await world.start([{ calls }, { text: 'done' }], {
    servers: [{ name }],
    limits: { callsPerTurn: count, resultBytes: 1_024 },
    ...over,
  });
}

/** Its tools are listed and its calls wait for consent, which is given now: what its server holds back is the calls, not the list. */
async function startListed(name: Name, count: number): Promise<{ run: RunHandle; send: () => Promise<void> }> {
  const run = await start(name, count, { policy: { servers: { [name]: { default: 'ask' } } } });
  const requests = await openRequests(run, count);
  const send = async (): Promise<void> => {
    await Promise.all(requests.map(async (request) => await run.decide(decisionOn(request, 'ann'))));
  };
  return { run, send };
}

async function heldBy(run: RunHandle, by: string, count = 1): Promise<NonNullable<RunState['held']>> {
  return await until(
    async () => {
      const held = ((await run.state()).held ?? []).filter((each) => each.by === by);
      return held.length >= count ? held : undefined;
    },
    { what: `${count} calls of ${run.runId} held back by ${by}` },
  );
}

/** Answers what comes until the run is over. */
async function served(run: RunHandle): Promise<void> {
  let over = false;
  const result = run.result().finally(() => (over = true));
  await until(
    () => {
      desk.answerAll();
      return over ? true : undefined;
    },
    { what: `the end of ${run.runId}`, withinMs: 90_000 },
  );
  await result;
}

test('20 calls at once, and a server that takes 2: it never sees more, and each runs once', async () => {
  const before = servers.busy.executions();
  const run = await start('busy', 20);
  await heldBy(run, 'concurrency', 18);
  await served(run);
  expect(desk.most).toBe(2);
  expect(servers.busy.executions() - before).toBe(20);
  expect(Object.values(await outcomes(run))).toEqual(Array.from({ length: 20 }, () => 'succeeded'));
});

test('waiting is no attempt: a call that came back more often than it may be sent is sent, and succeeds', async () => {
  const run = await start('busy', 3);
  const { callId } = (await heldBy(run, 'concurrency'))[0] ?? {};
  await until(
    async () => {
      const dispatches = factsOf(await run.ledger(), 'dispatched').filter((fact) => fact.callId === callId);
      return dispatches.length > 6 ? true : undefined;
    },
    { what: 'the seventh dispatch' },
  );
  // However often it came: the ledger has it once.
  expect(factsOf(await run.ledger(), 'held').filter((fact) => fact.callId === callId)).toHaveLength(1);
  await served(run);
  expect(new Set(Object.values(await outcomes(run)))).toEqual(new Set(['succeeded']));
});

test('stopped while it waits, it is cancelled and never sent', async () => {
  const before = servers.busy.executions();
  const run = await start('busy', 3);
  await heldBy(run, 'concurrency');
  await run.stop({ by: 'ann', reason: 'enough' });
  await served(run);
  expect(Object.values(await outcomes(run)).toSorted()).toEqual(['cancelled', 'succeeded', 'succeeded']);
  expect(servers.busy.executions() - before).toBe(2);
  // What was dispatched for nothing is no other story than history tells.
  const ledger = await run.ledger();
  const deeds = await readDeeds(world.client, run.runId);
  expect(compareWithHistory({ before: ledger, after: ledger }, deeds)).toEqual([]);
});

test('a message that interrupts is read before anything that waits is sent', async () => {
  const before = servers.busy.executions();
  const run = await start('busy', 3);
  await heldBy(run, 'concurrency');
  await run.say({ messageId: 'm-1', from: 'ann', text: 'Wait.', interrupt: true });
  await served(run);
  expect(Object.values(await outcomes(run)).toSorted()).toEqual(['cancelled', 'succeeded', 'succeeded']);
  expect(servers.busy.executions() - before).toBe(2);
});

test('a run whose only open call waits for its server continues as new, and waits on (INV-D3)', async () => {
  const { run, send } = await startListed('busy', 1);
  const other = await start('busy', 2);
  await until(() => (desk.open.length === 2 ? true : undefined), { what: 'two calls under way' });
  await send();
  await heldBy(run, 'concurrency');
  await world.client.workflow.getHandle(run.runId).signal('nudge');
  await until(async () => ((await executions(world, run.runId)).length > 1 ? true : undefined), {
    what: 'the next execution',
  });
  expect(await heldBy(run, 'concurrency')).toHaveLength(1);
  await served(other);
  await served(run);
  expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
});

test("whoever waits longer than the server's waitSeconds is told so, and was not sent", async () => {
  const before = servers.short.executions();
  const run = await start('short', 2);
  await until(async () => (factsOf(await run.ledger(), 'outcome').length === 1 ? true : undefined), {
    what: 'an outcome',
  });
  expect(factsOf(await run.ledger(), 'outcome')).toMatchObject([{ outcome: 'failed', code: 'TOOL_RATE_LIMITED' }]);
  await served(run);
  expect(servers.short.executions() - before).toBe(1);
});

test('a server that fails again and again is left alone; calls wait, and go on when it is back', async () => {
  // Sessions of the legacy era begin with a request of their own: refused there, a call was not sent.
  let isListed = false;
  servers.broken.become({
    ...working(),
    era: 'legacy',
    intercept: (_request, response, method) => {
      isListed ||= method === 'tools/list';
      if (!isListed || method !== 'initialize') return false;
      response.writeHead(500).end();
      return true;
    },
  });
  const run = await start('broken', 6);
  const [waiting] = await heldBy(run, 'breaker');
  expect(waiting).toMatchObject({ server: 'broken', tool: 'do', because: expect.stringContaining('again and again') });
  expect(servers.broken.executions()).toBe(0);
  servers.broken.become({ ...working(), era: 'legacy' });
  await served(run);
  expect(Object.values(await outcomes(run))).toEqual(Array.from({ length: 6 }, () => 'succeeded'));
  expect(servers.broken.executions()).toBe(6);
});

test('Retry-After of one call holds the others back, and none of them is lost', async () => {
  let refused = 0;
  servers.asks.become({
    ...working(),
    onCall: (exchange) => {
      if (refused > 0) return desk.take(exchange);
      refused += 1;
      exchange.status(503, { 'retry-after': '10' });
    },
  });
  const { run, send } = await startListed('asks', 3);
  const first = await start('asks', 1);
  await until(() => (refused === 1 ? true : undefined), { what: 'a refused call' });
  await send();
  await heldBy(run, 'retry-after', 3);
  await served(run);
  await served(first);
  expect(servers.asks.executions()).toBe(4);
  expect(refused).toBe(1);
});

test('a run that starts while its server has no place waits with its list, and goes on when there is one', async () => {
  const first = await start('busy', 2);
  await until(() => (desk.open.length === 2 ? true : undefined), { what: 'two calls under way' });
  const second = await start('busy', 1);
  await until(
    async () => {
      const { raw } = await world.client.workflow.getHandle(second.runId).describe();
      return raw.pendingActivities?.some(({ attempt }) => Number(attempt) > 2) === true ? true : undefined;
    },
    { what: 'the list to be held back' },
  );
  expect(factsOf(await second.ledger(), 'tools.discovered')).toEqual([]);
  await served(first);
  await served(second);
  expect(await outcomes(second)).toEqual({ 't1.c0': 'succeeded' });
});
