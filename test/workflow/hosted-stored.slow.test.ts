/**
 * Calls that continue an answer which the provider keeps (`storesAnswers`, docs/adr/0080): each continues it once, as a
 * branch of its own, in which it alone is approved. The servers behind the provider say what was executed.
 */
import { describe, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { AssistantPart } from '../../contracts/schemas/transcript.ts';
import { objects, stringOf } from '../support/models/dialect.ts';
import { startHostingProvider } from '../support/models/hosting-provider.ts';
import { pay, useHostedWorld } from '../support/scenes/hosted.ts';
import { lostCall, resolutionOf } from '../support/scenes/lost-answers.ts';
import { until } from '../support/until.ts';
import { outcomes, outcomesAtEnd, results, transcript } from '../support/world/run-record.ts';
import { decideNext, decisionOn, openRequests, requestAfter, requestFor, rolled } from '../support/world/world.ts';
import { partsOf } from '../support/world/during.ts';

const scene = useHostedWorld();
const { world, bank } = partsOf(scene, 'world', 'bank');

type Call = Extract<AssistantPart, { type: 'call' }>;

/** The calls as the model proposed them. */
async function proposed(run: RunHandle): Promise<readonly Call[]> {
  const parts = (await transcript(world, run)).flatMap((each) => (each.role === 'assistant' ? each.parts : []));
  return parts.filter((part): part is Call => part.type === 'call');
}

/** What a request that continues an answer says to each question of that answer. */
function said(body: JsonObject): Readonly<Record<string, unknown>> {
  const items = objects(body['input']);
  expect(items.map(({ type }) => type)).not.toContain('mcp_approval_request');
  expect(items.map(({ type }) => type)).not.toContain('mcp_list_tools');
  return Object.fromEntries(
    items.map((item) => [stringOf(item['approval_request_id'] ?? item['call_id']), item['approve'] ?? item['output']]),
  );
}

describe('an approved call', () => {
  test('continues the stored answer that asks for it, and says nothing else', async () => {
    const run = await scene.startedStored(['bank'], [{ calls: [pay('bank', 'approved')] }]);
    const [request] = await openRequests(run);
    expect(request).toMatchObject({ server: 'bank', tool: 'pay', hosted: 'keeping' });
    expect(scene.askedAs('approved').calls).toEqual([]);
    await run.decide(decisionOn(request, 'ann'));
    expect(await run.result()).toMatchObject({ status: 'completed', output: 'done' });
    expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
    expect(bank.callsFor('approved')).toHaveLength(1);
    const [call] = await proposed(run);
    const { steps, calls } = scene.askedAs('approved');
    expect(calls).toEqual([
      {
        model: 'gpt-5.1',
        stream: true,
        store: false,
        max_output_tokens: 16,
        previous_response_id: call?.storedAnswerId,
        input: [{ type: 'mcp_approval_response', approval_request_id: call?.approvalRequestId, approve: true }],
        tools: [
          {
            type: 'mcp',
            server_label: 'bank',
            server_url: bank.url,
            require_approval: 'always',
            allowed_tools: ['pay'],
            headers: { 'idempotency-key': expect.any(String) },
          },
        ],
      },
    ]);
    expect(scene.provider.stored()).toContain(call?.storedAnswerId);
    // Steps are repeatable: they state the conversation, and continue nothing.
    expect(steps.map(({ store }) => store)).toEqual([true]);
    expect(steps.flatMap((body) => Object.keys(body))).not.toContain('previous_response_id');
  });

  test('that is rejected, or that nobody decides, continues nothing', async () => {
    const calls = [pay('bank', 'no'), pay('short', 'late')];
    const run = await scene.startedStored(['bank', 'short'], [{ calls }]);
    await run.decide(decisionOn(await requestFor(run, 't1.c0'), 'bob', 'reject'));
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'rejected', 't1.c1': 'expired' });
    expect([...bank.callsFor('no'), ...bank.callsFor('late'), ...scene.askedAs('late').calls]).toEqual([]);
    const answer = (await proposed(run))[0]?.storedAnswerId;
    expect(scene.provider.read).not.toContain(answer);
  });

  test.each(['workers are replaced', 'the run continues as new'])('is made although %s meanwhile', async (what) => {
    const run = await scene.startedStored(['bank'], [{ calls: [pay('bank', what)] }]);
    const [request] = await openRequests(run);
    if (what === 'workers are replaced') await world.restartWorkers();
    else await rolled(world, run.runId);
    const again = what === 'workers are replaced' ? request : await requestAfter(run, request);
    await run.decide(decisionOn(again, 'ann'));
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded' });
    expect(bank.callsFor(what)).toHaveLength(1);
    expect(scene.askedAs(what).calls.map((body) => body['previous_response_id'])).toEqual([
      (await proposed(run))[0]?.storedAnswerId,
    ]);
  });

  test('whose answer is lost is unknown; by the word of a person it continues the same answer once more', async () => {
    scene.provider.fault('lost', 'fail');
    const run = await scene.startedStored(['open'], [{ calls: [pay('open', 'lost')] }]);
    const request = await lostCall(run);
    expect(bank.callsFor('lost')).toEqual([]);
    expect(scene.askedAs('lost').calls).toHaveLength(1);
    await run.resolveOutcome(resolutionOf(request, 'ann', { kind: 'retry' }));
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded' });
    expect(bank.callsFor('lost')).toHaveLength(1);
    const [first, second, ...more] = scene.askedAs('lost').calls;
    expect(more).toEqual([]);
    expect(second).toEqual(first);
  });

  test('of an answer that the provider has forgotten fails, is not made, and the model may propose it again', async () => {
    const calls = [pay('bank', 'forgotten')];
    const run = await scene.startedStored(['bank'], [{ calls }, { calls }]);
    const [request] = await openRequests(run);
    scene.provider.forget('forgotten');
    await run.decide(decisionOn(request, 'ann'));
    await run.decide(decisionOn(await requestFor(run, 't2.c0'), 'ann'));
    await run.result();
    const [first, second] = await results(world, run);
    expect(first).toMatchObject({
      outcome: {
        kind: 'failed',
        executed: false,
        code: 'STORED_ANSWER_GONE',
        message: expect.stringContaining('storesAnswers: false'),
      },
    });
    expect(second?.outcome.kind).toBe('succeeded');
    expect(bank.callsFor('forgotten')).toHaveLength(1);
    expect(scene.askedAs('forgotten').calls).toHaveLength(1);
  });
});

describe('calls of one answer', () => {
  test.each([
    [0, 1],
    [1, 0],
  ] as const)('are branches of it: approved %d, then %d', async (first, second) => {
    const purposes = [`one of ${first}`, `two of ${first}`] as const;
    const run = await scene.startedStored(['bank'], [{ calls: purposes.map((each) => pay('bank', each)) }]);
    const requests = await openRequests(run, 2);
    await run.decide(decisionOn(requests[first], 'ann'));
    await until(() => bank.callsFor(purposes[first]).length === 1, { what: 'the first call' });
    await run.decide(decisionOn(requests[second], 'ann'));
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded', 't1.c1': 'succeeded' });
    expect(purposes.map((each) => bank.callsFor(each).length)).toEqual([1, 1]);
    const ids = (await proposed(run)).map(({ approvalRequestId: id = '' }) => id);
    const [own = '', other = ''] = [ids[first], ids[second]];
    expect(scene.askedAs(purposes[0]).calls.map(said)).toEqual([
      { [own]: true, [other]: false },
      { [own]: false, [other]: true },
    ]);
    expect(new Set((await proposed(run)).map(({ storedAnswerId }) => storedAnswerId)).size).toBe(1);
  });

  test('end each for itself: one is made, the other is rejected', async () => {
    const run = await scene.startedStored(['bank'], [{ calls: [pay('bank', 'yes, 1'), pay('bank', 'no, 2')] }]);
    const [yes, no] = await openRequests(run, 2);
    await run.decide(decisionOn(no, 'bob', 'reject'));
    await run.decide(decisionOn(yes, 'ann'));
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded', 't1.c1': 'rejected' });
    expect(['yes, 1', 'no, 2'].map((each) => bank.callsFor(each).length)).toEqual([1, 0]);
  });

  test('of two servers with the same tool, beside a function: only the approved server is named, and all is answered', async () => {
    const local = { function: 'local__pay', arguments: { purpose: 'here', amount: 5 } };
    const calls = [pay('bank', 'near'), pay('far', 'away'), local];
    const run = await scene.startedStored(['bank', 'far', 'local'], [{ calls }]);
    const [near, away, here] = await openRequests(run, 3);
    await run.decide(decisionOn(near, 'bob', 'reject'));
    await run.decide(decisionOn(here, 'bob', 'reject'));
    await run.decide(decisionOn(away, 'ann'));
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'rejected', 't1.c1': 'succeeded', 't1.c2': 'rejected' });
    expect(['near', 'away', 'here'].map((each) => bank.callsFor(each).length)).toEqual([0, 1, 0]);
    const [body, ...more] = scene.askedAs('"away').calls;
    expect(more).toEqual([]);
    expect(objects(body?.['tools']).map((tool) => tool['server_label'])).toEqual(['far']);
    const [first, second, third] = await proposed(run);
    expect(said(body ?? {})).toEqual({
      [first?.approvalRequestId ?? '']: false,
      [second?.approvalRequestId ?? '']: true,
      [third?.providerCallId ?? '']: expect.any(String),
    });
    expect(third).not.toHaveProperty('storedAnswerId');
  });
});

describe('nothing is stored', () => {
  test('unless the operator says so', async () => {
    const before = scene.provider.stored();
    const run = await scene.started(['open'], [{ calls: [pay('open', 'unstored')] }]);
    await run.result();
    const { steps, calls } = scene.askedAs('unstored');
    expect([...steps, ...calls].map(({ store }) => store)).toEqual([false, false]);
    expect(scene.provider.stored()).toEqual(before);
    expect((await proposed(run))[0]).not.toHaveProperty('storedAnswerId');
  });

  test('by a provider that says that it keeps nothing: its calls state what they approve', async () => {
    const forgetful = await startHostingProvider();
    try {
      forgetful.stopStoring();
      const keeping = world.config.models['keeping'];
      world.config.models['forgetful'] = { ...keeping, baseUrl: forgetful.baseUrl } as never;
      await world.restartWorkers();
      forgetful.script('keep nothing', [{ calls: [pay('bank', 'kept nowhere')] }, { text: 'done' }]);
      const agent = { name: 'clerk', model: 'forgetful' };
      const over = { agent, input: 'keep nothing', servers: [{ name: 'bank' }] };
      const run = await world.start([{ text: 'unused' }], over);
      await decideNext(run, 'ann');
      expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded' });
      expect(bank.callsFor('kept nowhere')).toHaveLength(1);
      const approving = forgetful.asked.filter(({ approves }) => approves).map(({ body }) => body);
      expect(approving.map((body) => objects(body['input']).map(({ type }) => type))).toEqual([
        [undefined, 'mcp_list_tools', 'mcp_approval_request', 'mcp_approval_response'],
      ]);
      expect(forgetful.read).toEqual([]);
    } finally {
      await forgetful.close();
    }
  });
});
