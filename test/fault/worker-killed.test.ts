/**
 * A worker process is killed once (SIGKILL) with one run at each point of a call's life, and another one is started.
 * What counts is the tool server's own log (F1, F2; INV-X1, INV-D3).
 */
import { beforeAll, describe, expect, jest, test } from '@jest/globals';
import { updateIdOf } from '../../client/engine/engine.ts';
import { Countersign, type DecisionAck, type RunHandle } from '../../client/index.ts';
import { modelText } from '../../domain/views/model-text.ts';
import { executionsOf, expectSound } from '../support/faults/oracle.ts';
import { startFaultWorld } from '../support/faults/world.ts';
import { answered } from '../support/models/bench.ts';
import { chatDialect } from '../support/models/chat.ts';
import { said } from '../support/models/dialect.ts';
import { startModelProvider } from '../support/models/provider.ts';
import { startRecordingServer } from '../support/servers/recording-server.ts';
import { until } from '../support/until.ts';
import { factsOf, ledgerShows, replayOwn, results } from '../support/world/run-record.ts';
import { decisionOn, updateStage, openRequests } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

/** Longer than the heartbeat timeout of a model step, on a busy machine. */
jest.setTimeout(180_000);

/** One run for each point, named after where it stood when the worker died. Sound: filled before the first test. */
const run = {} as Record<'waiting' | 'frozen' | 'acknowledged' | 'held' | 'repeatable' | 'thinking', RunHandle>;
let frozenDecision: Promise<DecisionAck>;
let deadOutput = '';

const callOf = (tool: string, purpose: string) => ({
  provider: 'scripted' as const,
  script: { steps: [{ calls: [{ tool, arguments: { purpose } }] }, { text: 'Done.' }] },
});
const thought = (purpose: string) =>
  chatDialect.events(said([{ type: 'call', id: 'call-1', name: 'once__lookup', json: JSON.stringify({ purpose }) }]));

const server = during(() => startRecordingServer());
const provider = during(() => startModelProvider(chatDialect.schema));
const credentials = { kind: 'none' } as const;
const world = during(() =>
  startFaultWorld({
    config: {
      servers: {
        once: { url: server.url, credentials },
        again: { url: server.url, credentials, repeatable: ['slow'] },
      },
      policy: {
        approvers: { ids: ['bob'] },
        // What people are asked is told elsewhere (`outcome-killed`): here a lost answer is an outcome at once.
        unknownOutcomes: 'record',
        servers: { once: { tools: { slow: 'allow', lookup: 'allow' } }, again: { tools: { slow: 'allow' } } },
      },
      models: {
        waiting: callOf('once/pay', 'waiting'),
        frozen: callOf('once/pay', 'frozen'),
        acknowledged: callOf('once/pay', 'acknowledged'),
        held: callOf('once/slow', 'held'),
        repeatable: callOf('again/slow', 'repeatable'),
        thinking: { provider: 'openai-compatible', model: chatDialect.model, baseUrl: provider.baseUrl },
      },
    },
  }),
);
beforeAll(async () => {
  const worker = await world.startWorker();
  // Half an answer: what it says so far must not count.
  provider.enqueue(answered(thought('half').slice(0, -2), 'hang'));
  for (const point of ['waiting', 'frozen', 'acknowledged', 'held', 'repeatable', 'thinking'] as const)
    run[point] = await world.start(point);
  const [{ left }] = await Promise.all([
    provider.hanging(),
    server.held('held'),
    server.held('repeatable'),
    openRequests(run.waiting),
  ]);
  const [[frozen], [acknowledged]] = await Promise.all([openRequests(run.frozen), openRequests(run.acknowledged)]);
  if (frozen === undefined || acknowledged === undefined) throw new Error('there is no request');
  await run.acknowledged.decide(decisionOn(acknowledged, 'bob'));
  // From here on the worker does nothing, as if it were dead already; Temporal still hands it work.
  worker.freeze();
  const decision = decisionOn(frozen, 'bob');
  frozenDecision = run.frozen.decide(decision);
  const updateId = updateIdOf('decide', decision, decision.decisionId);
  await until(async () => (await updateStage(world.client, run.frozen.runId, updateId)) === 'admitted', {
    what: 'the decision at the server',
  });
  await worker.kill();
  deadOutput = worker.output();
  await left;
  provider.enqueue(
    answered(thought('thinking')),
    answered(chatDialect.events(said([{ type: 'text', text: 'Done.' }]))),
  );
  await world.startWorker();
});

async function toldTo(point: RunHandle): Promise<string> {
  const [told] = await results(world, point);
  if (told === undefined) throw new Error('the model was told nothing');
  return modelText(told.outcome).text;
}

describe('kill -9 of the worker', () => {
  test('while a call waits for a decision: the next worker takes it, and the call runs once', async () => {
    const [request] = await openRequests(run.waiting);
    expect(executionsOf(server.calls, run.waiting, 't1.c0')).toBe(0);
    await run.waiting.decide(decisionOn(request, 'bob'));
    expect(await run.waiting.result()).toMatchObject({ status: 'completed', output: 'Done.' });
    expect(executionsOf(server.calls, run.waiting, 't1.c0')).toBe(1);
    await expectSound(run.waiting, server.calls);
  });

  test('with a decision in its hands: the same decision is answered by the next worker, and counts once', async () => {
    expect(await frozenDecision).toMatchObject({ callId: 't1.c0', status: 'approved', decidedBy: 'bob' });
    expect(await run.frozen.result()).toMatchObject({ status: 'completed' });
    expect(executionsOf(server.calls, run.frozen, 't1.c0')).toBe(1);
    const ledger = await expectSound(run.frozen, server.calls);
    expect(factsOf(ledger, 'decision.accepted')).toHaveLength(1);
  });

  test('in the middle of a tool call: after the heartbeat timeout its outcome is unknown, and it is never sent again', async () => {
    expect(await run.held.result()).toMatchObject({ status: 'completed' });
    expect(executionsOf(server.calls, run.held, 't1.c0')).toBe(1);
    const ledger = await expectSound(run.held, server.calls);
    expect(factsOf(ledger, 'dispatched')).toHaveLength(1);
    expect(factsOf(ledger, 'outcome')).toMatchObject([{ outcome: 'unknown', code: 'OUTCOME_UNKNOWN' }]);
    expect(await toldTo(run.held)).toMatch(/not known whether this call was executed .* Do not repeat it/);
  });

  test('in the middle of a call that the operator lists as repeatable: sent again under the same idempotency key', async () => {
    await server.held('repeatable', 2);
    server.release('repeatable');
    expect(await run.repeatable.result()).toMatchObject({ status: 'completed' });
    // Both attempts carry the key of the call, so that the server could tell that they are one.
    expect(executionsOf(server.calls, run.repeatable, 't1.c0')).toBe(2);
    const ledger = await expectSound(run.repeatable, server.calls, { repeatable: ['slow'] });
    expect(factsOf(ledger, 'dispatched').map(({ attempt }) => attempt)).toEqual([1, 2]);
    expect(factsOf(ledger, 'outcome')).toMatchObject([{ outcome: 'succeeded' }]);
  });

  test('the moment after it accepted a decision: the call runs at most once, and what is said of it is true', async () => {
    expect(await run.acknowledged.result()).toMatchObject({ status: 'completed' });
    const ledger = await expectSound(run.acknowledged, server.calls);
    expect(factsOf(ledger, 'decision.accepted')).toHaveLength(1);
    expect(factsOf(ledger, 'dispatched')).toHaveLength(1);
  });

  test('during a model step: the step is repeated, and no call is lost or doubled', async () => {
    expect(await run.thinking.result()).toMatchObject({ status: 'completed', output: 'Done.' });
    // The half answer, its repetition, and the step after the call.
    expect(provider.received).toHaveLength(3);
    expect(server.callsFor('half')).toHaveLength(0);
    expect(executionsOf(server.calls, run.thinking, 't1.c0')).toBe(1);
    await expectSound(run.thinking, server.calls);
  });

  test('what it left behind replays', async () => {
    expect(deadOutput).not.toMatch(/"level":50/);
    await replayOwn(world);
  });
});

test('kill -9 between an accepted decision and its dispatch: the call runs once, on the next worker', async () => {
  const second = await startFaultWorld({
    engine: world.engine,
    bundle: world.bundle,
    config: {
      taskQueue: 'split-runs',
      // Tool calls on a queue of their own: without a worker there, a decision is accepted and nothing is sent.
      servers: { tools: { url: server.url, credentials: { kind: 'none' }, taskQueue: 'split-tools' } },
      policy: { approvers: { ids: ['bob'] } },
      models: { between: callOf('tools/pay', 'between') },
    },
  });
  try {
    const [runs, tools] = [await second.startWorker({ role: 'runs' }), await second.startWorker({ role: 'tools' })];
    const between = await second.start('between');
    const [request] = await openRequests(between);
    await tools.kill();
    await between.decide(decisionOn(request, 'bob'));
    await ledgerShows(between, 'dispatched', 't1.c0');
    await runs.kill();
    expect(executionsOf(server.calls, between, 't1.c0')).toBe(0);

    await Promise.all([second.startWorker({ role: 'runs' }), second.startWorker({ role: 'tools' })]);
    expect(await between.result()).toMatchObject({ status: 'completed' });
    expect(executionsOf(server.calls, between, 't1.c0')).toBe(1);
    await expectSound(between, server.calls);
    await replayOwn(second);
  } finally {
    await second.stop();
  }
});

test('no worker at all: the client says that the result is uncertain, and how to go on', async () => {
  const idle = await startFaultWorld({
    engine: world.engine,
    bundle: world.bundle,
    config: {
      taskQueue: 'nobody',
      models: { nothing: { provider: 'scripted', script: { steps: [{ text: 'Done.' }] } } },
    },
  });
  const stuck = await idle.start('nothing');
  const impatient = new Countersign({ client: idle.client, deadlineMs: 500 });
  const decision = {
    kind: 'approve',
    decisionId: 'd-1',
    callId: 't1.c0',
    digest: 'a'.repeat(64),
    runId: 'r-1',
    approver: { id: 'bob' },
  } as const;
  await expect(impatient.run(stuck.runId).decide(decision)).rejects.toMatchObject({
    code: 'RESULT_UNCERTAIN',
    message: expect.stringMatching(/worker running.*same id/),
  });
  await idle.client.workflow.getHandle(stuck.runId).terminate();
});
