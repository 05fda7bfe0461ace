/**
 * The proxy of LiteLLM, which no one here wrote, between this service and the provider of the model (docs/adr/0080,
 * S4.7). As a relay it keeps what a hosted call consists of. As a host of tools it never asks, and calls nothing that
 * it is told to ask about. The judge is the MCP server behind it.
 */
import { describe, expect, test } from '@jest/globals';
import { createMemoryStore } from '../../activities/artifacts/memory.ts';
import { createHostedServer, createHostingModel } from '../../activities/hosted/hosted-server.ts';
import type { RunHandle } from '../../client/index.ts';
import { aCall, aConnection, aDefinition } from '../support/activities/tool-call.ts';
import { loopbackEgress } from '../support/egress.ts';
import { INSTALL_MS } from '../support/foreign/clients.ts';
import { LITELLM_KEY, startLiteLlm } from '../support/foreign/litellm.ts';
import { startSseBridge } from '../support/foreign/sse-bridge.ts';
import { startHostingProvider } from '../support/models/hosting-provider.ts';
import { startObedientModel } from '../support/models/obedient-model.ts';
import { pay } from '../support/scenes/hosted.ts';
import { lostCall, resolutionOf } from '../support/scenes/lost-answers.ts';
import { startRecordingServer, TOOLS } from '../support/servers/recording-server.ts';
import { outcomes, outcomesAtEnd, results } from '../support/world/run-record.ts';
import { decideNext, decisionOn, openRequests, startWorld } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

const provider = during(() => startHostingProvider(), INSTALL_MS);
const model = during(() => startObedientModel(), INSTALL_MS);
const bank = during(() => startRecordingServer({ tools: TOOLS.filter(({ name }) => name !== 'odd') }), INSTALL_MS);
const bridge = during(() => startSseBridge(() => bank.url), INSTALL_MS);
const proxy = during(() => startLiteLlm({ provider, model, bank: bridge }), INSTALL_MS);
const world = during(async () => {
  const common = { provider: 'openai', baseUrl: proxy.baseUrl, apiKey: LITELLM_KEY, asksBeforeCalls: true } as const;
  const hosted = { execute: 'hosted', credentials: { kind: 'none' } } as const;
  return await startWorld({
    config: {
      models: {
        relayed: { ...common, model: 'relayed' },
        keeping: { ...common, model: 'relayed', storesAnswers: true },
        gateway: { ...common, model: 'gateway' },
      },
      servers: {
        bank: { url: bank.url, ...hosted },
        short: { url: bank.url, ...hosted },
        own: { url: proxy.bankUrl, ...hosted },
      },
      policy: {
        approvers: { ids: ['ann'] },
        servers: { short: { tools: { pay: { action: 'ask', deadlineSeconds: 1 } } } },
      },
    },
  });
}, INSTALL_MS);

async function started(by: 'relayed' | 'keeping' | 'gateway', input: string, server: string): Promise<RunHandle> {
  const over = { agent: { name: 'clerk', model: by }, input, servers: [{ name: server }] };
  return await world.start([{ text: 'unused' }], over);
}

describe('as a relay', () => {
  async function wanting(purpose: string, server = 'bank'): Promise<RunHandle> {
    provider.script(purpose, [{ calls: [pay(server, purpose)] }, { text: 'done' }]);
    return await started('relayed', purpose, server);
  }

  test('it brings the list, the question, the approval and the result: the call is made once', async () => {
    const run = await wanting('approved');
    const [request] = await openRequests(run);
    expect(request).toMatchObject({ tool: 'pay', hosted: 'relayed', arguments: { purpose: 'approved', amount: 5 } });
    expect(bank.callsFor('approved')).toEqual([]);
    await decideNext(run, 'ann');
    expect(await run.result()).toMatchObject({ status: 'completed', output: 'done' });
    expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
    expect(bank.callsFor('approved')).toHaveLength(1);
  });

  test('a rejected call and an expired one are not made', async () => {
    const rejected = await wanting('rejected');
    await decideNext(rejected, 'ann', 'reject');
    const expired = await wanting('expired', 'short');
    await Promise.all([rejected.result(), expired.result()]);
    expect(await outcomes(rejected)).toEqual({ 't1.c0': 'rejected' });
    expect(await outcomes(expired)).toEqual({ 't1.c0': 'expired' });
    expect([...bank.callsFor('rejected'), ...bank.callsFor('expired')]).toEqual([]);
  });

  test('a call whose answer is lost behind it is made once, and a person is asked what became of it', async () => {
    provider.fault('lost', 'lose');
    const run = await wanting('lost');
    await decideNext(run, 'ann');
    const request = await lostCall(run);
    expect(bank.callsFor('lost')).toHaveLength(1);
    await run.resolveOutcome(resolutionOf(request, 'ann', { kind: 'failed', message: 'nothing there' }));
    await run.result();
    expect(bank.callsFor('lost')).toHaveLength(1);
  });

  test('calls continue the answer that the provider keeps, under the id that it has here, in branches', async () => {
    const purposes = ['one kept', 'two kept'];
    provider.script('kept', [{ calls: purposes.map((each) => pay('bank', each)) }, { text: 'done' }]);
    const run = await started('keeping', 'kept', 'bank');
    const [first, second] = await openRequests(run, 2);
    await run.decide(decisionOn(second, 'ann'));
    await run.decide(decisionOn(first, 'ann'));
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded', 't1.c1': 'succeeded' });
    expect(purposes.map((each) => bank.callsFor(each).length)).toEqual([1, 1]);
    const continued = provider.asked.filter(
      ({ approves, context }) => approves && JSON.stringify(context).includes('kept'),
    );
    const [answer, other, ...more] = continued.map(({ body }) => body['previous_response_id']);
    expect(provider.stored()).toContain(answer);
    expect([other, ...more]).toEqual([answer]);
  });

  test('a call of an answer that the provider has forgotten is not made, and says so', async () => {
    provider.script('gone', [{ calls: [pay('bank', 'gone')] }, { text: 'done' }]);
    const run = await started('keeping', 'gone', 'bank');
    const [request] = await openRequests(run);
    provider.forget('gone');
    await run.decide(decisionOn(request, 'ann'));
    await run.result();
    expect((await results(world, run))[0]?.outcome).toMatchObject({
      kind: 'failed',
      executed: false,
      code: 'STORED_ANSWER_GONE',
    });
    expect(bank.callsFor('gone')).toEqual([]);
  });

  test('every request came through in its published shape', () => {
    expect(provider.asked.length).toBeGreaterThan(0);
    expect(provider.asked.flatMap(({ violations }) => violations)).toEqual([]);
  });
});

describe('as a host of tools', () => {
  test('it turns calls into functions that nobody offered: they are denied, and nothing is called', async () => {
    model.obey('gateway', 'bank-pay', { purpose: 'gateway' });
    const run = await started('gateway', 'gateway', 'own');
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'denied' });
    expect(bank.callsFor('gateway')).toEqual([]);
  });

  test('it knows no approvals: an approved call is not made, and nothing is claimed of it', async () => {
    const config = { provider: 'openai', model: 'gateway', maxOutputTokens: 256, timeoutSeconds: 30 } as const;
    const hosting = createHostingModel(
      'gateway',
      { ...config, baseUrl: proxy.baseUrl, apiKey: LITELLM_KEY },
      loopbackEgress(),
    );
    const server = createHostedServer({ artifacts: createMemoryStore(), models: () => hosting });
    const connection = aConnection({ name: 'own', url: proxy.bankUrl, hosted: { model: 'gateway' } });
    const { tools } = await server.list(connection, new AbortController().signal);
    expect(tools.map(({ name }) => name)).toContain('bank-pay');
    const args = { purpose: 'unheard' };
    model.obey('Make the call that is approved.', 'bank-pay', args);
    const definition = aDefinition({ name: 'bank-pay' });
    const call = aCall({ definition, arguments: args, approvalRequestId: 'mcpr_1' });
    expect(await server.call(connection, call)).toMatchObject({ kind: 'unknown', code: 'OUTCOME_UNKNOWN' });
    expect(bank.callsFor('unheard')).toEqual([]);
  });
});
