/**
 * What happens exactly at each limit, and one beyond it, on a real server: by name, in the ledger, in the state and in the result, and
 * never by a failing workflow task (INV-G3, INV-G4).
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import { factsOf, outcomes, refusalOf, results, storedLedger } from '../support/world/run-record.ts';
import { startWorld, type World } from '../support/world/world.ts';

let bank: RecordingServer;
let world: World;

beforeAll(async () => {
  bank = await startRecordingServer();
  world = await startWorld({
    config: {
      policy: { servers: { open: { default: 'allow' } } },
      servers: { open: { url: bank.url, credentials: { kind: 'none' } } },
    },
  });
});
afterAll(async () => {
  await world.stop();
  await bank.close();
});

const call = (purpose: string, more: Record<string, string> = {}) => ({
  tool: 'open/lookup',
  arguments: { purpose, ...more },
});
const END = { text: 'done' };
type Limits = Readonly<Record<string, number | string>>;

/** A model that costs 1 millionth a token in, and 3 a token out. */
async function start(steps: Parameters<World['spec']>[0], limits: Limits): Promise<RunHandle> {
  const spec = world.spec(steps, { limits });
  const model = world.config.models[spec.agent.model];
  if (model !== undefined) model.price = { input: '1', output: '3', currency: 'EUR' };
  const runId = `${spec.agent.model}-priced`;
  const run = await world.countersign.startRun({ runId, spec, taskQueue: world.config.taskQueue });
  return run;
}

async function expectLimited(run: RunHandle, limit: string, value: number): Promise<void> {
  expect(await run.result()).toMatchObject({ status: 'limited', because: limit, output: '' });
  const ledger = await run.ledger();
  expect(factsOf(ledger, 'limit.reached')).toEqual([{ kind: 'limit.reached', limit, value }]);
  expect(ledger.at(-1)?.fact).toMatchObject({ kind: 'run.ended', status: 'limited' });
  expect(await storedLedger(world, run)).toEqual(ledger);
  expect(await run.state()).toMatchObject({ status: 'limited', because: limit, pending: 0 });
}

async function expectCompleted(run: RunHandle): Promise<void> {
  expect(await run.result()).toMatchObject({ status: 'completed', output: 'done' });
  expect(factsOf(await run.ledger(), 'limit.reached')).toEqual([]);
}

// A script takes as many tokens in as there are messages, and gives one out for each part: 1 + 1, then 3 + 1.
describe('limits of a run', () => {
  const TWO_STEPS = (purpose: string) => [{ calls: [call(purpose)] }, END];

  test.each([
    ['turns', { turns: 2 }, { turns: 1 }, 1],
    ['calls', { calls: 2 }, { calls: 1 }, 1],
    ['tokens', { tokens: 3 }, { tokens: 2 }, 2],
    ['spend', { spend: '0.000005' }, { spend: '0.000004' }, 4],
  ])(
    '%s: a step is taken below it, and none at it; the calls of the last step still ran',
    async (limit, above, at, value) => {
      await expectCompleted(await start(TWO_STEPS(`${limit}-below`), above));
      const run = await start(TWO_STEPS(`${limit}-at`), at);
      await expectLimited(run, limit, value);
      expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
      expect(bank.callsFor(`${limit}-at`)).toHaveLength(1);
    },
  );

  test('spend: a step may go beyond it, once, and what it cost is counted whole', async () => {
    const run = await start([{ calls: [call('over')], repeat: 5 }], { spend: '0.000005' });
    await expectLimited(run, 'spend', 5);
    // 1 + 3 and then 3 + 3.
    expect(factsOf(await run.ledger(), 'turn.proposed').map(({ cost }) => cost)).toEqual([4, 6]);
    expect(factsOf(await run.ledger(), 'run.started')).toMatchObject([
      { price: { input: 1_000_000, output: 3_000_000, currency: 'EUR' } },
    ]);
    expect(await run.result()).toMatchObject({ spent: { millionths: 10, currency: 'EUR' } });
    expect(await run.state()).toMatchObject({
      spent: { millionths: 10, currency: 'EUR' },
      limits: { turns: { used: 2, most: 100 }, spend: { used: 10, most: 5 }, endsBy: expect.any(String) },
    });
    expect(bank.callsFor('over')).toHaveLength(2);
  });

  test('spend: it is carried through continue-as-new', async () => {
    const run = await start([{ calls: [call('carried')], repeat: 9 }], { spend: '0.00003', turnsPerExecution: 1 });
    await expectLimited(run, 'spend', 30);
    const cost = factsOf(await run.ledger(), 'turn.proposed').map((fact) => fact.cost ?? 0);
    expect(cost).toEqual([4, 6, 8, 10, 12]);
    expect(await run.result()).toMatchObject({ spent: { millionths: 40 } });
  });

  test('spend: a model without a price is refused where it is limited, with the path (INV-G4)', async () => {
    const run = await world.start([END], { limits: { spend: '5.00' } });
    expect(await refusalOf(run.result())).toMatchObject({ code: 'SPEC_INVALID', facts: { path: 'agent.model' } });
  });

  test('calls: of a turn that goes beyond it, those within it run and the others are told why', async () => {
    const calls = [call('calls'), call('calls', { n: '2' })];
    await expectCompleted(await start([{ calls }, END], { calls: 3 }));
    const run = await start([{ calls: [...calls, call('calls', { n: '3' })] }, END], { calls: 2 });
    await expectLimited(run, 'calls', 2);
    expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded', 't1.c1': 'succeeded', 't1.c2': 'denied' });
    expect((await results(world, run)).at(-1)?.outcome).toMatchObject({ code: 'LIMIT_REACHED' });
  });
});

describe('limits of a turn and a call: at them all runs; beyond them that call is refused, and no other (INV-G3)', () => {
  const bytesOf = (purpose: string, bytes: number) => {
    const empty = JSON.stringify({ purpose, text: '' });
    return call(purpose, { text: 'x'.repeat(bytes - empty.length) });
  };

  async function outcomesOf(calls: readonly ReturnType<typeof call>[], limits: Limits) {
    const run = await start([{ calls: [...calls] }, END], limits);
    await expectCompleted(run);
    return (await results(world, run)).map(({ outcome }) => ('code' in outcome ? outcome.code : outcome.kind));
  }

  test('callsPerTurn', async () => {
    const two = [call('per-turn'), call('per-turn', { n: '2' })];
    expect(await outcomesOf(two, { callsPerTurn: 2 })).toEqual(['succeeded', 'succeeded']);
    expect(await outcomesOf([...two, call('per-turn', { n: '3' })], { callsPerTurn: 2 })).toEqual([
      'succeeded',
      'succeeded',
      'LIMIT_REACHED',
    ]);
  });

  test('argumentBytes', async () => {
    const calls = [bytesOf('bytes', 256), bytesOf('bytes', 257), call('bytes')];
    expect(await outcomesOf(calls, { argumentBytes: 256 })).toEqual(['succeeded', 'ARGUMENTS_TOO_LARGE', 'succeeded']);
  });

  test('argumentBytesPerTurn', async () => {
    const limits = { argumentBytes: 256, argumentBytesPerTurn: 400 };
    expect(await outcomesOf([bytesOf('turn', 200), bytesOf('turn', 200)], limits)).toEqual(['succeeded', 'succeeded']);
    expect(await outcomesOf([bytesOf('turn', 200), bytesOf('turn', 201), call('turn')], limits)).toEqual([
      'succeeded',
      'ARGUMENTS_TOO_LARGE',
      'succeeded',
    ]);
  });
});
