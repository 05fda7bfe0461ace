/**
 * A worker process is killed (SIGKILL) in the middle of tool calls, and another one is started: somebody is asked what
 * became of each, and a call is sent again only by their word. What counts is the tool server's own log (F1, F2, F6;
 * INV-X1).
 */
import { beforeAll, expect, jest, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import { executionsOf } from '../support/faults/oracle.ts';
import { startFaultWorld } from '../support/faults/world.ts';
import { lostCall, resolutionOf } from '../support/scenes/lost-answers.ts';
import { startRecordingServer } from '../support/servers/recording-server.ts';
import { factsOf, replayOwn, results } from '../support/world/run-record.ts';
import { decisionOn, openRequests } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

/** Longer than the heartbeat timeout of a call, on a busy machine. */
const RECOVERY_MS = 180_000;
jest.setTimeout(RECOVERY_MS);
const NAMES = ['again', 'recorded', 'approved'] as const;

// Sound: filled before the first test.
const runs = {} as Record<(typeof NAMES)[number], RunHandle>;

const server = during(() => startRecordingServer());
const world = during(async () => {
  const { url } = server;
  const credentials = { kind: 'none' } as const;
  const stepsOf = (purpose: string, tool: string) => ({
    provider: 'scripted' as const,
    script: { steps: [{ calls: [{ tool, arguments: { purpose } }] }, { text: 'Done.' }] },
  });
  return await startFaultWorld({
    config: {
      servers: { once: { url, credentials }, asked: { url, credentials } },
      policy: { approvers: { ids: ['bob'] }, servers: { once: { default: 'allow' } } },
      models: {
        again: stepsOf('again', 'once/slow'),
        recorded: stepsOf('recorded', 'once/slow'),
        approved: stepsOf('approved', 'asked/slow'),
      },
    },
  });
});
beforeAll(async () => {
  const worker = await world.startWorker();
  for (const name of NAMES) runs[name] = await world.start(name);
  const [request] = await openRequests(runs.approved);
  await runs.approved.decide(decisionOn(request, 'bob'));
  await Promise.all(NAMES.map(async (name) => await server.held(name)));
  await worker.kill();
  await world.startWorker();
});

async function asked(name: (typeof NAMES)[number]) {
  const run = runs[name];
  const request = await lostCall(run, 't1.c0', 1, RECOVERY_MS);
  // What the worker said last, before it was gone.
  expect(request.about).toMatchObject({ kind: 'outcome', attempt: 1 });
  expect(executionsOf(server.calls, run, 't1.c0')).toBe(1);
  return request;
}

test('a call that somebody sends again is sent once more, under the same idempotency key', async () => {
  const request = await asked('again');
  server.release('again');
  await runs.again.resolveOutcome(resolutionOf(request, 'bob', { kind: 'retry' }));
  expect(await runs.again.result()).toMatchObject({ status: 'completed' });
  expect(executionsOf(server.calls, runs.again, 't1.c0')).toBe(2);
  const ledger = await runs.again.ledger();
  expect(factsOf(ledger, 'dispatched').map(({ attempt }) => attempt)).toEqual([1, 2]);
  expect(factsOf(ledger, 'outcome')).toMatchObject([{ outcome: 'succeeded' }]);
});

test('a call that somebody found to be done is not sent again', async () => {
  const request = await asked('recorded');
  await runs.recorded.resolveOutcome(resolutionOf(request, 'bob', { kind: 'succeeded', result: 'It is there.' }));
  expect(await runs.recorded.result()).toMatchObject({ status: 'completed' });
  expect(executionsOf(server.calls, runs.recorded, 't1.c0')).toBe(1);
  expect((await results(world, runs.recorded))[0]?.outcome).toMatchObject({ kind: 'succeeded', recordedBy: 'bob' });
});

test('a call that was approved is sent again with the consent that it had', async () => {
  const request = await asked('approved');
  server.release('approved');
  await runs.approved.resolveOutcome(resolutionOf(request, 'bob', { kind: 'retry' }));
  expect(await runs.approved.result()).toMatchObject({ status: 'completed' });
  expect(executionsOf(server.calls, runs.approved, 't1.c0')).toBe(2);
  expect(factsOf(await runs.approved.ledger(), 'decision.accepted')).toHaveLength(1);
  await replayOwn(world);
});
