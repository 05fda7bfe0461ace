/** Approvals that answer later calls of a run (G-1, G-2, D-4, F35, INV-G1, INV-G2, INV-D3). */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import type { ApprovalRequest, DecisionInput, Remember } from '../../contracts/schemas/request.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { ToolPolicyInput } from '../../contracts/schemas/policy.ts';
import { type RecordingServer, startRecordingServer } from '../support/recording-server.ts';
import { codeOf, factsOf } from '../support/run-record.ts';
import { resetRun } from '../support/reset.ts';
import { until } from '../support/until.ts';
import { decisionOn, openRequests, requestFor, startWorld, type World } from '../support/world.ts';

let bank: RecordingServer;
let world: World;

beforeAll(async () => {
  bank = await startRecordingServer();
  const remember: Remember['scope'][] = ['call', 'arguments', 'tool'];
  const tools = {
    pay: { action: 'ask', approvers: { ids: ['ann', 'ben'], remember } },
    bare: { action: 'ask', approvers: { ids: ['ann'] } },
    lookup: { action: 'ask', approvers: { ids: ['ann', 'ben', 'zoe'], need: 2, remember } },
  } satisfies Readonly<Record<string, ToolPolicyInput>>;
  world = await startWorld({
    config: {
      policy: { servers: { bank: { tools } } },
      servers: { bank: { url: bank.url, credentials: { kind: 'none' } } },
    },
  });
});
afterAll(async () => {
  await world.stop();
  await bank.close();
});

const call = (args: JsonObject, tool = 'pay') => ({ tool: `bank/${tool}`, arguments: args });

async function asking(turns: readonly (readonly ReturnType<typeof call>[])[]): Promise<RunHandle> {
  return await world.start([...turns.map((calls) => ({ calls: [...calls] })), { text: 'done' }]);
}

const remembering = (request: ApprovalRequest, remember: Remember, who = 'ann'): DecisionInput =>
  Object.assign(decisionOn(request, who), { remember });

const amounts = (purpose: string) => bank.callsFor(purpose).map(({ arguments: args }) => args['amount']);

test('G-1: by some arguments: calls that have them pass, others are asked; state and ledger say by what', async () => {
  const purpose = 'some';
  const run = await asking([
    [call({ purpose, amount: 1 })],
    [call({ purpose, amount: 2 })],
    [call({ purpose: 'else' })],
  ]);
  const decision = remembering(await requestFor(run, 't1.c0'), { scope: 'arguments', names: ['purpose'] });
  await run.decide(decision);
  const third = await requestFor(run, 't3.c0');
  expect(third).toMatchObject({ status: 'open', arguments: { purpose: 'else' } });
  expect(amounts(purpose)).toEqual([1, 2]);
  expect((await run.state()).standing).toMatchObject([
    { standing: decision.decisionId, scope: 'arguments', arguments: { purpose }, by: ['ann'], tool: 'pay' },
  ]);
  await run.decide(decisionOn(third, 'ben'));
  await run.result();
  const ledger = await run.ledger();
  expect(factsOf(ledger, 'standing.made')).toMatchObject([{ scope: 'arguments', names: ['purpose'] }]);
  expect(factsOf(ledger, 'standing.used')).toEqual([
    { kind: 'standing.used', standing: decision.decisionId, callId: 't2.c0' },
  ]);
  expect(factsOf(ledger, 'request.opened').map(({ callId }) => callId)).toEqual(['t1.c0', 't3.c0']);
});

test('G-2: what waits already is released at once, and each is sent once', async () => {
  const purpose = 'queued';
  const same = call({ purpose, amount: 1 });
  const run = await asking([[same, same, call({ purpose, amount: 2 })]]);
  const [first, , third] = await openRequests(run, 3);
  if (first === undefined || third === undefined) throw new Error('three wait');
  await run.decide(remembering(first, { scope: 'call' }));
  await until(() => (amounts(purpose).length === 2 ? true : undefined), { what: 'both equal calls' });
  expect(await openRequests(run)).toMatchObject([{ callId: 't1.c2' }]);
  await run.decide(decisionOn(third, 'ann', 'reject'));
  await run.result();
  expect(amounts(purpose)).toEqual([1, 1]);
});

test('where policy does not let it be remembered it is refused, and does not enter history', async () => {
  const run = await asking([[call({ purpose: 'bare' }, 'bare')]]);
  const request = await requestFor(run, 't1.c0');
  expect(await codeOf(run.decide(remembering(request, { scope: 'call' })))).toBe('DECISION_NOT_PERMITTED');
  await run.decide(decisionOn(request, 'ann', 'reject'));
  await run.result();
  expect(factsOf(await run.ledger(), 'decision.accepted')).toHaveLength(1);
});

test('E-1: of two, only what both said is remembered', async () => {
  const purpose = 'two';
  const run = await asking([[call({ purpose, amount: 1 }, 'lookup')], [call({ purpose, amount: 1 }, 'lookup')]]);
  const request = await requestFor(run, 't1.c0');
  await run.decide(remembering(request, { scope: 'tool' }));
  await run.decide(remembering(request, { scope: 'call' }, 'ben'));
  await run.result();
  expect(factsOf(await run.ledger(), 'standing.made')).toMatchObject([{ scope: 'call', by: ['ben', 'ann'] }]);
  expect(amounts(purpose)).toEqual([1, 1]);
});

describe('forget', () => {
  test('what would have been answered is asked again; said twice it is answered the same', async () => {
    const purpose = 'forgotten';
    const run = await asking([
      [call({ purpose, amount: 1 })],
      [call({ purpose: 'pause' }, 'bare')],
      [call({ purpose, amount: 2 })],
    ]);
    const decision = remembering(await requestFor(run, 't1.c0'), { scope: 'tool' });
    await run.decide(decision);
    const pause = await requestFor(run, 't2.c0');
    const message = { standing: decision.decisionId, by: { id: 'ben' } };
    expect(await codeOf(run.forget({ ...message, by: { id: 'mallory' } }))).toBe('APPROVER_NOT_ENTITLED');
    expect(await codeOf(run.forget({ ...message, standing: 'none' }))).toBe('STANDING_UNKNOWN');
    const ack = await run.forget(message);
    expect(ack).toMatchObject({ standing: decision.decisionId, forgottenBy: 'ben' });
    expect(await run.forget(message)).toEqual(ack);
    expect(await run.state()).not.toHaveProperty('standing');
    await run.decide(decisionOn(pause, 'ann'));
    const third = await requestFor(run, 't3.c0');
    expect(third.status).toBe('open');
    expect(amounts(purpose)).toEqual([1]);
    await run.decide(decisionOn(third, 'ann', 'reject'));
    await run.result();
    expect(factsOf(await run.ledger(), 'standing.forgotten')).toMatchObject([{ by: 'ben' }]);
  });
});

test('F35: it outlives continue-as-new and a new worker', async () => {
  const purpose = 'rolled';
  const run = await asking([
    [call({ purpose, amount: 1 })],
    [call({ purpose: 'pause' }, 'bare')],
    [call({ purpose, amount: 2 })],
  ]);
  await run.decide(remembering(await requestFor(run, 't1.c0'), { scope: 'tool' }));
  const before = await requestFor(run, 't2.c0');
  await world.client.workflow.getHandle(run.runId).signal('nudge');
  const after = await until(
    async () => (await run.requests()).find(({ runId, status }) => runId !== before.runId && status === 'open'),
    { what: 'the request in the next execution' },
  );
  await world.restartWorkers();
  await run.decide(decisionOn(after, 'ann'));
  await run.result();
  expect(amounts(purpose)).toEqual([1, 2]);
});

test('INV-G2: after a reset it answers nothing: the next call is asked, and it stands no longer', async () => {
  const purpose = 'reset';
  const run = await asking([
    [call({ purpose, amount: 1 })],
    [call({ purpose: 'pause' }, 'bare')],
    [call({ purpose, amount: 2 })],
  ]);
  await run.decide(remembering(await requestFor(run, 't1.c0'), { scope: 'tool' }));
  const pause = await requestFor(run, 't2.c0');
  await resetRun(world.client, { workflowId: run.runId, runId: pause.runId });
  const fresh = await until(
    async () => (await run.requests()).find(({ runId, status }) => runId !== pause.runId && status === 'open'),
    { what: 'the request of the reset run' },
  );
  await run.decide(decisionOn(fresh, 'ann'));
  const asked = await until(
    async () => (await run.requests()).find(({ callId, status }) => callId === 't3.c0' && status === 'open'),
    {
      what: 'the call that was asked after all',
    },
  );
  expect(asked.reopenedBecause).toContain('DECISION_STALE_RUN');
  expect(amounts(purpose)).toEqual([1]);
  expect(await run.state()).not.toHaveProperty('standing');
  await run.decide(decisionOn(asked, 'ann'));
  await run.result();
  expect(amounts(purpose)).toEqual([1, 2]);
});
