/** What a reset would take back: each call of a stretch that its result, or its last heartbeat, says has left, and what people said (INV-X1, INV-D3). */
import { expect, test } from '@jest/globals';
import { WorkflowNotFoundError } from '@temporalio/client';
import { defaultPayloadConverter } from '@temporalio/common';
import { msToTs } from '@temporalio/common/lib/time.js';
import { discardedPart, livingHistory } from '../../../../client/run/recovery.ts';
import { readHistory } from '../../../../workers/replay/recorded-history.ts';
import { fakeClient } from '../../../support/servers/fake-client.ts';

type Given = Parameters<typeof discardedPart>[1];

const dataConverter = { payloadConverter: defaultPayloadConverter, payloadCodecs: [] };
const CLIENT = fakeClient({ options: { loadedDataConverter: dataConverter } });

const AT = Date.parse('2026-01-01T00:00:00Z');
const eventTime = msToTs(AT);
const payloads = (value: unknown) => ({ payloads: [defaultPayloadConverter.toPayload(value)] });
const scheduled = (name: string) => ({
  eventId: 5,
  eventTime,
  activityTaskScheduledEventAttributes: { activityType: { name } },
});
const completed = (result: unknown) => ({
  eventId: 7,
  eventTime,
  activityTaskCompletedEventAttributes: { scheduledEventId: 5, result: payloads(result) },
});
const timedOut = (details: object) => ({
  eventId: 7,
  eventTime,
  activityTaskTimedOutEventAttributes: { scheduledEventId: 5, failure: { timeoutFailureInfo: details } },
});

const target = { server: 'bank', tool: 'lookup' };
const recordOf = (call: object) => ({
  turns: [
    {
      at: AT,
      step: {
        parts: [{ type: 'call', callId: 't1.c0', providerCallId: 'p', name: 'bank__lookup', arguments: {} }],
        usage: { inputTokens: 1, outputTokens: 1 },
        finish: 'calls',
        judged: { policyVersion: 'v', judgements: [{ callId: 't1.c0', verdict: { kind: 'allow' }, target }] },
      },
      calls: [{ callId: 't1.c0', digest: 'd', sentAt: AT, ...call }],
    },
  ],
});

const FOUND = { callId: 't1.c0', server: 'bank', tool: 'lookup', at: '2026-01-01T00:00:00.000Z', repeatable: true };
const UNREAD = { callId: 'cannot be read', at: '2026-01-01T00:00:00.000Z', ending: 'unknown', repeatable: false };

async function callsOf(...events: readonly object[]) {
  // Sound for the test: these fields alone are read.
  const { calls } = await discardedPart(CLIENT, { events } as unknown as Given, 4);
  return calls;
}

test.each(['stretch', 'prepareRun'])('the result of %s names its calls', async (name) => {
  const result = { kind: 'ended', outcome: { kind: 'succeeded' } };
  expect(await callsOf(scheduled(name), completed(recordOf({ result })))).toEqual([{ ...FOUND, ending: 'succeeded' }]);
});

test('so does the last heartbeat of a worker that was lost', async () => {
  const beat = { lastHeartbeatDetails: payloads(recordOf({})) };
  expect(await callsOf(scheduled('stretch'), timedOut(beat))).toEqual([{ ...FOUND, ending: 'unknown' }]);
  expect(await callsOf(scheduled('stretch'), timedOut({}))).toEqual([]);
});

test('a record of a wrong form, or with a time that is none, is one call that cannot be read', async () => {
  for (const record of [7, { turns: 'none' }, recordOf({ sentAt: 8.64e15 + 1 })]) {
    expect(await callsOf(scheduled('stretch'), completed(record))).toMatchObject([UNREAD]);
    const beat = { lastHeartbeatDetails: payloads(record) };
    expect(await callsOf(scheduled('stretch'), timedOut(beat))).toMatchObject([UNREAD]);
  }
});

test('nothing left in a first activity without turns, or in the answer of another activity', async () => {
  expect(await callsOf(scheduled('prepareRun'), completed({ specHash: 'a' }))).toEqual([]);
  expect(await callsOf(scheduled('modelStep'), completed(recordOf({})))).toEqual([]);
});

test('what was said before an earlier reset, and accepted after it: Temporal recorded it as admitted', async () => {
  const recorded = await readHistory('test/replay/histories/1.0.0-rc.1/agent-run.reset-stopped.json');
  if (recorded.kind !== 'history') throw recorded.error;
  const events = recorded.history.events ?? [];
  const again = events.find((event) => event.workflowExecutionUpdateAdmittedEventAttributes);
  const accepted = events.find((event) => event.workflowExecutionUpdateAcceptedEventAttributes);
  // Temporal has the message in the first of the two alone.
  expect(accepted?.workflowExecutionUpdateAcceptedEventAttributes?.acceptedRequest ?? undefined).toBeUndefined();
  expect(Number(again?.eventId)).toBeLessThan(Number(accepted?.eventId));
  for (const from of [again?.eventId, accepted?.eventId]) {
    const { answers } = await discardedPart(CLIENT, recorded.history, Number(from));
    expect(answers).toMatchObject([{ update: 'stop', id: expect.stringMatching(/^stop\//) }]);
  }
});

test.each([
  ['nightly-42', undefined, 'RUN_NOT_FOUND', 'There is no open run nightly-42 in'],
  [
    'catalog/acme/issues',
    { tenant: 'acme', server: 'issues' },
    'CATALOG_NOT_FOUND',
    'Tenant acme has no catalog of issues in',
  ],
])('who would reset %s, which is not there, reads its name', async (id, about, code, says) => {
  const describe = async () => await Promise.reject(new WorkflowNotFoundError('not found', id, undefined));
  const client = fakeClient({ workflow: { getHandle: () => ({ describe }) } });
  await expect(livingHistory(client, id, about)).rejects.toMatchObject({
    code,
    message: expect.stringContaining(says),
  });
});
