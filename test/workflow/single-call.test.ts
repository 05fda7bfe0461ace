/** A single call passes the gate of every run: the same verdicts, requests, digests and ledger, without a model (S2.3, INV-G1, INV-X1). */
import { expect, test } from '@jest/globals';
import { type CallSpecInput, SingleCall } from '../../client/index.ts';
import { CALLER_MODEL } from '../../contracts/names.ts';
import { withCode } from '../support/refusal.ts';
import { startRecordingServer } from '../support/servers/recording-server.ts';
import { useBank } from '../support/world/bank-world.ts';
import { factsOf, refusalOf } from '../support/world/run-record.ts';
import { answerOf, decisionOn, openRequests } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

/** In no configuration: callers name its URL. */
const own = during(() => startRecordingServer());
const tools = { lookup: 'allow', bare: 'deny', fail: 'allow', big: 'allow' } as const;
const odd = { action: 'ask' as const, approvers: { ids: ['ben'], may: ['edit' as const] } };
const { world, bank } = useBank(() => ({
  egress: { allowLoopback: true, runServers: [new URL(own.url).origin] },
  policy: { strategy: 'annotations', approvers: { ids: ['ben'] }, servers: { bank: { tools: { ...tools, odd } } } },
  // A ceiling on what models may cost holds up no call that asks none.
  limits: { spend: '1.00' },
  models: {
    writer: {
      provider: 'scripted',
      script: { steps: [{ text: 'Prose.' }] },
      price: { input: '0', output: '0', currency: 'EUR' },
    },
  },
}));

async function call(runId: string, over: Partial<CallSpecInput> & Pick<CallSpecInput, 'tool'>): Promise<SingleCall> {
  const single = await world.countersign.call({
    runId,
    call: { server: 'bank', arguments: { purpose: runId }, initiator: { id: 'ann' }, ...over },
  });
  return single;
}

test('one that needs nobody is sent at once, and answered with the result of the server', async () => {
  const single = await call('allowed', { tool: 'lookup' });
  expect(await single.answer()).toEqual({
    callId: 't1.c0',
    outcome: {
      kind: 'succeeded',
      result: { content: [{ type: 'text', text: 'lookup did {"purpose":"allowed"}' }] },
    },
  });
  expect(bank.callsFor('allowed')).toHaveLength(1);
});

test('one that is asked waits for a person, is sent once, and says the same to whoever asks again (INV-D3)', async () => {
  const single = await call('asked', { tool: 'pay' });
  const [request] = await openRequests(single.run);
  expect(request).toMatchObject({ tool: 'pay', arguments: { purpose: 'asked' } });
  expect(bank.callsFor('asked')).toEqual([]);
  await world.restartWorkers();
  expect((await call('asked', { tool: 'pay' })).started).toBe(false);
  await single.run.decide(decisionOn(request, 'ben'));
  const answer = await single.answer();
  expect(answer).toMatchObject({ outcome: { kind: 'succeeded' } });
  const again = await call('asked', { tool: 'pay' });
  expect(again.started).toBe(false);
  expect(await again.answer()).toEqual(answer);
  expect(bank.callsFor('asked')).toHaveLength(1);
  expect(factsOf(await single.run.ledger(), 'decision.accepted')).toMatchObject([{ approver: { id: 'ben' } }]);
});

test('the same id with other arguments is a conflict, and sends nothing', async () => {
  await call('taken', { tool: 'lookup' }).then(async (single) => single.answer());
  const other = call('taken', { tool: 'lookup', arguments: { purpose: 'taken', amount: 2 } });
  expect(await refusalOf(other)).toMatchObject({ code: 'RUN_ID_CONFLICT', facts: { runId: 'taken' } });
  expect(bank.callsFor('taken')).toHaveLength(1);
});

test.each(['lookup', 'bare'])(
  'a tool of a server that only the caller names is asked, whatever the server says of it: %s (S4.8)',
  async (tool) => {
    const server = { name: 'own', url: own.url };
    const single = await call(`by-url-${tool}`, { server, tool });
    const [request] = await openRequests(single.run);
    expect(request).toMatchObject({ server: 'own', tool });
    expect(own.callsFor(`by-url-${tool}`)).toEqual([]);
    await single.run.decide(decisionOn(request, 'ben'));
    expect((await single.answer()).outcome.kind).toBe('succeeded');
    expect(own.callsFor(`by-url-${tool}`)).toHaveLength(1);
  },
);

test('a rejection, a denial, an unknown tool, a deadline and an error of the tool are told apart', async () => {
  const rejected = await call('rejected', { tool: 'pay' });
  const [request] = await openRequests(rejected.run);
  await rejected.run.decide({ ...answerOf(request, 'ben', { kind: 'reject', reason: 'Not this month.' }) });
  expect((await rejected.answer()).outcome).toEqual({ kind: 'rejected', by: 'ben', reason: 'Not this month.' });
  const denied = await call('denied', { tool: 'bare' });
  expect((await denied.answer()).outcome).toMatchObject({ kind: 'denied', code: 'POLICY_DENIED' });
  const unknown = await call('unknown', { tool: 'no_such_tool' });
  expect((await unknown.answer()).outcome).toMatchObject({ kind: 'denied', code: 'TOOL_UNKNOWN' });
  const late = await call('late', {
    tool: 'pay',
    policy: { servers: { bank: { tools: { pay: { action: 'ask', deadlineSeconds: 1 } } } } },
  });
  expect((await late.answer()).outcome).toMatchObject({ kind: 'expired' });
  const failed = await call('failed', { tool: 'fail' });
  expect((await failed.answer()).outcome).toMatchObject({ kind: 'failed', executed: true });
  for (const purpose of ['rejected', 'denied', 'unknown', 'late']) expect(bank.callsFor(purpose)).toEqual([]);
  expect(bank.callsFor('failed')).toHaveLength(1);
});

test('a result larger than the run keeps comes as a preview, with where the whole is', async () => {
  const single = await call('big', { tool: 'big', arguments: { characters: 300_000 } });
  const { outcome } = await single.answer();
  expect(outcome).toMatchObject({ kind: 'succeeded', result: { full: { sha256: expect.any(String) } } });
});

test('other arguments that an approver gave are told beside the outcome', async () => {
  const single = await call('edited', { tool: 'odd', arguments: { purpose: 'edited', amount: 9 } });
  const [request] = await openRequests(single.run);
  const given = { purpose: 'edited', amount: 3 };
  await single.run.decide({ ...decisionOn(request, 'ben'), kind: 'approve', arguments: given });
  expect(await single.answer()).toMatchObject({
    outcome: { kind: 'succeeded' },
    edited: { by: 'ben', arguments: given },
  });
  expect(bank.callsFor('edited')).toMatchObject([{ arguments: given }]);
});

test('one whose run is stopped, or that is no single call, has no answer, and says what to do', async () => {
  const single = await call('stopped', { tool: 'pay' });
  await openRequests(single.run);
  await single.run.stop({ by: 'ann', reason: 'not needed' });
  expect(await refusalOf(single.answer())).toMatchObject(withCode('RUN_CANCELLED', 'countersign ledger stopped'));
  const start = async (runId: string, model: string) =>
    await world.countersign.startRun({
      runId,
      spec: { agent: { name: 'clerk', model }, input: 'Do it.', initiator: { id: 'ann' }, servers: [{ name: 'bank' }] },
    });
  const other = new SingleCall(await start('other', 'writer'), false);
  expect(await refusalOf(other.answer())).toMatchObject({ code: 'CALL_UNKNOWN' });
  const prose = await start('prose', CALLER_MODEL);
  expect(await refusalOf(prose.result())).toMatchObject({ code: 'SPEC_INVALID', facts: { path: 'input' } });
});

test.each([
  [{ tool: '' }, 'SPEC_INVALID', 'tool'],
  [{ tool: 'pay', server: 'no name' }, 'SPEC_INVALID', 'server'],
  [{ tool: 'pay', limits: { turns: 3 } }, 'SPEC_INVALID', 'limits.turns'],
  // Quotes count as they stand in the spec.
  [{ tool: 'pay', arguments: { note: '"'.repeat(40_000) } }, 'ARGUMENTS_TOO_LARGE', 'arguments'],
])('what does not fit is refused by its path, and starts nothing: %#', async (over, code, path) => {
  // Sound: what does not fit is the point.
  const refused = call('misfit', over as Parameters<typeof call>[1]);
  expect(await refusalOf(refused)).toMatchObject({ code, facts: { path } });
  expect(await refusalOf(world.countersign.run('misfit').state())).toMatchObject({ code: 'RUN_NOT_FOUND' });
});

test('arguments as large as a call may be are sent whole', async () => {
  const note = 'x'.repeat(120_000);
  const single = await call('large', { tool: 'lookup', arguments: { purpose: 'large', note } });
  expect((await single.answer()).outcome.kind).toBe('succeeded');
  expect(bank.callsFor('large')).toMatchObject([{ arguments: { note } }]);
});
