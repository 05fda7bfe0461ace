/**
 * Each way to end a run, in each state that it can be in beyond those of `ending.test.ts`: what is open is resolved, all is stored, and
 * nothing of it happens later (S3.10, B-16, F37, INV-D3). A stop counts once, however often it is sent.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { assertIntact, type RunHandle } from '../../client/index.ts';
import { type ModelProvider, startModelProvider } from '../support/models/provider.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import { executions, factsOf, ledgerShows, outcomes, refusalOf, storedLedger } from '../support/world/run-record.ts';
import { until } from '../support/until.ts';
import { decisionOn, openRequests, startWorld, type World } from '../support/world/world.ts';

let bank: RecordingServer;
/** Never answers with anything but an error that may pass. */
let provider: ModelProvider;
let world: World;

beforeAll(async () => {
  bank = await startRecordingServer();
  provider = await startModelProvider('chat-completions');
  const credentials = { kind: 'none' } as const;
  const both = { action: 'ask' as const, approvers: { ids: ['ann', 'bob'], need: 2 } };
  world = await startWorld({
    config: {
      policy: { servers: { open: { default: 'allow' }, bank: { tools: { pay: both } } } },
      servers: { bank: { url: bank.url, credentials }, open: { url: bank.url, credentials } },
      models: {
        away: { provider: 'openai-compatible', model: 'local-model', baseUrl: provider.baseUrl, apiKey: 'none' },
      },
    },
  });
});
afterAll(async () => {
  await world.stop();
  await bank.close();
  await provider.close();
});

const call = (tool: string, purpose: string) => ({ tool, arguments: { purpose } });
const END = { text: 'done' };
const LATER = { messageId: 'm1', text: 'And then?', from: 'ann' } as const;

const WAYS = {
  cancel: (run: RunHandle) => run.cancel(),
  stop: (run: RunHandle) => run.stop({ by: 'ann', reason: 'enough' }),
  'stop with calls': (run: RunHandle) => run.stop({ by: 'ann', reason: 'enough', inFlight: 'cancel' }),
} as const;
type Way = keyof typeof WAYS;

interface State {
  readonly name: string;
  /** Resolves once the run is in that state. */
  readonly reach: (purpose: string) => Promise<RunHandle>;
  readonly wanted: Readonly<Record<string, string>> | ((way: Way) => Readonly<Record<string, string>>);
  readonly sent: number;
}

const slowAndPay = (purpose: string) => [{ calls: [call('open/slow', purpose), call('bank/pay', purpose)] }, END];
/** Whether a call that is under way may finish, or what it did stays unknown. */
const underWay = (way: Way) => (way === 'stop' ? 'succeeded' : 'unknown');

const STATES: readonly State[] = [
  {
    name: 'a model step waits to be tried again',
    reach: async () => {
      const before = provider.received.length;
      const run = await world.start([END], { agent: { name: 'clerk', model: 'away' } });
      await until(() => (provider.received.length > before ? true : undefined), { what: 'the first try' });
      return run;
    },
    wanted: {},
    sent: 0,
  },
  {
    name: 'one of two has agreed',
    reach: async (purpose) => {
      const run = await world.start([{ calls: [call('bank/pay', purpose)] }, END]);
      const [request] = await openRequests(run);
      if (request !== undefined) await run.decide(decisionOn(request, 'bob'));
      return run;
    },
    wanted: { 't1.c0': 'cancelled' },
    sent: 0,
  },
  {
    name: 'it has continued as new, and asks',
    reach: async (purpose) => {
      const run = await world.start([{ calls: [call('open/pay', purpose), call('bank/pay', purpose)] }, END]);
      const [request] = await openRequests(run);
      await ledgerShows(run, 'outcome', 't1.c0');
      await world.client.workflow.getHandle(run.runId).signal('nudge');
      await until(async () => ((await run.state()).runId === request?.runId ? undefined : true));
      return run;
    },
    wanted: { 't1.c0': 'succeeded', 't1.c1': 'cancelled' },
    sent: 1,
  },
  {
    name: 'a message waits to be read',
    reach: async (purpose) => {
      const run = await world.start(slowAndPay(purpose));
      await openRequests(run);
      await bank.held(purpose);
      await run.say(LATER);
      return run;
    },
    wanted: (way) => ({ 't1.c0': underWay(way), 't1.c1': 'cancelled' }),
    sent: 1,
  },
  {
    name: 'it was interrupted, and a call is under way',
    reach: async (purpose) => {
      const run = await world.start(slowAndPay(purpose));
      await openRequests(run);
      await bank.held(purpose);
      await run.say({ ...LATER, interrupt: true });
      return run;
    },
    wanted: (way) => ({ 't1.c0': underWay(way), 't1.c1': 'cancelled' }),
    sent: 1,
  },
];

describe.each(STATES)('while $name', ({ name, reach, wanted, sent }) => {
  // Sound: these are its keys.
  test.each(Object.keys(WAYS) as Way[])('%s', async (way) => {
    const purpose = `${way} ${name}`;
    const run = await reach(purpose);
    await WAYS[way](run);
    if (way === 'stop') bank.release(purpose);
    const status = way === 'cancel' ? 'cancelled' : 'stopped';
    if (way === 'cancel') expect(await refusalOf(run.result())).toMatchObject({ code: 'RUN_CANCELLED' });
    else expect(await run.result()).toMatchObject({ status, because: 'enough' });
    expect(await outcomes(run)).toEqual(typeof wanted === 'function' ? wanted(way) : wanted);

    const ledger = await run.ledger();
    assertIntact(ledger, run.runId);
    expect(ledger.at(-1)?.fact).toMatchObject({ kind: 'run.ended', status });
    expect(factsOf(ledger, 'run.ended')).toHaveLength(1);
    expect(await storedLedger(world, run)).toEqual(ledger);
    expect(await run.state()).toMatchObject({ status, pending: 0 });

    // Nothing is left that could happen, and nobody can add to it.
    const handle = world.client.workflow.getHandle(run.runId);
    expect((await handle.describe()).raw.pendingActivities).toEqual([]);
    expect((await executions(world, run.runId)).at(-1)?.events.at(-1)).toMatchObject({
      eventType: way === 'cancel' ? 21 : 2,
    });
    for (const late of [
      () => run.say({ ...LATER, messageId: 'm2' }),
      () => run.say({ ...LATER, messageId: 'm3', interrupt: true }),
      () => run.stop({ by: 'bob', reason: 'late' }),
    ])
      expect(await refusalOf(late())).toMatchObject({ code: 'RUN_CLOSED' });
    bank.release(purpose);
    expect(bank.callsFor(purpose)).toHaveLength(sent);
  });
});

test('the same stop, sent twice, counts once and gets its first answer; another one is another (F16)', async () => {
  const run = await world.start(slowAndPay('twice'));
  await openRequests(run);
  await bank.held('twice');
  const stop = { by: 'ann', reason: 'enough' } as const;
  const [first, second] = [await run.stop(stop), await run.stop(stop)];
  expect(second).toEqual(first);
  // Also where Temporal does not know it: by any client, under any id.
  await world.client.workflow.getHandle(run.runId).executeUpdate('stop', { args: [stop] });
  await run.stop({ ...stop, by: 'bob' });
  expect(factsOf(await run.ledger(), 'stop.requested')).toMatchObject([{ by: 'ann', inFlight: 'finish' }]);
  await run.stop({ ...stop, inFlight: 'cancel' });
  expect(await run.result()).toMatchObject({ status: 'stopped', because: 'enough' });
  expect(factsOf(await run.ledger(), 'stop.requested')).toHaveLength(2);
  expect(await outcomes(run)).toEqual({ 't1.c0': 'unknown', 't1.c1': 'cancelled' });
  const [{ events } = { events: [] }] = await executions(world, run.runId);
  const accepted = events.filter(({ workflowExecutionUpdateAcceptedEventAttributes: it }) => it?.acceptedRequest);
  expect(accepted).toHaveLength(4);
  bank.release('twice');
});
