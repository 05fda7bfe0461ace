/** People are told of requests on a real server (I-1, F-4, INV-D3, INV-S1): who, what, once, and without holding a run up. */
import { afterEach, expect, test } from '@jest/globals';
import { MESSAGE_SECRET, startMessageReceiver } from '../support/servers/message-receiver.ts';
import { until } from '../support/until.ts';
import { useBank } from '../support/world/bank-world.ts';
import { decideNext, openRequests, requestAfter, rolled } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

/** Channels of one rule: as many as a policy may name. */
const SEVERAL = Array.from({ length: 20 }, (_, index) => `several-${index}`);

const receiver = during(() => startMessageReceiver());
const hook = (url: string) => ({ kind: 'webhook' as const, url, secret: MESSAGE_SECRET });
const { world } = useBank(() => ({
  taskQueue: 'telling',
  notify: {
    page: 'https://approvals.example.com/runs/{run}#{call}',
    channels: {
      hook: hook(receiver.url),
      ...Object.fromEntries(SEVERAL.map((name) => [name, hook(receiver.url)])),
    },
  },
  policy: {
    approvers: { ids: ['ann'], groups: ['ops'] },
    notify: [{ channel: 'hook' }],
    redact: [{ server: 'bank', arguments: ['iban'] }],
    rules: [
      {
        id: 'slow',
        when: 'args.purpose == "slow"',
        then: 'ask',
        approvers: { ids: ['ann'], escalate: { afterSeconds: 3, add: { ids: ['ben'], groups: [] } } },
        remindAfterSeconds: 1,
        deadlineSeconds: 12,
        notify: [{ channel: 'hook', expiringSeconds: 6 }],
      },
      // Each to other people, so that none is told in the message of another.
      ...['flood-0', 'flood-1', 'flood-2'].map((purpose) => ({
        id: purpose,
        when: `args.purpose == "${purpose}"`,
        then: 'ask' as const,
        notify: SEVERAL.map((channel) => ({ channel, to: { ids: [purpose], groups: [] } })),
      })),
    ],
  },
}));
afterEach(() => {
  receiver.answer();
});

const END = { text: 'done' };

function calls(...purposes: readonly string[]) {
  return { calls: purposes.map((purpose) => ({ tool: 'bank/pay', arguments: { purpose, iban: 'DE02-canary' } })) };
}

function eventsOf(run: string): string[] {
  return receiver.of(run).map(({ message }) => message.type);
}

test('requests that open together are one message, and each is told closed; nothing redacted is in it', async () => {
  const run = await world.start([calls('one', 'two'), END]);
  await openRequests(run, 2);
  const [first] = await until(() => receiver.of(run.runId).length === 1 && receiver.of(run.runId), {
    what: 'a message',
  });
  expect(first?.message).toMatchObject({
    type: 'request.opened',
    data: {
      run: run.runId,
      to: { ids: ['ann'], groups: ['ops'] },
      requests: [
        {
          callId: 't1.c0',
          server: 'bank',
          tool: 'pay',
          arguments: '{"iban":"[redacted]","purpose":"one"}',
          who: 'ann or anybody in ops',
          url: `https://approvals.example.com/runs/${run.runId}#t1.c0`,
        },
        { callId: 't1.c1' },
      ],
    },
  });
  await decideNext(run, 'ann');
  await until(() => eventsOf(run.runId).length === 2, { what: 'news of the first decision' });
  await decideNext(run, 'ann');
  await run.result();
  const closed = receiver.of(run.runId).slice(1);
  expect(closed.map(({ message }) => message)).toMatchObject([
    { type: 'request.closed', data: { requests: [{ callId: 't1.c0', closed: { status: 'approved', by: 'ann' } }] } },
    { type: 'request.closed', data: { requests: [{ callId: 't1.c1', closed: { status: 'approved', by: 'ann' } }] } },
  ]);
  expect(receiver.received.map(({ body }) => body).join()).not.toContain('canary');
  expect(await run.state()).toMatchObject({ messages: { sent: 3, underWay: [], failed: 0, failures: [] } });
});

test('F-4: reminder, near deadline and escalation are told once each, to those who may decide by then', async () => {
  const run = await world.start([calls('slow'), END]);
  await until(() => eventsOf(run.runId).length === 5, { what: 'all five messages', withinMs: 45_000 });
  await run.result();
  expect(eventsOf(run.runId)).toEqual([
    'request.opened',
    'request.reminder',
    'request.escalation',
    'request.expiring',
    'request.closed',
  ]);
  const [opened, , escalated, , closed] = receiver.of(run.runId).map(({ message }) => message.data);
  expect([opened?.to.ids, escalated?.to.ids]).toEqual([['ann'], ['ann', 'ben']]);
  expect(closed?.requests).toMatchObject([{ closed: { status: 'expired' } }]);
});

test('INV-D3: a run that continues as new tells nothing twice, and goes on telling', async () => {
  const run = await world.start([calls('rolled'), END]);
  const [request] = await openRequests(run);
  await until(() => eventsOf(run.runId).length === 1, { what: 'the first message' });
  await rolled(world, run.runId);
  await requestAfter(run, request);
  await decideNext(run, 'ann');
  await run.result();
  expect(eventsOf(run.runId)).toEqual(['request.opened', 'request.closed']);
  expect(await run.state()).toMatchObject({ messages: { sent: 2 } });
});

test('a channel that is down does not hold the run up; its message keeps its id over tries and continue-as-new', async () => {
  receiver.answer((_, response) => response.writeHead(503).end());
  const run = await world.start([calls('down'), calls('later'), END]);
  const [request] = await openRequests(run);
  const tries = () => receiver.turnedAway.filter(({ message }) => message.data.run === run.runId);
  await until(() => tries().length > 0, { what: 'a try' });
  const since = (await run.state()).messages?.underWay[0]?.since;
  await rolled(world, run.runId);
  const next = await requestAfter(run, request);
  expect(await run.state()).toMatchObject({
    messages: { sent: 0, underWay: [{ channel: 'hook', event: 'opened', calls: [request.callId], since }] },
  });
  expect(since).toBeDefined();
  await decideNext(run, 'ann');
  const [second] = await openRequests(run);
  expect([next.callId, second.callId]).toEqual(['t1.c0', 't2.c0']);
  receiver.answer();
  await until(() => eventsOf(run.runId).length >= 3, { what: 'what was held back' });
  const opened = receiver
    .of(run.runId)
    .find(({ message }) => message.type === 'request.opened' && message.data.requests[0]?.callId === request.callId);
  expect(tries().map(({ id }) => id)).toContain(opened?.id);
  await decideNext(run, 'ann');
  await run.result();
  expect(eventsOf(run.runId).toSorted()).toEqual([
    'request.closed',
    'request.closed',
    'request.opened',
    'request.opened',
  ]);
});

test('a receiver that refuses for good is not asked again, and the run shows it', async () => {
  receiver.answer((_, response) => response.writeHead(410).end());
  const run = await world.start([calls('refused'), END]);
  await openRequests(run);
  const state = await until(
    async () => {
      const now = await run.state();
      return now.messages?.failed === 1 && now;
    },
    { what: 'the failure' },
  );
  expect(state.messages?.failures).toMatchObject([
    { channel: 'hook', event: 'opened', calls: ['t1.c0'], code: 'MESSAGE_REFUSED' },
  ]);
  expect(JSON.stringify(state.messages)).not.toContain(receiver.url);
  receiver.answer();
  await decideNext(run, 'ann');
  await run.result();
  expect(eventsOf(run.runId)).toEqual(['request.closed']);
});

test('what waits behind a channel that is down is not told any more once it is over', async () => {
  receiver.answer((_, response) => response.writeHead(503).end());
  const run = await world.start([calls('slow'), END]);
  await until(async () => (await run.state()).messages?.underWay.some(({ event }) => event === 'escalation') === true, {
    what: 'messages that wait for the first',
  });
  await decideNext(run, 'ann');
  receiver.answer();
  await run.result();
  await until(() => eventsOf(run.runId).includes('request.closed'), { what: 'the news that it is over' });
  expect(eventsOf(run.runId)).toEqual(['request.opened', 'request.closed']);
});

test('a run that is stopped tells that its requests are withdrawn', async () => {
  const run = await world.start([calls('stopped'), END]);
  await openRequests(run);
  await run.stop({ by: 'ann', reason: 'enough' });
  await run.result();
  expect(eventsOf(run.runId)).toEqual(['request.opened', 'request.closed']);
});

test('at most fifty messages are under way; the oldest are given up, and no decision waits for them', async () => {
  receiver.answer((_, response) => response.writeHead(503).end());
  const purposes = ['flood-0', 'flood-1', 'flood-2'];
  const run = await world.start([
    { calls: purposes.map((purpose) => ({ tool: 'bank/pay', arguments: { purpose } })) },
    END,
  ]);
  await openRequests(run, purposes.length);
  const { messages } = await until(
    async () => {
      const state = await run.state();
      return state.messages?.failed === 10 && state;
    },
    { what: 'ten messages that were given up', instead: async () => (await run.state()).messages },
  );
  expect(messages).toMatchObject({ sent: 0, failed: 10 });
  // Sixty were to be told; those of the first call are the oldest.
  expect(messages?.underWay).toHaveLength(50);
  expect(messages?.failures.map((each) => [each.channel, each.calls, each.code])).toEqual(
    SEVERAL.slice(0, 10).map((channel) => [channel, ['t1.c0'], 'MESSAGE_UNDELIVERED']),
  );
  for (const _ of purposes) await decideNext(run, 'ann');
  receiver.answer();
  await run.result();
});
