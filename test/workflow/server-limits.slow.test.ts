/**
 * Limits that protect servers, over whole runs: what is over them waits by timer, and nothing of it is lost or sent
 * twice. A server that is away when a run starts is waited for, visibly, for as long as the run may last (F8, INV-D3).
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import { compareWithHistory, readDeeds } from '../../client/ledger/history.ts';
import type { RunSpecInput } from '../../contracts/schemas/run-spec.ts';
import type { RunState } from '../../contracts/schemas/run-state.ts';
import { commandsAt, documentOf } from '../support/cli.ts';
import { withCode } from '../support/refusal.ts';
import { detailsOf, factsOf, outcomes, refusalOf } from '../support/world/run-record.ts';
import {
  type CallExchange,
  type RawServer,
  type RawServerScript,
  startRawServer,
} from '../support/servers/raw-server.ts';
import { until } from '../support/until.ts';
import { decisionOn, openRequests, rolled, startWorld, type World } from '../support/world/world.ts';

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
let files: RawServer;
let world: World;
let desk = new Desk();

function working(): Parameters<RawServer['become']>[0] {
  return { era: 'modern', pages: [TOOL], onCall: (exchange) => desk.take(exchange) };
}

beforeAll(async () => {
  const started = await Promise.all(NAMES.map(async (name) => [name, await startRawServer(working())] as const));
  files = await startRawServer({ era: 'modern' });
  // Sound: one for each name.
  servers = Object.fromEntries(started) as Record<Name, RawServer>;
  const of = (name: Name, limits?: object) =>
    ({ url: servers[name].url, credentials: { kind: 'none' }, limits }) as const;
  world = await startWorld({
    beside: [files, ...Object.values(servers)],
    config: {
      policy: { strategy: 'never', approvers: { ids: ['ann'] } },
      servers: {
        busy: of('busy', { concurrency: 2 }),
        broken: of('broken', { breaker: { failures: 2, withinSeconds: 600, openSeconds: 2 } }),
        asks: of('asks'),
        short: of('short', { concurrency: 1, waitSeconds: 2 }),
        files: { url: files.url, credentials: { kind: 'none' } },
        brief: { url: files.url, credentials: { kind: 'none' }, startWaitSeconds: 1 },
      },
    },
  });
});
afterEach(() => {
  desk.answerAll();
  desk = new Desk();
  for (const server of Object.values(servers)) server.become(working());
});
afterAll(async () => world.stop());

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
      return over;
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
      return dispatches.length > 6;
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
  await until(() => desk.open.length === 2, { what: 'two calls under way' });
  await send();
  await heldBy(run, 'concurrency');
  await rolled(world, run.runId);
  expect(await heldBy(run, 'concurrency')).toHaveLength(1);
  await served(other);
  await served(run);
  expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
});

test("whoever waits longer than the server's waitSeconds is told so, and was not sent", async () => {
  const before = servers.short.executions();
  const run = await start('short', 2);
  await until(async () => factsOf(await run.ledger(), 'outcome').length === 1, {
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
    sessions: true,
    intercept: (_request, response, method) => {
      isListed ||= method === 'tools/list';
      if (!isListed || (method !== 'initialize' && method !== 'tools/call')) return false;
      // The session of the run's list is gone, and no other one is opened.
      response.writeHead(method === 'initialize' ? 500 : 404).end();
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
  await until(() => refused === 1, { what: 'a refused call' });
  await send();
  await heldBy(run, 'retry-after', 3);
  await served(run);
  await served(first);
  expect(servers.asks.executions()).toBe(4);
  expect(refused).toBe(1);
});

test('a run that starts while its server has no place waits with its list, and goes on when there is one', async () => {
  const first = await start('busy', 2);
  await until(() => desk.open.length === 2, { what: 'two calls under way' });
  const second = await start('busy', 1);
  await until(
    async () => {
      const { raw } = await world.client.workflow.getHandle(second.runId).describe();
      return raw.pendingActivities?.some(({ attempt }) => Number(attempt) > 2) === true;
    },
    { what: 'the list to be held back' },
  );
  expect(factsOf(await second.ledger(), 'tools.discovered')).toEqual([]);
  await served(first);
  await served(second);
  expect(await outcomes(second)).toEqual({ 't1.c0': 'succeeded' });
});

describe('a server that is away when a run starts (F8)', () => {
  /** Requests since the server went away. */
  let tries = 0;

  const tool = { name: 'act', description: 'Acts.', inputSchema: { type: 'object' } };
  const there: RawServerScript = { era: 'modern', pages: [[tool]] };
  const away: RawServerScript = {
    ...there,
    intercept: (request) => {
      tries += 1;
      request.socket.destroy();
      return true;
    },
  };
  /** Takes requests, and says nothing. */
  const silent: RawServerScript = { ...there, intercept: () => ((tries += 1), true) };

  beforeEach(() => {
    tries = 0;
    files.become(away);
  });

  async function waiting(over: Partial<RunSpecInput> = {}, least = 2): Promise<RunHandle> {
    const steps = [{ calls: [{ tool: 'files/act' }] }, { text: 'done' }];
    const run = await world.start(steps, { servers: [{ name: 'files' }], ...over });
    await until(() => tries >= least, { what: `${least} tries` });
    return run;
  }

  test('it shows for which server it waits, and goes on when that is back', async () => {
    const run = await waiting();
    expect(await run.state()).toMatchObject({ status: 'preparing', listing: ['files'] });
    expect(await detailsOf(world, run.runId)).toContain('lists the tools of files');
    const [retry, ...others] = await run.retries();
    expect([retry, others]).toMatchObject([{ step: 'list tools of files', code: 'DISCOVERY_FAILED' }, []]);
    expect(retry?.attempt).toBeGreaterThan(1);
    expect(Date.parse(retry?.since ?? '')).toBeLessThanOrEqual(Date.now());
    const cli = async (...args: readonly string[]) => await commandsAt(world.engine)(args);
    const said = /list tools of files: DISCOVERY_FAILED, attempt \d+ since .*files/;
    expect((await cli('show', run.runId)).out).toMatch(said);
    expect(documentOf(await cli('show', run.runId, '--json'))).toMatchObject({
      retries: [{ code: 'DISCOVERY_FAILED' }],
    });
    expect((await cli('requests', run.runId)).out).toMatch(said);
    expect((await cli('watch', run.runId, '--deadline', '5')).err).toMatch(said);
    const [line = ''] = (await cli('watch', run.runId, '--deadline', '5', '--json')).err.split('\n');
    expect(JSON.parse(line)).toEqual({
      waiting: {
        step: 'list tools of files',
        code: 'DISCOVERY_FAILED',
        message: expect.stringContaining('"files"'),
        attempt: expect.any(Number),
        since: expect.any(String),
        ...(line.includes('"next"') ? { next: expect.any(String) } : {}),
      },
    });
    // What Temporal UI shows itself, where the details point to.
    expect(await detailsOf(world, run.runId)).toContain('*Pending Activities*');
    const { raw } = await world.client.workflow.getHandle(run.runId).describe();
    expect(raw.pendingActivities).toMatchObject([
      {
        attempt: expect.any(Number),
        lastFailure: {
          message: expect.stringMatching(
            /^The tools of server "files" could not be listed: the connection broke off \([A-Z_]+\)$/,
          ),
          applicationFailureInfo: { type: 'DISCOVERY_FAILED' },
        },
      },
    ]);
    files.become(there);
    expect(await run.result()).toMatchObject({ status: 'completed' });
    expect(await run.state()).not.toHaveProperty('listing');
    expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
  });

  test.each(['away', 'silent'] as const)('while the server is %s, stop ends it at once', async (how) => {
    files.become(how === 'away' ? away : silent);
    const run = await waiting({}, how === 'away' ? 2 : 1);
    await run.stop({ by: 'ann', reason: 'enough' });
    expect(await run.result()).toMatchObject({ status: 'stopped', because: 'enough' });
    expect(factsOf(await run.ledger(), 'tools.discovered')).toEqual([]);
  });

  test('cancel ends it at once, too', async () => {
    const run = await waiting();
    await run.cancel();
    expect(await refusalOf(run.result())).toMatchObject({ code: 'RUN_CANCELLED' });
  });

  test('it hands over while it waits, and waits on (INV-D3)', async () => {
    const run = await waiting();
    await rolled(world, run.runId);
    expect(await run.state()).toMatchObject({ listing: ['files'] });
    files.become(there);
    expect(await run.result()).toMatchObject({ status: 'completed' });
    expect(factsOf(await run.ledger(), 'run.rolled')).toMatchObject([{ because: 'nudge' }]);
  });

  test('its own time ends it, and what is named for the server', async () => {
    const run = await waiting({ limits: { wallClockSeconds: 10 } });
    expect(await run.result()).toMatchObject({ status: 'limited', because: 'wallClockSeconds' });
    const impatient = await waiting({ servers: [{ name: 'brief' }] });
    expect(await refusalOf(impatient.result())).toMatchObject(withCode('DISCOVERY_FAILED', 'brief'));
    expect(await impatient.state()).toMatchObject({
      status: 'failed',
      because: expect.stringMatching(/^DISCOVERY_FAILED: .*brief/),
    });
    expect(await detailsOf(world, impatient.runId)).toContain('brief');
  });
});
