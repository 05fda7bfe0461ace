/**
 * Tools that the model's provider calls itself pass the same gate (docs/adr/0080): what the MCP servers behind the
 * provider received is the truth about what was executed.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { requestDigest } from '../../domain/request/digest.ts';
import { startHostingProvider } from '../support/models/hosting-provider.ts';
import { objects } from '../support/models/dialect.ts';
import { withCode } from '../support/refusal.ts';
import { pay, useHostedWorld } from '../support/scenes/hosted.ts';
import { factsOf, outcomes, outcomesAtEnd, refusalOf, results, transcript } from '../support/world/run-record.ts';
import { decideNext, decisionOn, openRequests } from '../support/world/world.ts';
import { during, partsOf } from '../support/world/during.ts';

const scene = useHostedWorld();
const { world, bank } = partsOf(scene, 'world', 'bank');

describe('a hosted call', () => {
  test('is asked about in the same inbox, and made by the provider once a person approves', async () => {
    const run = await scene.started(['bank'], [{ calls: [pay('bank', 'approved')] }]);
    const [request] = await openRequests(run);
    expect(request).toMatchObject({ server: 'bank', tool: 'pay', hosted: 'gpt', asItIs: true });
    expect(bank.callsFor('approved')).toHaveLength(0);
    expect(scene.askedAs('approved').calls).toHaveLength(0);
    await run.decide(decisionOn(request, 'ann'));
    expect(await run.result()).toMatchObject({ status: 'completed', output: 'done' });
    expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
    expect(bank.callsFor('approved')).toHaveLength(1);
    const said = await transcript(world, run);
    expect(said.flatMap((message) => (message.role === 'tool' ? message.results : []))).toMatchObject([
      {
        outcome: {
          kind: 'succeeded',
          result: { content: [{ type: 'text', text: expect.stringContaining('pay did') }] },
        },
        approvalResponse: { approve: true, approvalRequestId: expect.stringMatching(/^mcpr_/) },
      },
    ]);
    const ledger = await run.ledger();
    expect(factsOf(ledger, 'verdict')).toMatchObject([{ verdict: 'ask', hosted: 'gpt' }]);
    expect(factsOf(ledger, 'decision.accepted')).toHaveLength(1);
  });

  test('S4.2: has call, request and response as parts of their own, with ids that cannot be confused', async () => {
    const run = await scene.started(['bank'], [{ calls: [pay('bank', 'parts')] }]);
    await decideNext(run, 'ann');
    await run.result();
    const messages = await transcript(world, run);
    const call = messages.flatMap((message) => (message.role === 'assistant' ? message.parts : []))[0];
    expect(call).toMatchObject({ type: 'call', callId: 't1.c0', approvalRequestId: expect.stringMatching(/^mcpr_/) });
    const ids = [call, messages.flatMap((message) => (message.role === 'tool' ? message.results : []))[0]].map(
      (part) => part !== undefined && 'callId' in part && [part.callId, part.providerCallId],
    );
    expect(ids).toEqual([
      ['t1.c0', ''],
      ['t1.c0', ''],
    ]);
  });

  test('S4.7: is approved under the id that the provider gave, once, and no model step carries an approval', async () => {
    const run = await scene.started(['bank'], [{ calls: [pay('bank', 'told')] }]);
    await decideNext(run, 'ann');
    await run.result();
    const { steps, calls } = scene.askedAs('told');
    const [call, ...others] = calls.map((body) => objects(body['input']));
    expect(others).toEqual([]);
    const given = call?.find(({ type }) => type === 'mcp_approval_request')?.['id'];
    const message = (await transcript(world, run)).find(({ role }) => role === 'assistant');
    expect(message).toMatchObject({ parts: [{ approvalRequestId: given }] });
    expect(call?.find(({ type }) => type === 'mcp_approval_response')).toMatchObject({ approval_request_id: given });
    // What the provider has executed is all that the server has received: nothing was called from here.
    expect(scene.provider.executed.filter((id) => id === given)).toHaveLength(1);
    expect(bank.callsFor('told')).toHaveLength(1);
    const last = objects(steps.at(-1)?.['input']);
    expect(last.map(({ type }) => type)).toContain('mcp_call');
    expect(last.map(({ type }) => type)).not.toContain('mcp_approval_request');
    for (const tool of scene.provider.asked.flatMap(({ body }) => objects(body['tools'])))
      if (tool['type'] === 'mcp') expect(tool['require_approval']).toBe('always');
  });

  test('that policy allows is approved at once, and recorded as allowed', async () => {
    const run = await scene.started(['open'], [{ calls: [pay('open', 'allowed')] }]);
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded' });
    expect(bank.callsFor('allowed')).toHaveLength(1);
    const ledger = await run.ledger();
    expect(factsOf(ledger, 'verdict')).toMatchObject([{ verdict: 'allow', hosted: 'gpt' }]);
    expect(factsOf(ledger, 'request.opened')).toEqual([]);
  });

  test('that is rejected is never made, and the provider is told why', async () => {
    const run = await scene.started(['bank'], [{ calls: [pay('bank', 'rejected')] }]);
    await decideNext(run, 'bob', 'reject');
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'rejected' });
    expect(bank.callsFor('rejected')).toHaveLength(0);
    const { steps, calls } = scene.askedAs('rejected');
    expect(calls).toEqual([]);
    const items = objects(steps.at(-1)?.['input']);
    const request = items.find(({ type }) => type === 'mcp_approval_request');
    expect(items.find(({ type }) => type === 'mcp_approval_response')).toMatchObject({
      approve: false,
      approval_request_id: request?.['id'],
      reason: expect.stringContaining('rejected this call'),
    });
  });

  test('that policy denies, or that nobody decides in time, is never made', async () => {
    const run = await scene.started(['shut', 'short'], [{ calls: [pay('shut', 'denied'), pay('short', 'expired')] }]);
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'denied', 't1.c1': 'expired' });
    expect([...bank.callsFor('denied'), ...bank.callsFor('expired')]).toEqual([]);
    const responses = objects(scene.askedAs('expired').steps.at(-1)?.['input']).filter(
      ({ type }) => type === 'mcp_approval_response',
    );
    expect(responses.map(({ approve }) => approve)).toEqual([false, false]);
  });

  test('cannot be edited or answered for, and says so', async () => {
    const run = await scene.started(['bank'], [{ calls: [pay('bank', 'edited')] }]);
    const [request] = await openRequests(run);
    const edit = { ...decisionOn(request, 'ann'), arguments: { purpose: 'edited', amount: 6 } };
    const refused = await refusalOf(run.decide(edit));
    expect(refused).toMatchObject(withCode('DECISION_NOT_PERMITTED', 'yes or no'));
    await run.decide(decisionOn(request, 'ann', 'reject'));
    await run.result();
    expect(bank.callsFor('edited')).toEqual([]);
  });

  test('has a digest that an approval of a local call does not fit', async () => {
    const run = await scene.started(['bank'], [{ calls: [pay('bank', 'digest')] }]);
    const [request] = await openRequests(run);
    const { hosted: _, ...local } = request;
    expect(requestDigest({ ...request, target: request })).toBe(request.digest);
    const forged = { ...decisionOn(request, 'ann'), digest: requestDigest({ ...local, target: local }) };
    expect(await refusalOf(run.decide(forged))).toMatchObject({ code: 'DIGEST_MISMATCH' });
    await run.decide(decisionOn(request, 'ann', 'reject'));
    await run.result();
  });
});

describe('calls beside each other', () => {
  test('wait and end each for itself: two hosted servers and a local one with the same tool', async () => {
    const run = await scene.started(
      ['bank', 'far', 'local'],
      [
        {
          calls: [
            pay('bank', 'one'),
            pay('far', 'two'),
            { function: 'local__pay', arguments: { purpose: 'three', amount: 5 } },
          ],
        },
      ],
    );
    const requests = await openRequests(run, 3);
    expect(requests.map(({ server, hosted }) => [server, hosted])).toEqual([
      ['bank', 'gpt'],
      ['far', 'gpt'],
      ['local', undefined],
    ]);
    const [first, second, third] = requests;
    await run.decide(decisionOn(second, 'ann'));
    await run.decide(decisionOn(third, 'ann'));
    await run.decide(decisionOn(first, 'bob', 'reject'));
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'rejected', 't1.c1': 'succeeded', 't1.c2': 'succeeded' });
    expect(['one', 'two', 'three'].map((purpose) => bank.callsFor(purpose).length)).toEqual([0, 1, 1]);
    // The local one came from this service, the other from the scene.provider.
    expect(scene.askedAs('"two').calls.map(({ tools }) => objects(tools).map((tool) => tool['server_label']))).toEqual([
      ['far'],
    ]);
  });

  test('S4.3: have names that mean one tool each, in any order of servers, where plain names would be alike', async () => {
    const calls = (purpose: string) => [
      { server: 'bank', tool: 'pay__now', arguments: { purpose } },
      { server: 'bank__pay', tool: 'now', arguments: { purpose } },
    ];
    const names: (readonly string[])[] = [];
    for (const servers of [
      ['bank', 'bank__pay'],
      ['bank__pay', 'bank'],
    ]) {
      const purpose = servers.join(', ');
      const run = await scene.started(servers, [{ calls: calls(purpose) }]);
      const [first, second] = await openRequests(run, 2);
      expect([first, second].map(({ server, tool }) => `${server}/${tool}`)).toEqual([
        'bank/pay__now',
        'bank__pay/now',
      ]);
      await run.decide(decisionOn(first, 'bob', 'reject'));
      await run.decide(decisionOn(second, 'ann'));
      expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'rejected', 't1.c1': 'succeeded' });
      expect(bank.callsFor(purpose).map(({ tool }) => tool)).toEqual(['now']);
      const said = await transcript(world, run);
      names.push(said.flatMap((each) => (each.role === 'tool' ? each.results : [])).map(({ name }) => name));
    }
    expect(new Set(names[0]).size).toBe(2);
    expect(names[1]).toEqual(names[0]);
  });

  test('a hosted tool that is called as a function, and the other way round, is refused by the judge', async () => {
    const run = await scene.started(
      ['bank', 'local'],
      [{ calls: [{ function: 'bank__pay', arguments: { purpose: 'crossed' } }, pay('local', 'crossed')] }],
    );
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'denied', 't1.c1': 'denied' });
    expect(bank.callsFor('crossed')).toEqual([]);
  });
});

test('an error of the tool is a failure of the call', async () => {
  const run = await scene.started(['open'], [{ calls: [pay('open', 'failing', 'fail')] }]);
  await run.result();
  expect((await results(world, run))[0]?.outcome).toMatchObject({
    kind: 'failed',
    code: 'TOOL_FAILED',
    executed: true,
  });
});

test('a real file server behind the provider writes what was approved', async () => {
  const path = join(scene.files.folder, 'note.txt');
  const write = { server: 'files', tool: 'write_file', arguments: { path, content: 'approved' } };
  const run = await scene.started(['files'], [{ calls: [write] }]);
  await decideNext(run, 'ann');
  expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded' });
  expect(await readFile(path, 'utf8')).toBe('approved');
});

describe('who calls', () => {
  test('a model whose provider does not ask is refused at the start, by a code of its own', async () => {
    const run = await world.start([{ text: 'done' }], { servers: [{ name: 'bank' }] });
    expect(await refusalOf(run.result())).toMatchObject(withCode('HOSTED_UNSUPPORTED', 'does not ask before it calls'));
  });

  test('S4.5: with auto, the same server is called by this service where the provider cannot, with the same gate and results', async () => {
    const calls = [{ tool: 'auto/pay', arguments: { purpose: 'automatic' } }];
    const run = await world.start([{ calls }, { text: 'done' }], { servers: [{ name: 'auto' }] });
    const [request] = await openRequests(run);
    expect(request).not.toHaveProperty('hosted');
    const other = await scene.started(
      ['auto'],
      [{ calls: [{ server: 'auto', tool: 'pay', arguments: { purpose: 'automatic' } }] }],
    );
    const [hosted] = await openRequests(other);
    expect(hosted.hosted).toBe('gpt');
    const { server, tool, definitionHash, arguments: args, approvers } = request;
    expect(hosted).toMatchObject({ server, tool, definitionHash, arguments: args, approvers });
    for (const each of [run, other]) {
      await decideNext(each, 'ann');
      expect(await outcomesAtEnd(each)).toEqual({ 't1.c0': 'succeeded' });
    }
    const [ours, theirs] = [await results(world, run), await results(world, other)];
    expect(theirs[0]?.outcome).toEqual(ours[0]?.outcome);
    expect(bank.callsFor('automatic')).toHaveLength(2);
  });

  test('of what stands behind a baseUrl the operator must say that it asks', async () => {
    const { asksBeforeCalls: _, ...unsure } = { asksBeforeCalls: true, ...world.config.models['gpt'] };
    world.config.models['unsure'] = unsure as never;
    await world.restartWorkers();
    const agent = { name: 'clerk', model: 'unsure' };
    const before = scene.provider.asked.length;
    const hosted = await world.start([{ text: 'unused' }], { agent, servers: [{ name: 'bank' }] });
    expect(await refusalOf(hosted.result())).toMatchObject(withCode('HOSTED_UNSUPPORTED', 'asksBeforeCalls: true'));
    expect(scene.provider.asked).toHaveLength(before);
  });

  test('a run chooses only where the configuration says auto', async () => {
    const run = await world.start([{ text: 'done' }], { servers: [{ name: 'local', execute: 'hosted' }] });
    expect(await refusalOf(run.result())).toMatchObject(withCode('SPEC_INVALID', 'servers[0].execute'));
  });

  describe('a provider that calls without asking', () => {
    const runBy = async (input: string) =>
      await world.start([{ text: 'unused' }], {
        agent: { name: 'clerk', model: 'rude' },
        input,
        servers: [{ name: 'bank' }],
      });

    const rude = during(() => startHostingProvider());
    beforeAll(async () => {
      rude.stopAsking();
      const openai = { ...world.config.models['gpt'], baseUrl: rude.baseUrl } as never;
      world.config.models['rude'] = openai;
    });
    // A worker asks a provider nothing more that has called without asking.
    beforeEach(async () => await world.restartWorkers());

    // Whether its answer ends well or breaks off, the step is not taken again: that might call again.
    test.each([
      ['unasked', []],
      ['unasked, broken off', ['lose']],
    ] as const)('ends the run, loudly: %s', async (purpose, faults) => {
      for (const fault of faults) rude.fault(purpose, fault);
      rude.script(purpose, [{ calls: [pay('bank', purpose)] }]);
      const run = await runBy(purpose);
      expect(await refusalOf(run.result())).toMatchObject(withCode('HOSTED_UNSUPPORTED', 'without asking'));
      const steps = rude.asked.filter(({ body }) => JSON.stringify(body['include'] ?? []).includes('reasoning'));
      expect(steps.filter(({ body }) => JSON.stringify(body['input']).includes(`"${purpose}"`))).toHaveLength(1);
      expect(bank.callsFor(purpose)).toHaveLength(1);
    });

    test('and that was asked for its list is not asked for it again', async () => {
      rude.script('Say which tools you have.', [{ calls: [pay('bank', 'listing')] }]);
      const run = await runBy('list');
      expect(await refusalOf(run.result())).toMatchObject(
        withCode('HOSTED_UNSUPPORTED', 'when it was asked for a list'),
      );
      expect(bank.callsFor('listing')).toHaveLength(1);
    });
  });
});
