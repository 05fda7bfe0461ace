/** A ceiling that is reached ends a run, or denies a call, by name; it never fails a workflow task (INV-G4). */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import { executions, factsOf, outcomes, results, storedLedger } from '../support/world/run-record.ts';
import { until } from '../support/until.ts';
import { decisionOn, openRequests, requestFor, startWorld, type World } from '../support/world/world.ts';

let bank: RecordingServer;
let world: World;

beforeAll(async () => {
  bank = await startRecordingServer();
  const credentials = { kind: 'none' } as const;
  world = await startWorld({
    config: {
      policy: { servers: { open: { default: 'allow' } } },
      servers: { bank: { url: bank.url, credentials }, open: { url: bank.url, credentials } },
    },
  });
});
afterAll(async () => {
  await world.stop();
  await bank.close();
});

const call = (tool: string, purpose: string) => ({ tool, arguments: { purpose } });

async function expectLimited(run: RunHandle, limit: string): Promise<void> {
  expect(await run.result()).toMatchObject({ status: 'limited', because: limit });
  const ledger = await run.ledger();
  expect(factsOf(ledger, 'limit.reached')).toMatchObject([{ limit }]);
  expect(ledger.at(-1)?.fact).toMatchObject({ kind: 'run.ended', status: 'limited' });
  expect(await storedLedger(world, run)).toEqual(ledger);
  expect(await run.state()).toMatchObject({ status: 'limited', pending: 0 });
}

test('wall clock: the open request is cancelled with the reason', async () => {
  const run = await world.start([{ calls: [call('bank/pay', 'wall-clock')] }, { text: 'done' }], {
    limits: { wallClockSeconds: 10 },
  });
  await expectLimited(run, 'wallClockSeconds');
  expect(await outcomes(run)).toEqual({ 't1.c0': 'cancelled' });
  expect(bank.callsFor('wall-clock')).toEqual([]);
});

test('turns', async () => {
  const run = await world.start([{ calls: [call('open/lookup', 'turns')], repeat: 10 }], { limits: { turns: 3 } });
  await expectLimited(run, 'turns');
  expect(bank.callsFor('turns')).toHaveLength(3);
});

test('calls: those of the last turn that are too many are refused, the others run', async () => {
  const run = await world.start([{ calls: [call('open/lookup', 'calls'), call('open/lookup', 'calls')], repeat: 10 }], {
    limits: { calls: 3 },
  });
  await expectLimited(run, 'calls');
  expect(await outcomes(run)).toEqual({
    't1.c0': 'succeeded',
    't1.c1': 'succeeded',
    't2.c0': 'succeeded',
    't2.c1': 'denied',
  });
  expect(bank.callsFor('calls')).toHaveLength(3);
});

test('tokens', async () => {
  const run = await world.start([{ calls: [call('open/lookup', 'tokens')], repeat: 10 }], { limits: { tokens: 5 } });
  await expectLimited(run, 'tokens');
  expect(bank.callsFor('tokens')).toHaveLength(2);
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
    { limits: { callsPerTurn: 3, argumentBytes: 256 } },
  );
  const [request] = await openRequests(run);
  if (request === undefined) throw new Error('no request');
  await run.decide(decisionOn(request, 'ann'));
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
  const run = await world.start([{ calls }, { text: 'done' }], { limits: { callsPerTurn: 64, resultBytes: 16_384 } });
  expect(await run.result()).toMatchObject({ status: 'completed', calls: 64 });
  const numbers = bank.callsFor('many').map(({ arguments: args }) => Number(args['n']));
  expect(numbers.toSorted((less, more) => less - more)).toEqual(calls.map(({ arguments: args }) => args.n));
});

test('turns of results as large as may be pass, and the model is shown all of them (INV-D2)', async () => {
  const call16 = Array.from({ length: 16 }, (_, n) => ({ tool: 'open/big', arguments: { characters: 60_000, n } }));
  const run = await world.start([{ calls: call16, repeat: 3 }, { text: 'done' }], {
    limits: { resultBytesPerTurn: 1_048_576 },
  });
  expect(await run.result()).toMatchObject({ status: 'completed', output: 'done' });
  const ledger = await run.ledger();
  expect(factsOf(ledger, 'turn.proposed').map(({ usage }) => usage.inputTokens)).toEqual([1, 3, 5, 7]);
  expect(Object.values(await outcomes(run)).filter((outcome) => outcome !== 'succeeded')).toEqual([]);
  expect(await storedLedger(world, run)).toEqual(ledger);
});

test('calls share the room of a turn: each is cut to its part, and the model is told why and where the rest is', async () => {
  const call8 = Array.from({ length: 8 }, (_, n) => ({ tool: 'open/big', arguments: { characters: 9_000, n } }));
  const alone = { tool: 'open/big', arguments: { characters: 9_000, n: 8 } };
  const run = await world.start([{ calls: call8 }, { calls: [alone] }, { text: 'done' }], {
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
  const run = await world.start([{ calls: [call('bank/pay', 'clock')] }], { limits: { wallClockSeconds: 10 } });
  const { runId } = await requestFor(run, 't1.c0');
  await world.client.workflow.getHandle(run.runId).signal('nudge');
  await until(async () => ((await run.state()).runId === runId ? undefined : true));
  await expectLimited(run, 'wallClockSeconds');
  const [, next] = await executions(world, run.runId);
  const timersMs = (next?.events ?? []).flatMap(({ timerStartedEventAttributes: timer }) => {
    const { seconds, nanos } = timer?.startToFireTimeout ?? {};
    return seconds === undefined || seconds === null ? [] : [Number(seconds) * 1_000 + (nanos ?? 0) / 1e6];
  });
  // What was left of it: a clock that began anew would have all ten seconds again.
  expect(Math.min(...timersMs)).toBeLessThan(10_000);
});
