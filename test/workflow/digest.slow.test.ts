/**
 * What several runs have to tell goes out as one message (docs/adr/0086), on a real server with a real SMTP server
 * (INV-D3, INV-S1): what is in it, once, and nothing for nobody.
 */
import type { ServerResponse } from 'node:http';
import { afterEach, expect, test } from '@jest/globals';
import type { WorkflowHandle } from '@temporalio/client';
import { createHandOver } from '../../activities/notify/digest.ts';
import { DIGEST_WORKFLOW, RUN_WORKFLOW, SEARCH_ATTRIBUTES } from '../../contracts/names.ts';
import type { Gathered } from '../../contracts/schemas/notify.ts';
import { digestIdOf } from '../../domain/request/gathering.ts';
import { startMailServer } from '../support/servers/mail-server.ts';
import { MESSAGE_SECRET, startMessageReceiver } from '../support/servers/message-receiver.ts';
import { until } from '../support/until.ts';
import { useBank } from '../support/world/bank-world.ts';
import { decideNext, openRequests } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

/** Long enough that all runs of a test open their requests in it. */
const WINDOW_SECONDS = 15;

const mail = during(() => startMailServer());
const receiver = during(() => startMessageReceiver());
const rule = (purpose: string, channel: string, ...ids: readonly string[]) => ({
  id: purpose,
  when: `args.purpose == "${purpose}"`,
  then: 'ask' as const,
  approvers: { ids: [...ids] },
  notify: [{ channel }],
});
const { world } = useBank(() => ({
  taskQueue: 'digests',
  notify: {
    channels: {
      letters: {
        kind: 'mail',
        host: '127.0.0.1',
        port: mail.port,
        tls: 'none',
        from: 'countersign@example.com',
        people: { ann: 'ann@example.com', eve: 'eve@example.com' },
        digest: { seconds: WINDOW_SECONDS },
      },
      desk: { kind: 'webhook', url: receiver.url, secret: MESSAGE_SECRET, digest: { seconds: 2 } },
    },
  },
  policy: {
    redact: [{ server: 'bank', arguments: ['iban'] }],
    rules: [
      rule('letter', 'letters', 'ann'),
      rule('lost', 'desk', 'ben'),
      rule('forged', 'letters', 'cleo'),
      rule('closed', 'desk', 'dora'),
      rule('refused', 'desk', 'fay'),
    ],
  },
}));
afterEach(() => receiver.answer());

const END = { text: 'done' };

function calls(...purposes: readonly string[]) {
  return { calls: purposes.map((purpose) => ({ tool: 'bank/pay', arguments: { purpose, iban: 'DE02-canary' } })) };
}

function digestOf(channel: string, id: string): WorkflowHandle {
  return world.client.workflow.getHandle(digestIdOf({ tenant: 'default', channel, to: { ids: [id], groups: [] } }));
}

/** Waits until the newest digest of this person has been handed so many messages of runs. */
async function handed(handle: WorkflowHandle, count: number): Promise<void> {
  const signals = async (): Promise<number> => {
    const { events = [] } = await handle.fetchHistory().catch(() => ({ events: [] }));
    return events?.filter((event) => event.workflowExecutionSignaledEventAttributes).length ?? 0;
  };
  await until(async () => (await signals()) >= count, { what: `${count} messages in ${handle.workflowId}` });
}

test('F-4: what three runs ask within the window is one mail; what was decided meanwhile is not in it', async () => {
  const runs = await Promise.all([1, 2, 3, 4].map(async () => await world.start([calls('letter'), END])));
  await Promise.all(runs.map(async (run) => await openRequests(run)));
  const digest = digestOf('letters', 'ann');
  await handed(digest, 4);
  const [decided, ...waiting] = runs;
  if (decided === undefined) throw new Error('no run was started');
  await decideNext(decided, 'ann');
  await decided.result();
  expect(mail.mails).toEqual([]);
  await digest.result();
  const [{ to, headers, text, raw }, ...others] = mail.mails as [(typeof mail.mails)[0]];
  expect(others).toEqual([]);
  expect([to, headers['subject']]).toEqual([['ann@example.com'], '3 calls wait for a decision']);
  for (const run of waiting) expect(text).toContain(`run: ${run.runId}, call t1.c0`);
  expect(text).not.toContain(decided.runId);
  // INV-S1: nothing that policy redacts, in the mail or on its way there.
  expect(text).toContain('[redacted]');
  expect([raw, JSON.stringify(await digest.fetchHistory())].join()).not.toContain('canary');
  for (const run of waiting) expect(await run.state()).toMatchObject({ messages: { sent: 1, failed: 0 } });
  for (const run of waiting) await decideNext(run, 'ann');
  await Promise.all(waiting.map(async (run) => await run.result()));
});

test('INV-D3: a digest whose answer is lost, and whose worker goes, is tried again under one id', async () => {
  receiver.answer((_, response) => response.destroy());
  const run = await world.start([calls('lost'), END]);
  await openRequests(run);
  const own = () =>
    receiver.digests.filter(({ message }) => message.data.requests.some((each) => each.run === run.runId));
  await until(() => own().length > 0, { what: 'a try' });
  await world.restartWorkers();
  receiver.answer();
  await digestOf('desk', 'ben').result();
  expect(own().filter(({ isTaken }) => isTaken)).toHaveLength(1);
  expect(new Set(own().map(({ id }) => id)).size).toBe(1);
  expect(own().at(-1)?.message.data.requests).toMatchObject([
    { event: 'opened', run: run.runId, tenant: 'default', initiator: 'ann', callId: 't1.c0', tool: 'pay' },
  ]);
  await decideNext(run, 'ben');
  await run.result();
});

test('INV-D3: what is handed over again after its digest has gone is not told again', async () => {
  const run = await world.start([calls('lost'), END]);
  await openRequests(run);
  const digest = digestOf('desk', 'ben');
  await handed(digest, 1);
  const keys: unknown = await digest.result();
  const before = receiver.digests.length;
  const [key = ''] = keys as readonly string[];
  const handOver = createHandOver(world.client, world.config.taskQueue);
  const to = { ids: ['ben'], groups: [] };
  const gathered: Gathered = { key, run: run.runId, event: 'opened', calls: [{ callId: 't1.c0', generation: 1 }] };
  await handOver({ tenant: 'default', channel: 'desk', to, seconds: 1 }, gathered, true);
  expect((await digest.describe()).status.name).toBe('COMPLETED');
  expect(receiver.digests).toHaveLength(before);
  await decideNext(run, 'ben');
  await run.result();
});

test('a message that is refused takes nothing with it that came meanwhile, and its digest fails at the end', async () => {
  const held: ServerResponse[] = [];
  receiver.answer((_, response) => void held.push(response));
  const told = (run: string) =>
    receiver.digests.filter(({ message }) => message.data.requests.some((each) => each.run === run));
  const first = await world.start([calls('refused'), END]);
  await openRequests(first);
  await until(() => told(first.runId).length > 0, { what: 'the message that is to be refused' });
  const second = await world.start([calls('refused'), END]);
  await openRequests(second);
  const digest = digestOf('desk', 'fay');
  await handed(digest, 2);
  receiver.answer();
  for (const response of held) response.writeHead(403).end();
  await expect(digest.result()).rejects.toMatchObject({ cause: { cause: { type: 'MESSAGE_REFUSED' } } });
  expect(told(second.runId).map(({ isTaken }) => isTaken)).toEqual([true]);
  expect(told(first.runId).map(({ isTaken }) => isTaken)).toEqual([false]);
  for (const run of [first, second]) await decideNext(run, 'fay');
  await Promise.all([first.result(), second.result()]);
});

test('the next digest tells that a request is closed, also where its run has gone on', async () => {
  const run = await world.start([calls('closed'), calls('letter'), END]);
  await openRequests(run);
  const told = () => receiver.digests.map(({ message }) => message.data).filter(({ to }) => to.ids.includes('dora'));
  await until(() => told().length === 1, { what: 'the opening' });
  await decideNext(run, 'dora');
  await openRequests(run);
  const [, closed] = await until(() => told().length === 2 && told(), { what: 'the end' });
  expect(closed?.requests).toMatchObject([
    { event: 'closed', run: run.runId, callId: 't1.c0', tool: 'pay', closed: { status: 'approved', by: 'dora' } },
  ]);
  await decideNext(run, 'ann');
  await run.result();
});

test('a forged pointer tells nobody anything, and stops no digest', async () => {
  const run = await world.start([calls('forged'), END]);
  await openRequests(run);
  const to = { ids: ['eve'], groups: [] };
  const digest = { tenant: 'default', channel: 'letters', to, seconds: 2 };
  const pointer = (target: string): Gathered => ({
    key: 'f'.repeat(64),
    run: target,
    event: 'opened',
    calls: [{ callId: 't1.c0', generation: 1 }],
  });
  const workflowId = digestIdOf(digest);
  const start = { workflowId, taskQueue: world.config.taskQueue, args: [digest] as [unknown], signal: 'gather' };
  const forge = async (...signalArgs: [unknown]) =>
    await world.client.workflow.signalWithStart(DIGEST_WORKFLOW, { ...start, signalArgs });
  const tenant = { key: SEARCH_ATTRIBUTES.tenant, value: 'default' };
  const theirs = await world.client.workflow.start(RUN_WORKFLOW, {
    workflowId: 'theirs',
    taskQueue: 'theirs',
    typedSearchAttributes: [tenant, { key: SEARCH_ATTRIBUTES.initiator, value: 'eve' }],
  });
  // Somebody else's request, a run that is not there, a workflow that is no run, one that only says so, and no pointer.
  const handle = await forge(pointer(run.runId));
  await forge({ ...pointer('no-such-run'), key: '1'.repeat(64) });
  await forge({ ...pointer(workflowId), key: '2'.repeat(64) });
  await forge({ ...pointer(theirs.workflowId), key: '3'.repeat(64) });
  await forge({ ...pointer(run.runId), arguments: 'canary' });
  await forge('nothing');
  expect(await handle.result()).toHaveLength(4);
  expect(mail.mails.filter((each) => each.to.includes('eve@example.com'))).toEqual([]);
  await theirs.terminate();
  await decideNext(run, 'cleo');
  await run.result();
});

test('a digest of nothing that can be read ends at once', async () => {
  const digest = await world.client.workflow.start(DIGEST_WORKFLOW, {
    workflowId: 'digest/forged',
    taskQueue: world.config.taskQueue,
    args: [{ seconds: 'for ever' }],
  });
  await expect(digest.result()).rejects.toMatchObject({ cause: { type: 'MESSAGE_INVALID' } });
});

test('a digest is not begun with what only an execution before it hands on', async () => {
  const of = { tenant: 'default', channel: 'letters', to: { ids: ['eve'], groups: [] }, seconds: 1 };
  const digest = await world.client.workflow.start(DIGEST_WORKFLOW, {
    workflowId: 'digest/carried',
    taskQueue: world.config.taskQueue,
    args: [of, { version: 1, gathered: [], left: 1_000, keys: [], round: 0, restMs: 1, hasFailed: false }],
  });
  await expect(digest.result()).rejects.toMatchObject({ cause: { type: 'MESSAGE_INVALID' } });
});
