/**
 * Whatever ends a run, every call has an outcome, the ledger is stored, and nothing of the run happens afterwards
 * (S3.10, B-16). A ceiling that is reached ends a run, or denies a call, by name; it never fails a workflow task
 * (INV-G4). One file, because both are the end of a run.
 */
import { describe, expect, test } from '@jest/globals';
import { updateIdOf } from '../../client/engine/engine.ts';
import type { RunHandle } from '../../client/index.ts';
import { Stop } from '../../contracts/schemas/request.ts';
import { startModelProvider } from '../support/models/provider.ts';
import { startRawServer } from '../support/servers/raw-server.ts';
import { until } from '../support/until.ts';
import { useBank } from '../support/world/bank-world.ts';
import {
  executions,
  factsOf,
  ledgerShows,
  outcomes,
  refusalOf,
  results,
  recordedLedger,
} from '../support/world/run-record.ts';
import { decideNext, decisionOn, updateStage, openRequests, requestFor, rolled } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

/** These answer nothing until they are told what to do. */
const mute = during(() => startRawServer({ era: 'modern', intercept: () => true }));
const repeatable = during(() => startRawServer({ era: 'modern', intercept: () => true }));
const provider = during(() => startModelProvider('chat-completions'));
const credentials = { kind: 'none' } as const;
const { bank, world } = useBank(
  () => ({
    policy: { servers: { open: { default: 'allow' } } },
    servers: {
      mute: { url: mute.url, credentials },
      repeatable: { url: repeatable.url, credentials, repeatable: ['put'] },
    },
    models: {
      slow: { provider: 'openai-compatible', model: 'local-model', baseUrl: provider.baseUrl, apiKey: 'none' },
    },
  }),
  { names: ['bank', 'open'] },
);

const call = (tool: string, purpose: string) => ({ tool, arguments: { purpose } });
const END = { text: 'done' };

const servers = [{ name: 'bank' }, { name: 'open' }];

type Way = 'cancel' | 'stop';
const WAYS: readonly Way[] = ['cancel', 'stop'];
const ENOUGH = { by: 'ann', reason: 'enough' };

async function end(run: RunHandle, way: Way, inFlight: 'finish' | 'cancel' = 'finish'): Promise<void> {
  if (way === 'cancel') await run.cancel();
  else await run.stop({ ...ENOUGH, inFlight });
}

/** The server has what ends the run, and no worker is there to take it. */
async function isAsked(run: RunHandle, way: Way, ending: Promise<void>): Promise<void> {
  if (way === 'cancel') return await ending;
  const updateId = updateIdOf('stop', Stop.parse({ ...ENOUGH, inFlight: 'finish' }));
  await until(async () => (await updateStage(world.client, run.runId, updateId)) === 'admitted', {
    what: 'the stop at the server',
  });
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
  expect(await recordedLedger(world, run)).toEqual(ledger);
  const { searchAttributes } = await world.client.workflow.getHandle(run.runId).describe();
  expect(searchAttributes).toMatchObject({ CountersignStatus: [status], CountersignPending: [0] });
  expect(await refusalOf(run.say({ messageId: 'late', text: 'Still there?', from: 'ann' }))).toMatchObject({
    code: 'RUN_CLOSED',
  });
}

describe.each(WAYS)('%s', (way) => {
  test('while the tools are being listed', async () => {
    const run = await world.start([END], { servers: [{ name: 'mute' }] });
    await until(async () => (await run.ledger()).length === 1, { what: 'the start' });
    expect((await run.state()).status).toBe('preparing');
    await end(run, way);
    await expectEnded(run, way, {});
  });

  test('while the model thinks: its request ends too', async () => {
    provider.enqueue({ status: 200, chunks: [': thinking\n\n'], ending: 'hang' });
    const run = await world.start([END], { agent: { name: 'clerk', model: 'slow' }, servers });
    const { left } = await provider.hanging();
    // The model is first asked in the activity with which a run begins.
    expect((await run.state()).status).toBe('preparing');
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
    expect(await refusalOf(run.decide(decisionOn(first, 'ann')))).toMatchObject({ code: 'RUN_CLOSED' });
  });

  test('between the approval and the dispatch: nothing runs', async () => {
    const run = await world.start([{ calls: [call('bank/pay', `${way}-between`)] }, END], { servers });
    const [request] = await openRequests(run);
    await world.workers.stop();
    // Both are there when the worker comes.
    await world.client.workflow.getHandle(run.runId).signal('decide', decisionOn(request, 'ann'));
    const ending = end(run, way);
    await isAsked(run, way, ending);
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
    await isAsked(run, way, ending);
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
    const callsBefore = mute.seen.length;
    await run.decide(decisionOn(request, 'ann'));
    await timerShows(run, 'held back: retry-after');
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
  await isAsked(run, way, ending);
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
      return summaries.some((text) => text.includes(summary));
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
    await decideNext(run, 'ann');
    await until(() => repeatable.seen.filter(({ rpcMethod }) => rpcMethod === 'tools/call').length === 2, {
      what: 'the second attempt',
    });
    await run.stop({ by: 'ann', reason: 'enough' });
    await expectEnded(run, 'stop', { 't1.c0': 'unknown' });
    expect(repeatable.executions()).toBe(1);
  });
});

describe('a ceiling that is reached (INV-G4)', () => {
  async function expectLimited(run: RunHandle, limit: string): Promise<void> {
    expect(await run.result()).toMatchObject({ status: 'limited', because: limit });
    const ledger = await run.ledger();
    expect(factsOf(ledger, 'limit.reached')).toMatchObject([{ limit }]);
    expect(ledger.at(-1)?.fact).toMatchObject({ kind: 'run.ended', status: 'limited' });
    expect(await recordedLedger(world, run)).toEqual(ledger);
    expect(await run.state()).toMatchObject({ status: 'limited', pending: 0 });
  }

  test('wall clock: the open request is cancelled with the reason', async () => {
    const run = await world.start([{ calls: [call('bank/pay', 'wall-clock')] }, END], {
      servers,
      limits: { wallClockSeconds: 10 },
    });
    await expectLimited(run, 'wallClockSeconds');
    expect(await outcomes(run)).toEqual({ 't1.c0': 'cancelled' });
    expect(bank.callsFor('wall-clock')).toEqual([]);
  });

  test.each([
    ['turns', { turns: 3 }, 3],
    ['tokens', { tokens: 5 }, 2],
  ])('%s', async (limit, limits, calls) => {
    const run = await world.start([{ calls: [call('open/lookup', limit)], repeat: 10 }], { servers, limits });
    await expectLimited(run, limit);
    expect(bank.callsFor(limit)).toHaveLength(calls);
  });

  test('calls: those of the last turn that are too many are refused, the others run', async () => {
    const both = [call('open/lookup', 'calls'), call('open/lookup', 'calls')];
    const run = await world.start([{ calls: both, repeat: 10 }], { servers, limits: { calls: 3 } });
    await expectLimited(run, 'calls');
    expect(await outcomes(run)).toEqual({
      't1.c0': 'succeeded',
      't1.c1': 'succeeded',
      't2.c0': 'succeeded',
      't2.c1': 'denied',
    });
    expect(bank.callsFor('calls')).toHaveLength(3);
  });

  test('calls per turn and the size of arguments: the extra calls are denied with a code, and nothing else changes (INV-G3)', async () => {
    const big = { tool: 'open/lookup', arguments: { purpose: 'per-turn', text: 'x'.repeat(300) } };
    const small = call('open/lookup', 'per-turn');
    const run = await world.start(
      [
        { calls: [small, big, call('bank/pay', 'per-turn'), small] },
        {
          text: 'lost',
          branches: [{ when: { call: 3, outcome: 'denied', textIncludes: 'LIMIT_REACHED' }, then: { text: 'heard' } }],
        },
      ],
      { servers, limits: { callsPerTurn: 3, argumentBytes: 256 } },
    );
    await decideNext(run, 'ann');
    expect(await run.result()).toMatchObject({ status: 'completed', output: 'heard' });
    expect(
      factsOf(await run.ledger(), 'outcome').toSorted((one, other) => one.callId.localeCompare(other.callId)),
    ).toMatchObject([
      { outcome: 'succeeded' },
      { outcome: 'denied', code: 'ARGUMENTS_TOO_LARGE' },
      { outcome: 'succeeded' },
      { outcome: 'denied', code: 'LIMIT_REACHED' },
    ]);
    expect(bank.callsFor('per-turn')).toHaveLength(2);
  });

  test('a turn of sixty-four calls runs them all', async () => {
    const calls = Array.from({ length: 64 }, (_, n) => ({ tool: 'open/pay', arguments: { purpose: 'many', n } }));
    const run = await world.start([{ calls }, END], { servers, limits: { callsPerTurn: 64, resultBytes: 16_384 } });
    expect(await run.result()).toMatchObject({ status: 'completed', calls: 64 });
    const numbers = bank.callsFor('many').map(({ arguments: args }) => Number(args['n']));
    expect(numbers.toSorted((less, more) => less - more)).toEqual(calls.map(({ arguments: args }) => args.n));
  });

  test('turns of results as large as may be pass, and the model is shown all of them (INV-D2)', async () => {
    const call16 = Array.from({ length: 16 }, (_, n) => ({ tool: 'open/big', arguments: { characters: 60_000, n } }));
    const run = await world.start([{ calls: call16, repeat: 3 }, END], {
      servers,
      limits: { resultBytesPerTurn: 1_048_576 },
    });
    expect(await run.result()).toMatchObject({ status: 'completed', output: 'done' });
    const ledger = await run.ledger();
    expect(factsOf(ledger, 'turn.proposed').map(({ usage }) => usage.inputTokens)).toEqual([1, 3, 5, 7]);
    expect(Object.values(await outcomes(run)).filter((outcome) => outcome !== 'succeeded')).toEqual([]);
    expect(await recordedLedger(world, run)).toEqual(ledger);
  });

  test('calls share the room of a turn: each is cut to its part, and the model is told why and where the rest is', async () => {
    const call8 = Array.from({ length: 8 }, (_, n) => ({ tool: 'open/big', arguments: { characters: 9_000, n } }));
    const alone = { tool: 'open/big', arguments: { characters: 9_000, n: 8 } };
    const run = await world.start([{ calls: call8 }, { calls: [alone] }, END], {
      servers,
      limits: { resultBytesPerTurn: 16_384 },
    });
    expect(await run.result()).toMatchObject({ status: 'completed', output: 'done' });
    const given = await results(world, run);
    const kept = given.map(({ outcome }) => {
      if (outcome.kind !== 'succeeded') throw new Error(outcome.kind);
      return outcome.result;
    });
    expect(kept).toHaveLength(9);
    for (const result of kept.slice(0, 8)) {
      expect(Buffer.byteLength(JSON.stringify(result.content))).toBeLessThanOrEqual(2_048);
      expect(result.content.at(-1)).toMatchObject({
        text: expect.stringContaining('8 calls share the room of this turn'),
      });
      if (result.full === undefined) throw new Error('the whole was not stored');
      expect((await world.artifacts.get(result.full)).length).toBeGreaterThan(9_000);
    }
    // Whoever comes alone has all of it.
    expect(kept[8]).toMatchObject({ content: [{ type: 'text' }] });
    expect(kept[8]?.full).toBeUndefined();
  });

  test('the wall clock runs on through continue-as-new', async () => {
    const run = await world.start([{ calls: [call('bank/pay', 'clock')] }], {
      servers,
      limits: { wallClockSeconds: 10 },
    });
    await requestFor(run, 't1.c0');
    await rolled(world, run.runId);
    await expectLimited(run, 'wallClockSeconds');
    const [, next] = await executions(world, run.runId);
    const timersMs = (next?.events ?? []).flatMap(({ timerStartedEventAttributes: timer }) => {
      const { seconds, nanos } = timer?.startToFireTimeout ?? {};
      return seconds === undefined || seconds === null ? [] : [Number(seconds) * 1_000 + (nanos ?? 0) / 1e6];
    });
    // What was left of it: a clock that began anew would have all ten seconds again.
    expect(Math.min(...timersMs)).toBeLessThan(10_000);
  });
});
