/**
 * The Temporal server is killed (SIGKILL) and started again on its SQLite file (F3; INV-D3): what it had acknowledged
 * holds, what it had not is safe to send again.
 */
import { beforeAll, expect, jest, test } from '@jest/globals';
import { Countersign, type CountersignError, type RunHandle } from '../../client/index.ts';
import { executionsOf, expectSound } from '../support/faults/oracle.ts';
import { startFaultWorld } from '../support/faults/world.ts';
import { factsOf, refusalOf, replayOwn } from '../support/world/run-record.ts';
import { startRecordingServer } from '../support/servers/recording-server.ts';
import { until } from '../support/until.ts';
import type { WorkerProcess } from '../support/world/worker-process.ts';
import { decideNext, decisionOn, openRequests } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

/** Answers that die with the server are noticed by heartbeat timeouts, of which a run may meet several. */
const LONG_MS = 300_000;
jest.setTimeout(LONG_MS);
const RUNS_UNDER_LOAD = 12;

let worker: WorkerProcess;

const server = during(() => startRecordingServer());
const call = (tool: string) => ({ tool: `once/${tool}`, arguments: { purpose: '{{turn}}' } });
const world = during(() =>
  startFaultWorld({
    config: {
      servers: { once: { url: server.url, credentials: { kind: 'none' } } },
      policy: {
        unknownOutcomes: 'record',
        approvers: { ids: ['bob'] },
        servers: { once: { tools: { lookup: 'allow', slow: 'allow' } } },
      },
      models: {
        waiting: { provider: 'scripted', script: { steps: [{ calls: [call('pay')] }, { text: 'Done.' }] } },
        held: {
          provider: 'scripted',
          script: { steps: [{ calls: [{ tool: 'once/slow', arguments: { purpose: 'held' } }] }, { text: 'Done.' }] },
        },
        busy: {
          provider: 'scripted',
          script: { steps: [{ calls: [call('lookup'), call('pay')], repeat: 2 }, { text: 'Done.' }] },
        },
      },
    },
  }),
);
beforeAll(async () => {
  worker = await world.startWorker();
});

/** As a careful sender does: the same decision again, until it is answered. */
async function decideSurely(run: RunHandle, decision: ReturnType<typeof decisionOn>): Promise<void> {
  await until(
    async () => {
      await run.decide(decision);
      return true;
    },
    { what: `an answer to ${decision.decisionId}`, withinMs: 120_000 },
  );
}

test('killed while a call waits: the decision works afterwards, and the call runs once', async () => {
  const run = await world.start('waiting');
  await openRequests(run);
  await world.engine.kill();
  await world.engine.restart();
  await decideNext(run, 'bob');
  expect(await run.result()).toMatchObject({ status: 'completed', output: 'Done.' });
  expect(executionsOf(server.calls, run, 't1.c0')).toBe(1);
  await expectSound(run, server.calls);
});

test('a decision sent while it is down fails with a code that says to send it again; sent again, it counts once', async () => {
  const run = await world.start('waiting');
  const [request] = await openRequests(run);
  const decision = decisionOn(request, 'bob');
  await world.engine.kill();
  const impatient = new Countersign({ client: world.client, deadlineMs: 2_000 });
  const refusal = await refusalOf(impatient.run(run.runId).decide(decision));
  expect(['RESULT_UNCERTAIN', 'ENGINE_UNAVAILABLE']).toContain(refusal.code);
  expect(refusal.message).toMatch(/again/);
  expect(refusal.message).not.toContain(decision.digest);
  const retryable = await impatient
    .run(run.runId)
    .state()
    .catch((error: CountersignError) => error.traits.retryable);
  expect(retryable).toBe(true);

  await world.engine.restart();
  await decideSurely(run, decision);
  // Its answer may have been what got lost: a second copy gets the first answer and changes nothing.
  await decideSurely(run, decision);
  expect(await run.result()).toMatchObject({ status: 'completed' });
  expect(executionsOf(server.calls, run, 't1.c0')).toBe(1);
  const ledger = await expectSound(run, server.calls);
  expect(factsOf(ledger, 'decision.accepted')).toMatchObject([{ decisionId: decision.decisionId }]);
});

test('killed in the middle of a tool call that ends meanwhile: it ran once, and what is said of it is true', async () => {
  const run = await world.start('held');
  await server.held('held');
  await world.engine.kill();
  server.release('held');
  await world.engine.restart();
  expect(await run.result()).toMatchObject({ status: 'completed' });
  expect(executionsOf(server.calls, run, 't1.c0')).toBe(1);
  await expectSound(run, server.calls);
});

test('killed again and again under load: every run completes, every decision counts once, no call runs twice', async () => {
  const runs = await Promise.all(Array.from({ length: RUNS_UNDER_LOAD }, () => world.start('busy')));
  const before = server.calls.length;
  const approving = Promise.all(runs.map((run) => approveAll(run, 2)));
  for (const share of [0.2, 0.5, 0.8]) {
    await worked(before + share * RUNS_UNDER_LOAD * 4);
    await world.engine.kill();
    await world.engine.restart();
  }
  await approving;
  for (const run of runs) {
    expect(await run.result()).toMatchObject({ status: 'completed', output: 'Done.', turns: 3, calls: 4 });
    const ledger = await expectSound(run, server.calls);
    expect(factsOf(ledger, 'decision.accepted')).toHaveLength(2);
    // Nothing but a lost answer may keep a call from succeeding.
    expect(
      factsOf(ledger, 'outcome').filter(({ outcome }) => outcome !== 'succeeded' && outcome !== 'unknown'),
    ).toEqual([]);
  }
});

/** Waits until so many calls were executed. */
async function worked(calls: number): Promise<void> {
  await until(() => server.calls.length >= calls, { what: `${calls} calls`, withinMs: 120_000 });
}

async function approveAll(run: RunHandle, requests: number): Promise<void> {
  for (let turn = 1; turn <= requests; turn += 1) {
    const request = await until(
      async () => (await run.requests()).find(({ status, callId }) => status === 'open' && callId === `t${turn}.c1`),
      {
        what: `the request of turn ${turn} of ${run.runId}`,
        withinMs: LONG_MS,
      },
    );
    await decideSurely(run, decisionOn(request, 'bob'));
  }
}

test('the worker lived through all of it, and what was recorded replays', async () => {
  worker.terminate();
  expect(await worker.ended).toBe(0);
  await replayOwn(world);
});
