/** Calls that several must countersign, and that their initiator must not (E-2, E-4, F-12, INV-G1–G3). */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { ApprovalRequest, DecisionInput } from '../../contracts/schemas/request.ts';
import { type RecordingServer, startRecordingServer } from '../support/recording-server.ts';
import { codeOf, factsOf } from '../support/run-record.ts';
import { resetRun } from '../support/reset.ts';
import { until } from '../support/until.ts';
import { decisionOn, openRequests, startWorld, type World } from '../support/world.ts';

let bank: RecordingServer;
let world: World;

beforeAll(async () => {
  bank = await startRecordingServer();
  const approvers = { ids: ['ann', 'ben', 'zoe'], need: 2, notInitiator: true as const };
  world = await startWorld({
    config: {
      policy: { servers: { bank: { tools: { pay: { action: 'ask', approvers }, lookup: 'allow' } } } },
      servers: { bank: { url: bank.url, credentials: { kind: 'none' } } },
    },
  });
});
afterAll(async () => {
  await world.stop();
  await bank.close();
});

const steps = (purpose: string) => [{ calls: [{ tool: 'bank/pay', arguments: { purpose } }] }, { text: 'done' }];

async function asked(purpose: string) {
  const run = await world.start(steps(purpose), { initiator: { id: 'ann' } });
  const [request] = await openRequests(run);
  if (request === undefined) throw new Error('no request');
  return { run, request };
}

function withdrawalOf(request: ApprovalRequest, id: string): DecisionInput {
  const { callId, digest, runId } = request;
  return { kind: 'withdraw', decisionId: `withdraw-${id}`, callId, digest, runId, approver: { id } };
}

test('two people who did not start it: the first counts, the second lets it run, once', async () => {
  const { run, request } = await asked('two');
  expect(request.approvers).toEqual({
    allOf: [{ layer: 'organisation', ids: ['ann', 'ben', 'zoe'], groups: [], need: 2, not: ['ann'] }],
  });
  expect(await run.decide(decisionOn(request, 'ben'))).toMatchObject({ status: 'counted' });
  expect(await openRequests(run)).toMatchObject([{ digest: request.digest, votes: [{ approver: { id: 'ben' } }] }]);
  expect(bank.callsFor('two')).toEqual([]);
  expect(await codeOf(run.decide(decisionOn(request, 'ben')))).toBe('ALREADY_DECIDED');
  expect(await codeOf(run.decide(decisionOn(request, 'ann')))).toBe('APPROVER_NOT_ENTITLED');
  expect(await run.decide(decisionOn(request, 'zoe'))).toMatchObject({ status: 'approved' });
  await run.result();
  expect(bank.callsFor('two')).toHaveLength(1);
  expect(factsOf(await run.ledger(), 'decision.accepted').map(({ approver }) => approver.id)).toEqual(['ben', 'zoe']);
});

test('a vote outlives continue-as-new and a new worker, and counts with one that was made after', async () => {
  const { run, request } = await asked('rolled');
  await run.decide(decisionOn(request, 'ben'));
  const handle = world.client.workflow.getHandle(run.runId);
  await handle.signal('nudge');
  const after = await until(
    async () => (await run.requests()).find(({ runId, status }) => runId !== request.runId && status === 'open'),
    { what: 'the request in the next execution' },
  );
  expect(after.votes).toMatchObject([{ approver: { id: 'ben' } }]);
  await world.restartWorkers();
  await run.decide(decisionOn(after, 'zoe'));
  await run.result();
  expect(bank.callsFor('rolled')).toHaveLength(1);
});

test('one rejection is enough, and one who takes an approval back is not counted', async () => {
  const { run, request } = await asked('back');
  await run.decide(decisionOn(request, 'ben'));
  expect(await run.decide(withdrawalOf(request, 'ben'))).toMatchObject({ status: 'withdrawn' });
  expect(await codeOf(run.decide(withdrawalOf(request, 'zoe')))).toBe('REQUEST_NOT_OPEN');
  expect(await run.decide(decisionOn(request, 'zoe'))).toMatchObject({ status: 'counted' });
  await run.decide(decisionOn(request, 'ben', 'reject'));
  await run.result();
  expect(factsOf(await run.ledger(), 'outcome')).toMatchObject([{ outcome: 'rejected' }]);
  expect(bank.callsFor('back')).toEqual([]);
});

test('three at once: two of them let it run once, and the third is told', async () => {
  const { run, request } = await asked('once');
  const all = await Promise.allSettled([
    run.decide(decisionOn(request, 'ben')),
    run.decide(decisionOn(request, 'zoe')),
    run.decide(decisionOn(request, 'ben')),
  ]);
  expect(all.filter(({ status }) => status === 'fulfilled')).toHaveLength(2);
  await run.result();
  expect(bank.callsFor('once')).toHaveLength(1);
});

test('after a reset the votes that were made before it count no more (INV-G2)', async () => {
  const { run, request } = await asked('reset');
  await run.decide(decisionOn(request, 'ben'));
  // So that the vote lies before the point of the reset.
  await run.advance();
  await resetRun(world.client, { workflowId: run.runId, runId: request.runId });
  const fresh = await until(
    async () => (await run.requests()).find(({ runId, status }) => runId !== request.runId && status === 'open'),
    { what: 'the request of the reset run' },
  );
  await run.decide(decisionOn(fresh, 'zoe'));
  // One of the two was made in a run that no longer counts: nothing is sent, and both are asked again.
  const again = await until(async () => (await run.requests()).find(({ generation }) => generation === 2), {
    what: 'the request that was asked again',
  });
  expect(again.reopenedBecause).toContain('DECISION_STALE_RUN');
  expect(again.votes).toBeUndefined();
  expect(bank.callsFor('reset')).toEqual([]);
  for (const id of ['ben', 'zoe']) await run.decide(decisionOn(again, id));
  await run.result();
  expect(bank.callsFor('reset')).toHaveLength(1);
});
