/** Between the decision and the `tools/call`: what has changed meanwhile is looked at again, and nothing is claimed that is not known. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { ActivityCancellationDetails } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { Conditions } from '../../activities/policy/condition.ts';
import { createToolsetLoader } from '../../activities/catalog/reader.ts';
import type { TokenBroker } from '../../activities/tokens/port.ts';
import { createCallTool } from '../../activities/gate/call-tool.ts';
import type { CallEnding } from '../../activities/mcp/port.ts';
import { ServerLimits } from '../../activities/limits/server-limits.ts';
import type { RunHandle } from '../../client/index.ts';
import type { DispatchInput, DispatchResult } from '../../contracts/wire/tools.ts';
import { ACTIVITIES } from '../../contracts/names.ts';
import { failUnderWay, lostCall, resolutionOf } from '../support/lost-answers.ts';
import { type RecordingServer, startRecordingServer } from '../support/recording-server.ts';
import { ledgerShows, outcomes, refusalOf, replayOwn, scheduledInputs } from '../support/run-record.ts';
import { until } from '../support/until.ts';
import { decisionOn, openRequests, startWorld, type World } from '../support/world.ts';

let bank: RecordingServer;
let world: World;

beforeAll(async () => {
  bank = await startRecordingServer();
  const policy = { approvers: { ids: ['ann'], groups: [] } };
  world = await startWorld({ config: { policy, servers: { bank: { url: bank.url, credentials: { kind: 'none' } } } } });
});
afterAll(async () => {
  await world.stop();
  await bank.close();
});

describe('a policy that has changed (D-5)', () => {
  /** Asks under one policy; what follows happens under another, as when an operator has restarted the workers with it. */
  async function decideUnder(
    purpose: string,
    policy: Partial<World['config']['policy']>,
    then: (run: RunHandle) => Promise<void>,
  ): Promise<void> {
    const before = world.config.policy;
    const run = await world.start([{ calls: [{ tool: 'bank/pay', arguments: { purpose } }] }, { text: 'done' }]);
    const [request] = await openRequests(run);
    if (request === undefined) throw new Error('no request');
    world.config.policy = { ...before, ...policy };
    try {
      await run.decide(decisionOn(request, 'ann'));
      await then(run);
      await run.result();
      await replayOwn(world, run.runId);
    } finally {
      world.config.policy = before;
    }
  }

  test('policy denies by now: the approved call does not run', async () => {
    await decideUnder('now-denied', { servers: { bank: { default: 'deny' } } }, async (run) => {
      expect(await ledgerShows(run, 'outcome')).toMatchObject({ outcome: 'denied', code: 'POLICY_DENIED' });
    });
    expect(bank.callsFor('now-denied')).toEqual([]);
  });

  test('policy names other approvers by now: they are asked, and the first approval is spent', async () => {
    await decideUnder('now-others', { approvers: { ids: ['bob'], groups: [] } }, async (run) => {
      const again = await until(async () => (await openRequests(run)).find(({ generation }) => generation === 2), {
        what: 'the second request',
      });
      expect(again).toMatchObject({
        approvers: { allOf: [{ ids: ['bob'] }] },
        reopenedBecause: expect.stringContaining('VERDICT_STRICTER'),
      });
      expect(await refusalOf(run.decide(decisionOn(again, 'ann')))).toMatchObject({ code: 'APPROVER_NOT_ENTITLED' });
      expect(bank.callsFor('now-others')).toEqual([]);
      await run.decide(decisionOn(again, 'bob'));
    });
    expect(bank.callsFor('now-others')).toHaveLength(1);
  });

  test('policy allows by now: the countersigned call runs, once', async () => {
    await decideUnder('now-allowed', { strategy: 'never', servers: {} }, async () => {});
    expect(bank.callsFor('now-allowed')).toHaveLength(1);
  });
});

describe('a call under way whose activity is failed from outside, and handed to a worker that knows nothing of it', () => {
  let elsewhere: World;
  beforeAll(async () => {
    const { engine, bundle, config } = world;
    const { policy, servers } = config;
    elsewhere = await startWorld({ engine, bundle, config: { policy, servers, taskQueue: 'elsewhere' } });
  });
  // No run is started there.
  afterAll(async () => elsewhere.workers.stop());

  test.each([
    ['in a later attempt', false],
    ['in a first one again, since it was reset', true],
  ])('%s: is not sent twice, and a person is asked what became of it (INV-X1)', async (_what, isReset) => {
    const purpose = `handed-${isReset}`;
    const run = await world.start([{ calls: [{ tool: 'bank/slow', arguments: { purpose } }] }, { text: 'done' }]);
    const [request] = await openRequests(run);
    if (request === undefined) throw new Error('no request');
    await run.decide(decisionOn(request, 'ann'));
    await bank.held(purpose);

    // One that is reset is not to be handed out before.
    const { execution, id } = await failUnderWay(world, run, isReset ? 600_000 : 1, 'elsewhere');
    const { workflowService, options } = world.client;
    if (isReset) await workflowService.resetActivity({ namespace: options.namespace, execution, id });

    const asked = await lostCall(run);
    expect(asked.about).toMatchObject({ message: expect.stringContaining('was not sent again') });
    expect(bank.callsFor(purpose)).toHaveLength(1);
    bank.release(purpose);
    await run.resolveOutcome(resolutionOf(asked, 'ann', { kind: 'succeeded', result: 'It is paid.' }));
    expect(await run.result()).toMatchObject({ status: 'completed' });
    expect(bank.callsFor(purpose)).toHaveLength(1);
    await replayOwn(world, run.runId);
  });
});

test('a call under way that is failed from outside, and withdrawn before it is tried again, may have run (INV-X1)', async () => {
  const purpose = 'withdrawn';
  const run = await world.start([{ calls: [{ tool: 'bank/slow', arguments: { purpose } }] }, { text: 'done' }]);
  const [request] = await openRequests(run);
  if (request === undefined) throw new Error('no request');
  await run.decide(decisionOn(request, 'ann'));
  await bank.held(purpose);
  await failUnderWay(world, run, 600_000);
  await run.stop({ by: 'ann', reason: 'Enough.', inFlight: 'cancel' });
  expect(await run.result()).toMatchObject({ status: 'stopped' });
  expect(await outcomes(run)).toEqual({ 't1.c0': 'unknown' });
  bank.release(purpose);
});

describe('a call that was not sent', () => {
  let input: DispatchInput;

  beforeEach(async () => {
    const run = await world.start([
      { calls: [{ tool: 'bank/pay', arguments: { purpose: 'recorded' } }] },
      { text: 'done' },
    ]);
    const [request] = await openRequests(run);
    if (request === undefined) throw new Error('no request');
    await run.decide(decisionOn(request, 'ann'));
    await run.result();
    // Sound: recorded by our own workflow.
    input = (await scheduledInputs(world, run.runId)).get(ACTIVITIES.callTool) as unknown as DispatchInput;
  });

  /** Runs the activity as the run did, on a server that ends like this, cancelled for this reason. */
  async function dispatchEnding(
    ending: CallEnding,
    why: 'cancelRequested' | 'workerShutdown',
    broker: TokenBroker = { mint: async () => ({ evidence: { strategy: 'none' }, secrets: [] }) },
  ): Promise<DispatchResult> {
    const { workflowId, namespace } = input.run;
    const environment = new MockActivityEnvironment({
      workflowType: 'agentRun',
      workflowNamespace: namespace,
      namespace,
      workflowExecution: { workflowId, runId: input.runId },
    });
    const server = { call: async () => ending, list: async () => ({ tools: [], refused: [] }) };
    environment.cancel(
      why === 'workerShutdown' ? 'WORKER_SHUTDOWN' : 'CANCELLED',
      new ActivityCancellationDetails({ [why]: true }),
    );
    return await environment.run(
      createCallTool({
        config: world.config,
        conditions: new Conditions(),
        loadToolset: createToolsetLoader(world.artifacts),
        broker,
        server,
        limits: new ServerLimits({ configured: new Map(), tell: () => {} }),
        liveTools: { current: async (_, tool) => ({ tool, secrets: [] }) },
        readCatalog: async () => undefined,
      }),
      input,
    );
  }

  const notSent = { kind: 'not-sent', code: 'TOOL_UNAVAILABLE', message: 'no connection' } as const;

  test('because the run was cancelled is cancelled', async () => {
    expect(await dispatchEnding(notSent, 'cancelRequested')).toMatchObject({
      kind: 'ended',
      outcome: { kind: 'cancelled' },
    });
  });

  test('because its worker shut down is sent by another one: nobody has cancelled it', async () => {
    expect(await dispatchEnding(notSent, 'workerShutdown')).toMatchObject({ kind: 'not-sent' });
  });

  test('because its worker shut down while a token was minted, too', async () => {
    const broker: TokenBroker = {
      mint: async ({ signal }) => {
        throw new Error('aborted', { cause: signal?.reason });
      },
    };
    expect(await dispatchEnding(notSent, 'workerShutdown', broker)).toMatchObject({ kind: 'not-sent' });
    expect(await dispatchEnding(notSent, 'cancelRequested', broker)).toMatchObject({
      kind: 'ended',
      outcome: { kind: 'cancelled' },
    });
  });
});
