/** The gate: what policy says of a call is what happens to it, call by call. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import { startEngine, type TestEngine } from '../support/engine.ts';
import { type RecordingServer, startRecordingServer } from '../support/recording-server.ts';
import { factsOf, ledgerShows, outcomes, refusalOf, results, traceOf } from '../support/run-record.ts';
import { decisionOn, openRequests, requestFor, startWorld, type World } from '../support/world.ts';

let engine: TestEngine;
let bank: RecordingServer;
/** Without a policy. */
let world: World;
const worlds: World[] = [];

async function worldWith(config: Omit<ConfigInput, 'servers'>, trusted = false): Promise<World> {
  const credentials = { kind: 'none' } as const;
  const servers = { bank: { url: bank.url, credentials, trusted }, other: { url: bank.url, credentials } };
  const shared = world === undefined ? {} : { bundle: world.bundle };
  const made = await startWorld({
    engine,
    ...shared,
    config: { taskQueue: `queue-${worlds.length}`, servers, ...config },
  });
  worlds.push(made);
  return made;
}

beforeAll(async () => {
  engine = await startEngine();
  bank = await startRecordingServer();
  world = await worldWith({});
});
afterAll(async () => {
  for (const each of worlds) await each.stop();
  await bank.close();
  await engine.stop();
});

const call = (tool: string, purpose: string, more: Record<string, string | number> = {}) => ({
  tool,
  arguments: { purpose, ...more },
});
const END = { text: 'done' };

describe('strategies (S2.1, S4.1, INV-G4)', () => {
  test('without a policy every call is asked, a read-only one too', async () => {
    const run = await world.start([{ calls: [call('bank/pay', 'default'), call('bank/lookup', 'default')] }, END]);
    const requests = await openRequests(run, 2);
    expect(requests.map(({ tool, rules }) => [tool, rules])).toEqual([
      ['pay', ['organisation/default']],
      ['lookup', ['organisation/default']],
    ]);
    // Nobody is named: who started the run decides.
    expect(requests[0]?.approvers).toEqual({ allOf: [{ layer: 'default', ids: ['ann'], groups: [] }] });
    // Asked from the first: no dispatch had to refuse it.
    expect(requests.map(({ generation }) => generation)).toEqual([1, 1]);
    expect(factsOf(await run.ledger(), 'dispatched')).toEqual([]);
    expect(bank.callsFor('default')).toEqual([]);
  });

  test('`never` asks for nothing, and the ledger says that policy allowed it (S4.6)', async () => {
    const free = await worldWith({ policy: { strategy: 'never' } });
    const run = await free.start([{ calls: [call('bank/pay', 'never')] }, END]);
    await run.result();
    expect(bank.callsFor('never')).toHaveLength(1);
    const ledger = await run.ledger();
    expect(factsOf(ledger, 'verdict')).toMatchObject([
      { callId: 't1.c0', verdict: 'allow', rules: ['organisation/strategy/never'] },
    ]);
    expect(factsOf(ledger, 'request.opened')).toEqual([]);
  });

  test('`always` asks also for what the server calls read-only', async () => {
    const strict = await worldWith({ policy: { strategy: 'always' } }, true);
    const run = await strict.start([{ calls: [call('bank/lookup', 'always')] }, END]);
    expect(await openRequests(run)).toMatchObject([{ tool: 'lookup', rules: ['organisation/strategy/always'] }]);
    expect(bank.callsFor('always')).toEqual([]);
  });

  test('`annotations` exempts a boolean readOnlyHint of a trusted server, and nothing else (F25)', async () => {
    const trusting = await worldWith({ policy: { strategy: 'annotations' } }, true);
    const tools = ['bank/lookup', 'bank/odd', 'bank/bare', 'bank/pay', 'other/lookup'];
    const run = await trusting.start([{ calls: tools.map((tool) => call(tool, 'annotations', { as: tool })) }, END]);
    const asked = await openRequests(run, 4);
    expect(asked.map(({ server, tool }) => `${server}/${tool}`)).toEqual([
      'bank/odd',
      'bank/bare',
      'bank/pay',
      'other/lookup',
    ]);
    await ledgerShows(run, 'outcome', 't1.c0');
    expect(bank.callsFor('annotations').map(({ arguments: args }) => args['as'])).toEqual(['bank/lookup']);
    // What the server sent stands in the request, whatever its type.
    expect(asked[0]?.annotations).toEqual({ readOnlyHint: 'true' });
  });

  test('a denied tool is never sent, is not asked, and the model hears why (B-4, INV-X2)', async () => {
    const policy = { strategy: 'never', servers: { bank: { tools: { pay: 'deny' } } } } as const;
    const denying = await worldWith({ policy });
    const run = await denying.start([
      { calls: [call('bank/pay', 'deny'), call('other/pay', 'deny')] },
      {
        text: 'went on',
        branches: [{ when: { call: 0, textIncludes: 'Do not retry' }, then: { text: 'understood' } }],
      },
    ]);
    expect(await run.result()).toMatchObject({ output: 'understood' });
    // The rule names a server: the same tool of another one is another tool (D-4).
    expect(bank.callsFor('deny')).toHaveLength(1);
    expect(await outcomes(run)).toEqual({ 't1.c0': 'denied', 't1.c1': 'succeeded' });
    expect(factsOf(await run.ledger(), 'verdict', 't1.c0')).toMatchObject([
      { verdict: 'deny', rules: ['organisation/servers/bank/tools/pay'] },
    ]);
  });

  test("a run's policy tightens the organisation's and cannot loosen it (INV-G4)", async () => {
    const mixed = await worldWith({ policy: { strategy: 'never', servers: { bank: { tools: { pay: 'ask' } } } } });
    const steps = [
      { calls: [call('bank/pay', 'layers'), call('bank/lookup', 'layers'), call('bank/bare', 'layers')] },
      END,
    ];
    const run = await mixed.start(steps, {
      policy: { strategy: 'never', servers: { bank: { tools: { pay: 'allow', lookup: 'deny', bare: 'ask' } } } },
    });
    expect((await openRequests(run, 2)).map(({ tool }) => tool)).toEqual(['pay', 'bare']);
    expect(await outcomes(run)).toEqual({ 't1.c1': 'denied' });
    expect(bank.callsFor('layers')).toEqual([]);
  });

  test('a tool that is not offered, and arguments that do not fit, are refused without asking anybody (G-5)', async () => {
    const run = await world.start([
      {
        calls: [
          call('bank/steal', 'unknown'),
          call('nowhere/pay', 'unknown'),
          call('bank/transfer', 'unknown', { amount: 'all' }),
        ],
      },
      END,
    ]);
    await run.result();
    expect(factsOf(await run.ledger(), 'outcome')).toMatchObject([
      { code: 'TOOL_UNKNOWN' },
      { code: 'TOOL_UNKNOWN' },
      { code: 'ARGUMENTS_INVALID' },
    ]);
    expect(bank.callsFor('unknown')).toEqual([]);
  });
});

describe('calls are independent (INV-G3)', () => {
  test('an ungated sibling finishes while the gated call still waits (B-6, B-11)', async () => {
    const mixed = await worldWith({ policy: { servers: { bank: { tools: { lookup: 'allow', fail: 'allow' } } } } });
    const run = await mixed.start([
      { calls: [call('bank/pay', 'sibling'), call('bank/lookup', 'sibling'), call('bank/fail', 'sibling')] },
      END,
    ]);
    await ledgerShows(run, 'outcome', 't1.c1');
    await ledgerShows(run, 'outcome', 't1.c2');
    const [request] = await openRequests(run);
    expect(request?.tool).toBe('pay');
    expect((await run.state()).status).toBe('waiting');
    if (request === undefined) throw new Error('no request');
    await run.decide(decisionOn(request, 'ann'));
    await run.result();
    // All three, in the order of the proposals, although they ended in another one.
    expect((await results(mixed, run)).map(({ callId, outcome }) => [callId, outcome.kind])).toEqual([
      ['t1.c0', 'succeeded'],
      ['t1.c1', 'succeeded'],
      ['t1.c2', 'failed'],
    ]);
    const ended = factsOf(await run.ledger(), 'outcome').map(({ callId }) => callId);
    expect(ended.at(-1)).toBe('t1.c0');
  });

  test('parallel calls of one tool, decided in reverse order, run with their own arguments (B-1, B-2, B-3)', async () => {
    const run = await world.start([{ calls: [1, 2, 3].map((amount) => call('bank/pay', 'reverse', { amount })) }, END]);
    const requests = await openRequests(run, 3);
    for (const request of requests.toReversed()) {
      await run.decide(decisionOn(request, 'ann'));
      await ledgerShows(run, 'outcome', request.callId);
    }
    await run.result();
    expect(bank.callsFor('reverse').map(({ arguments: args }) => args['amount'])).toEqual([3, 2, 1]);
    const texts = (await results(world, run)).map(({ callId, outcome }) => [callId, JSON.stringify(outcome)]);
    expect(texts.map(([callId, text]) => [callId, /amount\\":(\d)/.exec(text ?? '')?.[1]])).toEqual([
      ['t1.c0', '1'],
      ['t1.c1', '2'],
      ['t1.c2', '3'],
    ]);
  });

  test("a reject runs nothing, reaches the model with its reason, and leaves the others' results alone (B-4, B-9, B-13)", async () => {
    const run = await world.start([
      { calls: [1, 2, 3].map((amount) => call('bank/pay', 'reject', { amount })) },
      {
        text: 'lost',
        branches: [{ when: { call: 1, outcome: 'rejected', textIncludes: 'too much money' }, then: { text: 'heard' } }],
      },
    ]);
    const [one, two, three] = await openRequests(run, 3);
    if (one === undefined || two === undefined || three === undefined) throw new Error('three requests');
    await run.decide({ ...decisionOn(two, 'ann', 'reject'), kind: 'reject', reason: 'too much money' });
    await run.decide(decisionOn(three, 'ann'));
    await run.decide(decisionOn(one, 'ann'));
    expect(await run.result()).toMatchObject({ output: 'heard' });
    expect(
      bank
        .callsFor('reject')
        .map(({ arguments: args }) => Number(args['amount']))
        .toSorted((less, more) => less - more),
    ).toEqual([1, 3]);
    expect((await results(world, run)).map(({ outcome }) => outcome.kind)).toEqual([
      'succeeded',
      'rejected',
      'succeeded',
    ]);
  });

  test('the same call proposed again after a reject and a word of the user is asked again, with another digest (B-14, D-4)', async () => {
    const run = await world.start([{ calls: [call('bank/pay', 'again')], repeat: 2 }, END]);
    const [first] = await openRequests(run);
    if (first === undefined) throw new Error('no request');
    await run.say({ messageId: 'm1', text: 'Ask me again.', from: 'ann' });
    await run.decide(decisionOn(first, 'ann', 'reject'));
    await ledgerShows(run, 'request.opened', 't2.c0');
    const [second] = await openRequests(run);
    expect(second).toMatchObject({ callId: 't2.c0', arguments: first.arguments });
    expect(second?.digest).not.toBe(first.digest);
  });
});

describe('deadlines (F-1, F-2, F-5)', () => {
  test('a request that nobody decides expires, which is no rejection, and a late decision is told so', async () => {
    const run = await world.start(
      [
        { calls: [call('bank/pay', 'expiry'), call('bank/slow', 'expiry')] },
        {
          text: 'lost',
          branches: [
            {
              when: { call: 0, outcome: 'expired', textIncludes: 'This is no rejection' },
              then: { calls: [call('bank/pay', 'expiry')] },
            },
          ],
        },
        END,
      ],
      { policy: { servers: { bank: { tools: { pay: { action: 'ask', deadlineSeconds: 1 } } } } } },
    );
    // Whatever became of it by now: the other one keeps the turn, and with it this request, in sight.
    const request = await requestFor(run, 't1.c0');
    const other = await requestFor(run, 't1.c1');
    expect(Date.parse(request.deadline) - Date.parse(request.openedAt)).toBe(1_000);
    // The sibling keeps its own deadline of a day.
    expect(Date.parse(other.deadline) - Date.parse(other.openedAt)).toBe(86_400_000);
    expect(await ledgerShows(run, 'outcome', 't1.c0')).toMatchObject({ outcome: 'expired' });
    expect(factsOf(await run.ledger(), 'request.closed')).toMatchObject([{ callId: 't1.c0', status: 'expired' }]);
    const before = await traceOf(world, run.runId);
    expect(await refusalOf(run.decide(decisionOn(request, 'ann')))).toMatchObject({
      code: 'DECISION_EXPIRED',
      facts: { callId: 't1.c0' },
    });
    expect(await traceOf(world, run.runId)).toEqual(before);

    await run.decide(decisionOn(other, 'ann', 'reject'));
    // The model proposed it again: that is a request of its own, which expires by itself.
    expect(await ledgerShows(run, 'outcome', 't2.c0')).toMatchObject({ outcome: 'expired' });
    expect(await refusalOf(run.decide(decisionOn(request, 'ann')))).toMatchObject({
      code: expect.stringMatching(/DECISION_EXPIRED|RUN_CLOSED/),
    });
    expect(await run.result()).toMatchObject({ status: 'completed', output: 'done' });
    expect(bank.callsFor('expiry')).toEqual([]);
  });
});
