/** Workers come and go, caches are lost, clients ask at the worst moment: a run is what its history says (INV-D1, INV-D3). */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { assertIntact } from '../../client/index.ts';
import { chatDialect } from '../support/models/chat.ts';
import { said } from '../support/models/dialect.ts';
import { answered } from '../support/models/bench.ts';
import { type ModelProvider, startModelProvider } from '../support/models/provider.ts';
import { lostCall, resolutionOf } from '../support/scenes/lost-answers.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import { executions, factsOf, ledgerShows, outcomes, results, transcript } from '../support/world/run-record.ts';
import { until } from '../support/until.ts';
import { decisionOn, openRequests, startWorld, type World } from '../support/world/world.ts';

let bank: RecordingServer;
let provider: ModelProvider;
let world: World;
/** Keeps no run in memory: every workflow task replays the whole history. */
let forgetful: World;

beforeAll(async () => {
  bank = await startRecordingServer();
  provider = await startModelProvider('chat-completions');
  const config = {
    servers: { bank: { url: bank.url, credentials: { kind: 'none' } } },
    policy: { servers: { bank: { tools: { lookup: 'allow', slow: 'allow' } } } },
    models: {
      slow: { provider: 'openai-compatible', model: 'local-model', baseUrl: provider.baseUrl, apiKey: 'none' },
    },
  } as const;
  world = await startWorld({ config });
  forgetful = await startWorld({
    engine: world.engine,
    bundle: world.bundle,
    config: { ...config, taskQueue: 'forgetful', worker: { maxCachedWorkflows: 0 } },
  });
});
afterAll(async () => {
  await forgetful.stop();
  await world.stop();
  await bank.close();
  await provider.close();
});

const call = (tool: string, purpose: string, n = 1) => ({ tool: `bank/${tool}`, arguments: { purpose, n } });
const END = { text: 'done' };

test('queries and messages from the first moment on leave a history that replays, and a ledger that reads the same afterwards', async () => {
  // A query that met a local activity once made histories that no worker could replay.
  const runs = await Promise.all(
    Array.from({ length: 12 }, async (_, index) => {
      const run = await world.start([
        { calls: [call('lookup', 'early', index)] },
        { calls: [call('pay', 'early', index)] },
        END,
      ]);
      const asked = Promise.all([run.state(), run.ledger(), run.requests(), run.advance()]);
      await run.say({ messageId: 'm1', text: 'Quickly, please.', from: 'ann' });
      await Promise.all([asked, run.state(), run.say({ messageId: 'm2', text: 'Please.', from: 'ann' })]);
      await openRequests(run);
      return { run, ledger: await run.ledger() };
    }),
  );
  await world.restartWorkers();
  for (const { run, ledger } of runs) {
    expect(await run.ledger()).toEqual(ledger);
    const [request] = await openRequests(run);
    if (request === undefined) throw new Error('no request');
    await run.decide(decisionOn(request, 'ann'));
  }
  await Promise.all(runs.map(async ({ run }) => await run.result()));
  expect(bank.callsFor('early', 'pay')).toHaveLength(12);
  expect(bank.callsFor('early', 'lookup')).toHaveLength(12);
});

describe('a worker that is restarted', () => {
  test('while a request waits: the decision works, on the digest that was shown before', async () => {
    const run = await world.start([{ calls: [call('pay', 'waiting'), call('lookup', 'waiting')] }, END]);
    const [request] = await openRequests(run);
    await ledgerShows(run, 'outcome', 't1.c1');
    await world.restartWorkers();
    if (request === undefined) throw new Error('no request');
    expect(await openRequests(run)).toEqual([request]);
    await run.decide(decisionOn(request, 'ann'));
    await run.result();
    expect(bank.callsFor('waiting')).toHaveLength(2);
  });

  test('while the model thinks: the step is taken again, and the run goes on', async () => {
    provider.enqueue(
      { status: 200, chunks: [': thinking\n\n'], ending: 'hang' },
      answered(chatDialect.events(said([{ type: 'text', text: 'Here I am.' }]))),
    );
    const run = await world.start([END], { agent: { name: 'clerk', model: 'slow' } });
    await provider.hanging();
    await world.restartWorkers();
    expect(await run.result()).toMatchObject({ status: 'completed', output: 'Here I am.' });
  });

  test('while a call is under way: somebody is asked what it did, and it is not sent again by itself (INV-X1)', async () => {
    const run = await world.start([{ calls: [call('slow', 'flight')] }, END]);
    await bank.held('flight');
    await world.restartWorkers();
    const request = await lostCall(run);
    // Of the next worker, too.
    await world.restartWorkers();
    expect(await openRequests(run)).toEqual([request]);
    await run.resolveOutcome(resolutionOf(request, 'ann', { kind: 'failed', message: 'It is not there.' }));
    await run.result();
    bank.release('flight');
    expect((await results(world, run))[0]?.outcome).toMatchObject({ kind: 'failed', recordedBy: 'ann' });
    expect(bank.callsFor('flight')).toHaveLength(1);
  });

  test('while a call is under way, where policy records it: what it did is unknown at once (INV-X1)', async () => {
    const policy = { unknownOutcomes: 'record' } as const;
    const run = await world.start([{ calls: [call('slow', 'recorded')] }, END], { policy });
    await bank.held('recorded');
    await world.restartWorkers();
    await run.result();
    bank.release('recorded');
    expect((await results(world, run))[0]?.outcome).toMatchObject({ kind: 'unknown' });
    expect(bank.callsFor('recorded')).toHaveLength(1);
  });
});

describe('a worker that keeps no run in memory', () => {
  test('takes a run through parallel calls, decisions in reverse, a reject, messages and continue-as-new', async () => {
    const run = await forgetful.start([
      { calls: [1, 2, 3].map((n) => call('pay', 'forgetful', n)) },
      { calls: [call('lookup', 'forgetful', 4)] },
      END,
    ]);
    const requests = await openRequests(run, 3);
    const [one, two, three] = requests;
    if (one === undefined || two === undefined || three === undefined) throw new Error('three requests');
    await run.decide(decisionOn(three, 'ann'));
    await run.say({ messageId: 'm1', text: 'Mind the budget.', from: 'ann' });
    await run.decide(decisionOn(two, 'ann', 'reject'));
    await forgetful.client.workflow.getHandle(run.runId).signal('nudge');
    await until(async () => ((await run.state()).runId === one.runId ? undefined : true), {
      what: 'the next execution',
      // An activity whose worker lost it is begun anew after a minute.
      withinMs: 100_000,
      instead: async () =>
        (await executions(forgetful, run.runId)).map(({ events }) =>
          events.map(({ eventType, eventTime }) => `${String(eventTime?.seconds)} ${String(eventType)}`),
        ),
    });
    await run.decide(decisionOn(one, 'ann'));
    expect(await run.result()).toMatchObject({ status: 'completed', output: 'done' });
    expect(await outcomes(run)).toEqual({
      't1.c0': 'succeeded',
      't1.c1': 'rejected',
      't1.c2': 'succeeded',
      't2.c0': 'succeeded',
    });
    expect(bank.callsFor('forgetful').map(({ arguments: args }) => args['n'])).toEqual([3, 1, 4]);
    assertIntact(await run.ledger(), run.runId);
    const shown = factsOf(await run.ledger(), 'turn.proposed').map(({ usage }) => usage.inputTokens);
    expect(shown).toEqual(
      (await transcript(forgetful, run)).flatMap(({ role }, index) => (role === 'assistant' ? [index] : [])),
    );
    expect(await executions(forgetful, run.runId)).toHaveLength(2);
  }, 180_000);

  test('lets a request expire, and ends a run that is stopped', async () => {
    const policy = { servers: { bank: { tools: { pay: { action: 'ask', deadlineSeconds: 1 } } } } } as const;
    const run = await forgetful.start(
      [{ calls: [call('pay', 'forgotten')] }, { calls: [call('fail', 'forgotten')] }, END],
      { policy },
    );
    expect(await ledgerShows(run, 'outcome', 't1.c0')).toMatchObject({ outcome: 'expired' });
    await ledgerShows(run, 'request.opened', 't2.c0');
    await run.stop({ by: 'ann', reason: 'enough' });
    expect(await run.result()).toMatchObject({ status: 'stopped' });
    expect(await outcomes(run)).toEqual({ 't1.c0': 'expired', 't2.c0': 'cancelled' });
    expect(bank.callsFor('forgotten')).toEqual([]);
  });
});
