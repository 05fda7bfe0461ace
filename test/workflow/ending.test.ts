/** Whatever ends a run, every call has an outcome, the ledger is stored, and nothing of the run happens afterwards (S3.10, B-16). */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import { type RawServer, startRawServer } from '../support/servers/raw-server.ts';
import { type ModelProvider, startModelProvider } from '../support/models/provider.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import { factsOf, ledgerShows, outcomes, refusalOf, storedLedger } from '../support/world/run-record.ts';
import { until } from '../support/until.ts';
import { decisionOn, openRequests, startWorld, type World } from '../support/world/world.ts';

let bank: RecordingServer;
/** These answer nothing until they are told what to do. */
let mute: RawServer;
let repeatable: RawServer;
let provider: ModelProvider;
let world: World;

beforeAll(async () => {
  bank = await startRecordingServer();
  mute = await startRawServer({ era: 'modern', intercept: () => true });
  repeatable = await startRawServer({ era: 'modern', intercept: () => true });
  provider = await startModelProvider('chat-completions');
  const credentials = { kind: 'none' } as const;
  world = await startWorld({
    config: {
      policy: { servers: { open: { default: 'allow' } } },
      servers: {
        bank: { url: bank.url, credentials },
        open: { url: bank.url, credentials },
        mute: { url: mute.url, credentials },
        repeatable: { url: repeatable.url, credentials, repeatable: ['put'] },
      },
      models: {
        slow: { provider: 'openai-compatible', model: 'local-model', baseUrl: provider.baseUrl, apiKey: 'none' },
      },
    },
  });
});
afterAll(async () => {
  await world.stop();
  await bank.close();
  await mute.close();
  await repeatable.close();
  await provider.close();
});

const call = (tool: string, purpose: string) => ({ tool, arguments: { purpose } });
const END = { text: 'done' };
const servers = [{ name: 'bank' }, { name: 'open' }];

type Way = 'cancel' | 'stop';
const WAYS: readonly Way[] = ['cancel', 'stop'];

async function end(run: RunHandle, way: Way, inFlight: 'finish' | 'cancel' = 'finish'): Promise<void> {
  if (way === 'cancel') await run.cancel();
  else await run.stop({ by: 'ann', reason: 'enough', inFlight });
}

/** The run is over in the way that was asked for, with its ledger in the store and nothing left open. */
async function expectEnded(run: RunHandle, way: Way, wanted: Readonly<Record<string, string>>): Promise<void> {
  if (way === 'cancel') expect(await refusalOf(run.result())).toMatchObject({ code: 'RUN_CANCELLED' });
  else expect(await run.result()).toMatchObject({ status: 'stopped', because: 'enough' });
  const status = way === 'cancel' ? 'cancelled' : 'stopped';
  expect(await outcomes(run)).toEqual(wanted);
  expect(await run.state()).toMatchObject({ status, pending: 0 });
  const ledger = await run.ledger();
  expect(ledger.at(-1)?.fact).toMatchObject({ kind: 'run.ended', status });
  expect(factsOf(ledger, 'run.ended')).toHaveLength(1);
  expect(await storedLedger(world, run)).toEqual(ledger);
  const { searchAttributes } = await world.client.workflow.getHandle(run.runId).describe();
  expect(searchAttributes).toMatchObject({ CountersignStatus: [status], CountersignPending: [0] });
  expect(await refusalOf(run.say({ messageId: 'late', text: 'Still there?', from: 'ann' }))).toMatchObject({
    code: 'RUN_CLOSED',
  });
}

describe.each(WAYS)('%s', (way) => {
  test('while the tools are being listed', async () => {
    const run = await world.start([END], { servers: [{ name: 'mute' }] });
    await until(async () => ((await run.ledger()).length === 1 ? true : undefined), { what: 'the start' });
    expect((await run.state()).status).toBe('preparing');
    await end(run, way);
    await expectEnded(run, way, {});
  });

  test('while the model thinks: its request ends too', async () => {
    provider.enqueue({ status: 200, chunks: [': thinking\n\n'], ending: 'hang' });
    const run = await world.start([END], { agent: { name: 'clerk', model: 'slow' }, servers });
    const { left } = await provider.hanging();
    expect((await run.state()).status).toBe('thinking');
    await end(run, way);
    await expectEnded(run, way, {});
    if (way === 'stop') await left;
  });

  test('while requests wait: they are cancelled, and what has ended stays as it is', async () => {
    const run = await world.start(
      [
        {
          calls: [
            call('bank/pay', `${way}-waiting`),
            call('open/pay', `${way}-waiting`),
            call('bank/pay', `${way}-waiting`),
          ],
        },
        END,
      ],
      { servers },
    );
    const [first] = await openRequests(run, 2);
    await ledgerShows(run, 'outcome', 't1.c1');
    await end(run, way);
    await expectEnded(run, way, { 't1.c0': 'cancelled', 't1.c1': 'succeeded', 't1.c2': 'cancelled' });
    expect(factsOf(await run.ledger(), 'request.closed')).toMatchObject([
      { callId: 't1.c0', status: 'cancelled' },
      { callId: 't1.c2', status: 'cancelled' },
    ]);
    expect(bank.callsFor(`${way}-waiting`)).toHaveLength(1);
    if (first === undefined) throw new Error('no request');
    expect(await refusalOf(run.decide(decisionOn(first, 'ann')))).toMatchObject({ code: 'RUN_CLOSED' });
  });

  test('between the approval and the dispatch: nothing runs', async () => {
    const run = await world.start([{ calls: [call('bank/pay', `${way}-between`)] }, END], { servers });
    const [request] = await openRequests(run);
    if (request === undefined) throw new Error('no request');
    await world.workers.stop();
    // Both are there when the worker comes.
    await world.client.workflow.getHandle(run.runId).signal('decide', decisionOn(request, 'ann'));
    const ending = end(run, way);
    if (way === 'cancel') await ending;
    await world.restartWorkers();
    await ending;
    await expectEnded(run, way, { 't1.c0': 'cancelled' });
    expect(factsOf(await run.ledger(), 'dispatched')).toEqual([]);
    expect(bank.callsFor(`${way}-between`)).toEqual([]);
  });

  test('while the run hands over to its next execution: it ends, and nothing of it goes on', async () => {
    const run = await world.start([{ calls: [call('bank/pay', `${way}-roll`)] }, END], { servers });
    await openRequests(run);
    await world.workers.stop();
    await world.client.workflow.getHandle(run.runId).signal('nudge');
    const ending = end(run, way);
    if (way === 'cancel') await ending;
    await world.restartWorkers();
    await ending;
    await expectEnded(run, way, { 't1.c0': 'cancelled' });
    expect(bank.callsFor(`${way}-roll`)).toEqual([]);
  });

  test('while a call is under way, with the call: what it did is unknown', async () => {
    const purpose = `${way}-abort`;
    const run = await world.start([{ calls: [call('open/slow', purpose), call('bank/pay', purpose)] }, END], {
      servers,
    });
    await openRequests(run);
    await bank.held(purpose);
    await end(run, way, 'cancel');
    await expectEnded(run, way, { 't1.c0': 'unknown', 't1.c1': 'cancelled' });
    expect(bank.abandoned(purpose)).toBe(1);
    expect(bank.callsFor(purpose)).toHaveLength(1);
  });

  test('while a call waits to be sent again: it is not', async () => {
    const purpose = `${way}-backoff`;
    mute.become({
      era: 'modern',
      pages: [[{ name: 'pay', inputSchema: { type: 'object' } }]],
      onCall: ({ status }) => status(429, { 'retry-after': '600' }),
    });
    const run = await world.start([{ calls: [call('mute/pay', purpose)] }, END], { servers: [{ name: 'mute' }] });
    const [request] = await openRequests(run);
    if (request === undefined) throw new Error('no request');
    const callsBefore = mute.seen.length;
    await run.decide(decisionOn(request, 'ann'));
    await timerShows(run, 'try t1.c0 again');
    await end(run, way);
    await expectEnded(run, way, { 't1.c0': 'cancelled' });
    expect(mute.seen.slice(callsBefore).filter(({ rpcMethod }) => rpcMethod === 'tools/call')).toHaveLength(1);
    mute.become({ era: 'modern', intercept: () => true });
  });
});

test.each(WAYS)('%s before the first workflow task', async (way) => {
  await world.workers.stop();
  const run = await world.start([END], { servers });
  const ending = end(run, way);
  if (way === 'cancel') await ending;
  await world.restartWorkers();
  await ending;
  if (way === 'cancel') expect(await refusalOf(run.result())).toMatchObject({ code: 'RUN_CANCELLED' });
  else expect(await run.result()).toMatchObject({ status: 'stopped', because: 'enough' });
  const status = way === 'cancel' ? 'cancelled' : 'stopped';
  const { searchAttributes } = await world.client.workflow.getHandle(run.runId).describe();
  expect(searchAttributes).toMatchObject({ CountersignStatus: [status], CountersignPending: [0] });
});

/** Waits for a timer with this summary. */
async function timerShows(run: RunHandle, summary: string): Promise<void> {
  await until(
    async () => {
      const { events } = await world.client.workflow.getHandle(run.runId).fetchHistory();
      const summaries = (events ?? []).map(({ userMetadata }) =>
        new TextDecoder().decode(userMetadata?.summary?.data ?? undefined),
      );
      return summaries.some((text) => text.includes(summary)) ? true : undefined;
    },
    { what: `a timer "${summary}"` },
  );
}

describe('stop', () => {
  test('lets the call under way finish, when nothing else is said, and keeps its result', async () => {
    const run = await world.start([{ calls: [call('open/slow', 'finish'), call('bank/pay', 'finish')] }, END], {
      servers,
    });
    await openRequests(run);
    await bank.held('finish');
    await run.stop({ by: 'ann', reason: 'enough' });
    await ledgerShows(run, 'outcome', 't1.c1');
    expect(await outcomes(run)).toEqual({ 't1.c1': 'cancelled' });
    // Nobody would read it any more (INV-D3).
    const late = run.say({ messageId: 'late', text: 'One more thing.', from: 'ann' });
    expect(await refusalOf(late)).toMatchObject({ code: 'RUN_CLOSED' });
    bank.release('finish');
    await expectEnded(run, 'stop', { 't1.c0': 'succeeded', 't1.c1': 'cancelled' });
    expect(bank.abandoned('finish')).toBe(0);
  });

  test('said again with `cancel` ends also what it first let finish; the first reason counts', async () => {
    const run = await world.start([{ calls: [call('open/slow', 'twice')] }, END], { servers });
    await bank.held('twice');
    await run.stop({ by: 'ann', reason: 'enough' });
    await run.stop({ by: 'bob', reason: 'now!', inFlight: 'cancel' });
    await expectEnded(run, 'stop', { 't1.c0': 'unknown' });
    expect(factsOf(await run.ledger(), 'stop.requested')).toMatchObject([
      { by: 'ann', inFlight: 'finish' },
      { by: 'bob', inFlight: 'cancel' },
    ]);
  });

  test('of a call that may have run and waits to be sent again leaves its outcome unknown (INV-X2)', async () => {
    let first = true;
    repeatable.become({
      era: 'modern',
      pages: [[{ name: 'put', inputSchema: { type: 'object' } }]],
      onCall: ({ execute, reset, status }) => {
        if (!first) return status(429, { 'retry-after': '600' });
        first = false;
        execute();
        reset();
      },
    });
    const run = await world.start([{ calls: [call('repeatable/put', 'unsure')] }, END], {
      servers: [{ name: 'repeatable' }],
    });
    const [request] = await openRequests(run);
    if (request === undefined) throw new Error('no request');
    await run.decide(decisionOn(request, 'ann'));
    await until(
      () => (repeatable.seen.filter(({ rpcMethod }) => rpcMethod === 'tools/call').length === 2 ? true : undefined),
      { what: 'the second attempt' },
    );
    await run.stop({ by: 'ann', reason: 'enough' });
    await expectEnded(run, 'stop', { 't1.c0': 'unknown' });
    expect(repeatable.executions()).toBe(1);
  });
});
