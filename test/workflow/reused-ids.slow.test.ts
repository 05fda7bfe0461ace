/**
 * An id that was used for one message answers no other: whichever update it comes by, whatever of it differs (INV-G2,
 * INV-D3). By the library, and by plain updates under ids that are made as the guide says.
 */
import { expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import {
  expectOneMeaning,
  idByTheGuide,
  type Message,
  type Sent,
  sentByLibrary,
  sentPlain,
} from '../support/forgery/one-meaning.ts';
import { ADMINISTRATORS, ANN, BEN, connected } from '../support/scenes/catalogs.ts';
import { lostCall } from '../support/scenes/lost-answers.ts';
import { startMrtrServer } from '../support/servers/mrtr-server.ts';
import { startRawServer } from '../support/servers/raw-server.ts';
import { startRecordingServer } from '../support/servers/recording-server.ts';
import { keepZoneKey } from '../support/signing/keys.ts';
import { until } from '../support/until.ts';
import { factsOf } from '../support/world/run-record.ts';
import { openRequests, useEngine, useWorld } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

const bank = during(() => startRecordingServer());
const desk = during(() => startMrtrServer());
/** Takes no token. */
const gate = during(() => startRawServer({ era: 'modern', tools: { never: (exchange) => exchange.status(401) } }));
const engine = useEngine();
const world = useWorld(async () => {
  const { grants, publicJwk: key } = await keepZoneKey(engine.directory);
  const credentials = { kind: 'none' } as const;
  const approvers = { ids: ['ann', 'bob'], remember: ['call' as const] };
  return {
    engine,
    client: { servers: { mine: { url: gate.url, key } } },
    config: {
      policy: {
        approvers,
        servers: {
          bank: { tools: { slow: 'allow' } },
          desk: { tools: { book: 'allow' } },
          mine: { default: 'allow' },
        },
      },
      servers: {
        bank: { url: bank.url, credentials },
        desk: { url: desk.url, credentials },
        mine: { url: gate.url },
      },
      catalog: { administrators: ADMINISTRATORS, origins: [new URL(bank.url).origin] },
      grants,
    },
  };
});

const END = { text: 'done' };

/** What every answer to a request says of it. */
function about({ callId, digest, runId }: ApprovalRequest, decisionId: string, id = 'ann') {
  return { decisionId, callId, digest, runId, approver: { id, groups: [] } };
}

/** The same id by the updates that answer something else. */
function otherUpdates(base: Message, own: string): Readonly<Record<string, Sent>> {
  const all: Readonly<Record<string, Sent>> = {
    'as a decision': ['decide', { ...base, kind: 'approve' }],
    'as a resolution': ['resolveOutcome', { ...base, kind: 'retry' }],
    'as an answer': ['provideInput', { ...base, kind: 'cancel' }],
    'as an authorization': ['authorize', { ...base, kind: 'consent' }],
  };
  return Object.fromEntries(Object.entries(all).filter(([, [update]]) => update !== own));
}

async function both(run: RunHandle, kind?: string): Promise<readonly [ApprovalRequest, ApprovalRequest]> {
  const [one, other] = await until(
    async () => {
      const open = (await openRequests(run, 2)).filter((request) => request.about?.kind === kind);
      return open.length === 2 ? open : undefined;
    },
    { what: `two requests of ${run.runId}`, withinMs: 60_000 },
  );
  if (one === undefined || other === undefined) throw new Error('two requests');
  return [one, other];
}

test('decide', async () => {
  const call = { tool: 'bank/pay', arguments: { purpose: 'decide' } };
  const run = await world.start([{ calls: [call, call] }, END], { servers: [{ name: 'bank' }] });
  const [one, other] = await both(run);
  const base = about(one, 'd');
  const first = { ...base, kind: 'approve', comment: 'checked' };
  await expectOneMeaning(world, run, ['decide', first], {
    'another kind': ['decide', { ...base, kind: 'reject', reason: 'no' }],
    'another call': ['decide', { ...about(other, 'd'), kind: 'approve', comment: 'checked' }],
    'another person': ['decide', { ...about(one, 'd', 'bob'), kind: 'approve', comment: 'checked' }],
    'another group': ['decide', { ...first, approver: { id: 'ann', groups: ['ops'] } }],
    'another comment': ['decide', { ...first, comment: 'not checked' }],
    'no comment': ['decide', { ...base, kind: 'approve' }],
    ...otherUpdates(base, 'decide'),
  });
  expect(bank.callsFor('decide')).toHaveLength(1);
  expect(factsOf(await run.ledger(), 'decision.accepted')).toHaveLength(1);
});

test('an update id that somebody has used up before gives nobody another answer', async () => {
  const run = await world.start([{ calls: [{ tool: 'bank/pay', arguments: { purpose: 'used-up' } }] }, END], {
    servers: [{ name: 'bank' }],
  });
  const [request] = await openRequests(run);
  const decision: Sent = ['decide', { ...about(request, 'u'), kind: 'approve' }];
  const updateId = idByTheGuide(...decision);
  expect(updateId).toMatch(/^decide\/u\/[0-9a-f]{16}$/);
  await world.client.workflow.getHandle(run.runId).executeUpdate('advance', { updateId });
  expect(await sentByLibrary(run, decision)).toMatchObject({ decisionId: 'u', status: 'approved' });
  await run.result();
  expect(bank.callsFor('used-up')).toHaveLength(1);
});

test('resolveOutcome', async () => {
  const call = { tool: 'bank/slow', arguments: { purpose: 'resolve' } };
  const run = await world.start([{ calls: [call, call] }, END], {
    servers: [{ name: 'bank' }],
    limits: { callTimeoutSeconds: 1 },
  });
  await Promise.all([lostCall(run), lostCall(run, 't1.c1')]);
  const [one, other] = await both(run, 'outcome');
  const base = about(one, 'r');
  await expectOneMeaning(world, run, ['resolveOutcome', { ...base, kind: 'failed', message: 'not there' }], {
    'another kind': ['resolveOutcome', { ...base, kind: 'retry' }],
    'another call': ['resolveOutcome', { ...about(other, 'r'), kind: 'failed', message: 'not there' }],
    'another person': ['resolveOutcome', { ...about(one, 'r', 'bob'), kind: 'failed', message: 'not there' }],
    'other words': ['resolveOutcome', { ...base, kind: 'failed', message: 'not there yet' }],
    ...otherUpdates(base, 'resolveOutcome'),
  });
  expect(bank.callsFor('resolve')).toHaveLength(2);
  expect(factsOf(await run.ledger(), 'outcome.resolved')).toHaveLength(1);
});

test('provideInput', async () => {
  const call = { tool: 'desk/book', arguments: { n: 1 } };
  const run = await world.start([{ calls: [call, call] }, END], { servers: [{ name: 'desk' }] });
  const [one, other] = await both(run, 'input');
  const base = about(one, 'i');
  const named = (name: string) => ({ responses: { who: { action: 'accept', content: { name } } } });
  await expectOneMeaning(world, run, ['provideInput', { ...base, kind: 'provide', ...named('Ann') }], {
    'another kind': ['provideInput', { ...base, kind: 'decline' }],
    'another call': ['provideInput', { ...about(other, 'i'), kind: 'provide', ...named('Ann') }],
    'another person': ['provideInput', { ...about(one, 'i', 'bob'), kind: 'provide', ...named('Ann') }],
    'other words': ['provideInput', { ...base, kind: 'provide', ...named('Bob') }],
    ...otherUpdates(base, 'provideInput'),
  });
  expect(factsOf(await run.ledger(), 'input.provided')).toHaveLength(1);
});

test('authorize', async () => {
  const call = { tool: 'mine/never' };
  const servers = [{ name: 'mine' }];
  const run = await world.start([{ calls: [call, call] }, END], { servers }, { authorizations: { mine: 'stale' } });
  const [one, other] = await both(run, 'authorization');
  const base = about(one, 'a');
  const decline = { kind: 'decline', reason: 'not mine' };
  await expectOneMeaning(world, run, ['authorize', { ...base, ...decline }], {
    'another kind': ['authorize', { ...base, kind: 'grant', grant: { server: 'mine', ref: 'ann' } }],
    'another call': ['authorize', { ...about(other, 'a'), ...decline }],
    'another person': ['authorize', { ...about(one, 'a', 'bob'), ...decline }],
    'other words': ['authorize', { ...base, kind: 'decline', reason: 'never' }],
    ...otherUpdates(base, 'authorize'),
  });
  expect(factsOf(await run.ledger(), 'authorization.given')).toHaveLength(1);
});

test('say', async () => {
  const call = { tool: 'bank/pay', arguments: { purpose: 'say' } };
  const run = await world.start([{ calls: [call] }, END], { servers: [{ name: 'bank' }] });
  await openRequests(run);
  const base = { messageId: 'm', text: 'Wait.', from: 'ann' };
  const others: Readonly<Record<string, Sent>> = {
    'another text': ['say', { ...base, text: 'Go on.' }],
    'another person': ['say', { ...base, from: 'bob' }],
    'another urgency': ['say', { ...base, interrupt: true }],
  };
  for (const [what, other] of Object.entries(others)) {
    await sentByLibrary(run, ['say', base]);
    const refusals = [await sentByLibrary(run, other), await sentPlain(world, run.runId, other)];
    expect([what, ...refusals]).toEqual([what, ['MESSAGE_INVALID', 'messageId'], ['MESSAGE_INVALID', 'messageId']]);
  }
  expect(factsOf(await run.ledger(), 'said')).toHaveLength(1);
});

test('forget has no id of its own: who comes second is judged, and told who was first', async () => {
  const call = { tool: 'bank/pay', arguments: { purpose: 'forget' } };
  const run = await world.start([{ calls: [call] }, { calls: [{ ...call, arguments: { purpose: 'else' } }] }, END], {
    servers: [{ name: 'bank' }],
  });
  const [request] = await openRequests(run);
  const base = about(request, 's');
  await run.decide({ ...base, kind: 'approve', remember: { scope: 'call' } });
  const forget = (id: string): Sent => ['forget', { standing: 's', by: { id, groups: [] } }];
  expect(await sentByLibrary(run, forget('eve'))).toEqual(['APPROVER_NOT_ENTITLED', undefined]);
  const ack = await sentByLibrary(run, forget('ann'));
  expect(ack).toMatchObject({ standing: 's', forgottenBy: 'ann' });
  expect(await sentByLibrary(run, forget('bob'))).toEqual(ack);
  expect(await sentPlain(world, run.runId, forget('bob'))).toEqual(ack);
  expect(factsOf(await run.ledger(), 'standing.forgotten')).toMatchObject([{ by: 'ann' }]);
});

test('stop has no id of its own: each is judged by what the run has heard', async () => {
  const run = await world.start([{ calls: [{ tool: 'bank/slow', arguments: { purpose: 'stop' } }] }, END], {
    servers: [{ name: 'bank' }],
  });
  await bank.held('stop');
  const stop = (by: string, inFlight: 'finish' | 'cancel'): Sent => ['stop', { by, reason: 'enough', inFlight }];
  for (const sent of [stop('ann', 'finish'), stop('bob', 'finish'), stop('bob', 'cancel')])
    await sentByLibrary(run, sent);
  await run.result();
  expect(factsOf(await run.ledger(), 'stop.requested')).toMatchObject([
    { by: 'ann', inFlight: 'finish' },
    { by: 'bob', inFlight: 'cancel' },
  ]);
});

test('messages to a catalog', async () => {
  const catalog = world.countersign.catalog('shelf');
  const { policyVersion: expectedVersion } = await connected(catalog, bank.url);
  const by = { ...ANN, groups: [] };
  const pay = { tool: 'pay', enabled: false };
  const base = { requestId: 'c', by, expectedVersion };
  await expectOneMeaning(
    world,
    catalog,
    ['setToolPolicies', { ...base, changes: [pay] }],
    {
      'another change': ['setToolPolicies', { ...base, changes: [{ ...pay, enabled: true }] }],
      'another tool': ['setToolPolicies', { ...base, changes: [{ ...pay, tool: 'lookup' }] }],
      'another person': ['setToolPolicies', { ...base, by: { ...BEN, groups: [] }, changes: [pay] }],
      'as a refresh': ['refresh', { requestId: 'c', by }],
      'as an end': ['disconnect', base],
      'as a connection': ['connect', { ...base, url: bank.url, trusted: false }],
      'as a word on a change': [
        'decide',
        { requestId: 'c', by, changeId: 'x', digest: 'a'.repeat(64), verdict: 'approve' },
      ],
    },
    ['CATALOG_INVALID', 'requestId'],
  );
  const { status } = await catalog.snapshot();
  expect(status).toBe('connected');
});
