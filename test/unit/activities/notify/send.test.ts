/** The activity that sends messages (I-1, INV-S1): links, scrubbing, who may have one sent. */
import { expect, test } from '@jest/globals';
import { linesOf, type Message, refusedBy } from '../../../../activities/notify/port.ts';
import { createSendMessage, type MessageParts, withFewInTrouble } from '../../../../activities/notify/send.ts';
import { createScrubber } from '../../../../activities/scrubbing/scrubber.ts';
import type { JsonObject } from '../../../../contracts/schemas/json.ts';
import type { MessageInput } from '../../../../contracts/wire/notify.ts';
import { withoutRedacted } from '../../../../domain/policy/redaction.ts';
import { argumentsLine } from '../../../../domain/text/shown-json.ts';
import { approvalRequest } from '../../../support/builders/approval-request.ts';
import { request } from '../../../conformance/notify.suite.ts';
import { withCode } from '../../../support/refusal.ts';
import { until } from '../../../support/until.ts';

const BY_RUN = { namespace: 'default', attempt: 1, workflowType: 'agentRun', workflowId: 'run/1', runId: 'first' };

function sending(over: Partial<MessageParts> = {}) {
  const sent: Message[] = [];
  const told: object[] = [];
  const handed: Parameters<MessageParts['handOver']>[] = [];
  const send = createSendMessage({
    channels: { it: { send: async (each) => ({ thread: String(sent.push(each)) }) } },
    page: 'https://approvals.example.com/{namespace}/runs/{run}#{call}',
    scrub: (value) => createScrubber(['canary-secret']).value(value),
    tell: (each) => told.push(each),
    readRequests: async () => [],
    scheduler: () => BY_RUN,
    gather: {},
    handOver: async (...each) => void handed.push(each),
    ...over,
  });
  return { send, sent, told, handed };
}

async function away(): Promise<never> {
  throw new Error('away');
}

function input(over: Partial<MessageInput> = {}): MessageInput {
  const { url: _, run, event, ...told } = request();
  const identity = {
    ...run,
    workflowId: 'run/1',
    initiator: { ...run.initiator, groups: [] },
    specHash: 'b'.repeat(64),
  };
  const to = { ids: ['ann'], groups: ['ops'] };
  return { key: 'k', channel: 'it', event, run: identity, to, requests: [told], ...over };
}

test('a message gets its id, its links, and is told to the metrics', async () => {
  const { send, sent, told } = sending();
  expect(await send(input())).toEqual({ thread: '1' });
  expect(sent).toMatchObject([
    { id: 'msg_k', repeated: false, requests: [{ url: 'https://approvals.example.com/default/runs/run%2F1#t1.c0' }] },
  ]);
  expect(told).toEqual([{ channel: 'it', event: 'opened', result: 'sent' }]);
});

test('without a page there is no link, and a further try is known as one', async () => {
  const scheduler = () => ({ ...BY_RUN, attempt: 2 });
  const { send, sent } = sending({ page: undefined, scheduler });
  await send(input());
  expect(sent[0]).toMatchObject({ repeated: true });
  expect(sent[0]?.requests[0]).not.toHaveProperty('url');
  const again = sending();
  await again.send(input({ again: true }));
  expect(again.sent[0]).toMatchObject({ repeated: true });
});

test('a channel that does not answer holds eight tries once that shows, and the next message fails at once', async () => {
  const answers: (() => void)[] = [];
  let isAway = true;
  const channel = withFewInTrouble('it', {
    hasButtons: true,
    send: async () => {
      if (isAway) return await away();
      await new Promise<void>((resolve) => void answers.push(resolve));
      return {};
    },
  });
  expect(channel.hasButtons).toBe(true);
  const { send, told } = sending({ channels: { it: channel } });
  await expect(send(input({ key: 'first' }))).rejects.toThrow('away');
  isAway = false;
  const tries = Array.from({ length: 8 }, async (_, index) => await send(input({ key: `k${index}` })));
  await until(() => answers.length === 8, { what: 'eight tries' });
  await expect(send(input({ key: 'late' }))).rejects.toMatchObject(
    withCode('MESSAGE_UNDELIVERED', '8 other messages under way'),
  );
  expect(told).toHaveLength(2);
  answers[0]?.();
  await tries[0];
  // It has answered: many may be under way.
  const more = Array.from({ length: 9 }, async (_, index) => await send(input({ key: `more${index}` })));
  await until(() => answers.length === 17, { what: 'the tries of nine more messages' });
  for (const answer of answers) answer();
  await expect(Promise.all([...tries, ...more])).resolves.toHaveLength(17);
});

test('a channel that takes long is in trouble before its first try has failed, whatever else it answers', async () => {
  const answers: (() => void)[] = [];
  let isQuick = false;
  const hanging = {
    send: async () => {
      if (!isQuick) await new Promise<void>((resolve) => void answers.push(resolve));
      return {};
    },
  };
  const { send } = sending({ channels: { it: withFewInTrouble('it', hanging, 0) } });
  const tries = Array.from({ length: 7 }, async (_, index) => await send(input({ key: `k${index}` })));
  await until(() => answers.length === 7, { what: 'seven tries' });
  isQuick = true;
  await send(input({ key: 'quick' }));
  isQuick = false;
  let failed = 0;
  const another = (): boolean => {
    send(input({ key: 'late' })).catch(() => (failed += 1));
    return failed > 0;
  };
  await until(another, { what: 'a message that fails at once' });
  for (const answer of answers) answer();
  await expect(Promise.all(tries)).resolves.toHaveLength(7);
});

test('a message that its channel refuses says nothing of others', async () => {
  const answers: (() => void)[] = [];
  let isRefused = true;
  const channel = withFewInTrouble('it', {
    send: async () => {
      if (isRefused) throw refusedBy('it', 'knows no address');
      await new Promise<void>((resolve) => void answers.push(resolve));
      return {};
    },
  });
  const { send } = sending({ channels: { it: channel } });
  await expect(send(input({ key: 'first' }))).rejects.toMatchObject({ code: 'MESSAGE_REFUSED' });
  isRefused = false;
  const tries = Array.from({ length: 9 }, async (_, index) => await send(input({ key: `k${index}` })));
  await until(() => answers.length === 9, { what: 'nine tries' });
  for (const answer of answers) answer();
  await expect(Promise.all(tries)).resolves.toHaveLength(9);
});

test('INV-S1: secrets that the worker knows are taken out', async () => {
  const { send, sent } = sending();
  await send(input({ requests: [request({ arguments: '{"key":"canary-secret"}', explain: ['canary-secret'] })] }));
  expect(JSON.stringify(sent)).not.toContain('canary');
});

test.each([
  ['another workflow', { workflowType: 'own', workflowId: 'run/1' }],
  ['another run', { workflowType: 'agentRun', workflowId: 'run/2' }],
])('%s has nothing sent in the name of a run', async (_, by) => {
  const { send, sent } = sending({ scheduler: () => ({ ...BY_RUN, ...by }) });
  await expect(send(input())).rejects.toMatchObject({ code: 'MESSAGE_REFUSED' });
  expect(sent).toEqual([]);
});

test('a channel that this worker does not know may be known to another, and failures are told to the metrics', async () => {
  const { send, told } = sending();
  await expect(send(input({ channel: 'constructor' }))).rejects.toMatchObject({ code: 'MESSAGE_UNDELIVERED' });
  expect(told).toEqual([{ channel: 'constructor', event: 'opened', result: 'failed' }]);
  const failing = sending({ channels: { it: { send: away } } });
  await expect(failing.send(input())).rejects.toThrow('away');
  expect(failing.told).toEqual([{ channel: 'it', event: 'opened', result: 'failed' }]);
});

test('a message with buttons binds what its run asks now, and is as good without buttons', async () => {
  const asked = approvalRequest({ amount: 5 });
  const { server, tool } = asked;
  const requests = [request({ server, tool, arguments: '{"amount":5}' })];
  const bound = async (
    readRequests: MessageParts['readRequests'],
    over: Partial<MessageInput> = {},
    hasButtons = true,
  ) => {
    const sent: Message[] = [];
    const channel = { hasButtons, send: async (each: Message) => ({ thread: String(sent.push(each)) }) };
    await sending({ channels: { it: channel }, readRequests }).send(input({ requests, ...over }));
    return sent[0]?.requests[0]?.answerable;
  };
  const reading = (over: object) => async () => [{ ...asked, ...over }];
  expect(await bound(reading({}))).toEqual({ digest: asked.digest, runId: asked.runId, isWhole: true });
  for (const changed of [
    { callId: 't1.c1' },
    { generation: 2 },
    { status: 'approved' },
    { arguments: { amount: 6 } },
    { tool: 'refund' },
    { about: { kind: 'outcome', message: 'lost', attempt: 1 } },
    { digest: '0'.repeat(64) },
  ])
    expect([changed, await bound(reading(changed))]).toEqual([changed, undefined]);
  expect(await bound(away)).toBeUndefined();
  expect(await bound(reading({}), { event: 'closed' })).toBeUndefined();
  expect(await bound(reading({}), {}, false)).toBeUndefined();
});

test('who approves in a message reads what the pages warn of', async () => {
  const asked = {
    ...approvalRequest({ amount: 5 }),
    duplicateOf: 't0.c1',
    edited: { by: 'ben', at: '2026-01-31T09:00:00.000Z', proposed: { amount: 4 } },
  };
  const { server, tool } = asked;
  const lines: string[] = [];
  const send = async (told: Message) => {
    for (const each of told.requests) lines.push(...linesOf(told, each).map(([name, value]) => `${name}: ${value}`));
    return {};
  };
  const requests = [request({ server, tool, arguments: '{"amount":5}' })];
  const parts = { channels: { it: { hasButtons: true, send } }, readRequests: async () => [asked] };
  await sending(parts).send(input({ requests }));
  expect(lines).toContain('note: the same tool with the same arguments was asked for in call t0.c1');
  expect(lines).toContain('note: ben changed the arguments; the model proposed others');
});

test('arguments that are redacted or cut are not whole', async () => {
  const shownOf = async (values: JsonObject, redact?: string[]) => {
    const asked = { ...approvalRequest(values), ...(redact && { redact }) };
    const { server, tool } = asked;
    const sent: Message[] = [];
    const channel = { hasButtons: true, send: async (each: Message) => ({ thread: String(sent.push(each)) }) };
    const shown = argumentsLine(withoutRedacted(values, redact));
    await sending({ channels: { it: channel }, readRequests: async () => [asked] }).send(
      input({ requests: [request({ server, tool, arguments: shown })] }),
    );
    return sent[0]?.requests[0]?.answerable?.isWhole;
  };
  expect(await shownOf({ iban: 'DE02', amount: 5 })).toBe(true);
  expect(await shownOf({ iban: 'DE02', amount: 5 }, ['iban'])).toBe(false);
  expect(await shownOf({ note: 'x'.repeat(121) })).toBe(false);
  expect(await shownOf(Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`field${index}`, index])))).toBe(
    false,
  );
});

test('what a channel with a digest is to tell is handed over, by pointers alone', async () => {
  const { send, sent, told, handed } = sending({ gather: { it: 300 } });
  const key = 'c'.repeat(64);
  expect(await send(input({ key }))).toEqual({});
  const to = { ids: ['ann'], groups: ['ops'] };
  expect(handed).toEqual([
    [
      { tenant: 'default', channel: 'it', to, seconds: 300 },
      { key, run: 'run/1', event: 'opened', calls: [{ callId: 't1.c0', generation: 1 }] },
      false,
    ],
  ]);
  await send(input({ key, again: true }));
  expect(handed[1]?.[2]).toBe(true);
  // Neither a message nor a try of one.
  expect([sent, told]).toEqual([[], []]);
});

test('what pointers alone do not say is told at once', async () => {
  const { send, sent, handed } = sending({ gather: { it: 300 } });
  await send(input({ key: 'c'.repeat(64), more: 2 }));
  expect([sent.length, handed.length]).toEqual([1, 0]);
});

test('a digest that cannot be reached is tried again', async () => {
  const { send } = sending({ gather: { it: 300 }, handOver: away });
  await expect(send(input({ key: 'c'.repeat(64) }))).rejects.toMatchObject({ code: 'MESSAGE_UNDELIVERED' });
});
