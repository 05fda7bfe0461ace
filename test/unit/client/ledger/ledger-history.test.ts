/** What history says of the calls of a run, for comparison with its ledger. */
import { expect, test } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { defaultPayloadConverter } from '@temporalio/common';
import { msToTs } from '@temporalio/common/lib/time.js';
import { loadDataConverter } from '@temporalio/common/lib/internal-non-workflow/index.js';
import { compareWithHistory, readDeeds } from '../../../../client/ledger/history.ts';
import type { AnyEntry } from '../../../../contracts/schemas/ledger.ts';
import { hashOf } from '../../../../domain/text/canonical.ts';
import { createDataConverter } from '../../../../workers/codec.ts';

const payloads = (value: unknown) => ({ payloads: [defaultPayloadConverter.toPayload(value)] });
/** A payload of a codec that is not ours. */
const UNREAD = { payloads: [{ metadata: { encoding: Buffer.from('binary/other') }, data: Buffer.from('x') }] };
const STARTED = { eventId: 1, workflowExecutionStartedEventAttributes: { input: payloads({}) } };
const scheduled = (eventId: number, name: string, input: unknown = {}) => ({
  eventId,
  activityTaskScheduledEventAttributes: { activityType: { name }, input: payloads(input) },
});
const completed = (scheduledEventId: number, result: unknown) => ({
  activityTaskCompletedEventAttributes: { scheduledEventId, result: payloads(result) },
});
const lost = (scheduledEventId: number, told?: unknown) => ({
  activityTaskTimedOutEventAttributes: {
    scheduledEventId,
    failure: { timeoutFailureInfo: told === undefined ? {} : { lastHeartbeatDetails: payloads(told) } },
  },
});

/** @param histories events by Temporal run id, newest first: each continues the next one */
const clientOf = (histories: Readonly<Record<string, readonly object[]>>): Client => {
  const [newest = ''] = Object.keys(histories);
  const handleOf = (_: string, runId = newest) => ({
    describe: async () => ({ runId: newest }),
    fetchHistory: async () => ({ events: histories[runId] }),
  });
  const options = { loadedDataConverter: loadDataConverter(undefined) };
  // Sound: the reader uses nothing else of a client.
  return { workflow: { getHandle: handleOf }, options } as unknown as Client;
};

async function deedsOf(...events: readonly object[]) {
  const eventTime = msToTs(1_000);
  const timed = [STARTED, ...events].map((event) => ({ ...event, eventTime }));
  const { dispatched, outcomes, lost: unknown } = await readDeeds(clientOf({ r: timed }), 'run-1');
  return { dispatched: [...dispatched], outcomes: Object.fromEntries(outcomes), lost: [...unknown] };
}

const DONE = { kind: 'succeeded', result: { content: [] } };
const ended = (callId: string, outcome: object = DONE) => ({ callId, result: { kind: 'ended', outcome } });
const turns = (...calls: readonly object[]) => ({ turns: [{ calls }, { step: {} }] });

test.each(['stretch', 'prepareRun'])('calls that left within %s, with the outcomes that it returned', async (name) => {
  const record = turns(ended('t1.c0'), ended('t1.c1', { kind: 'unknown' }));
  expect(await deedsOf(scheduled(5, name), completed(5, record))).toEqual({
    dispatched: ['t1.c0/1', 't1.c1/1'],
    outcomes: { 't1.c0': hashOf(DONE) },
    lost: ['t1.c1'],
  });
});

test('what a stretch had on record when its worker was lost, and the sending of a lost call again', async () => {
  const events = [scheduled(5, 'stretch'), lost(5, turns(ended('t1.c0'), { callId: 't1.c1' }))];
  const before = { dispatched: ['t1.c0/1', 't1.c1/1'], outcomes: { 't1.c0': hashOf(DONE) } };
  expect(await deedsOf(...events)).toEqual({ ...before, lost: ['t1.c1'] });
  const again = [scheduled(9, 'callTool', { callId: 't1.c1', attempt: 2 }), completed(9, ended('t1.c1').result)];
  expect(await deedsOf(...events, ...again)).toEqual({
    dispatched: [...before.dispatched, 't1.c1/2'],
    outcomes: { 't1.c0': hashOf(DONE), 't1.c1': hashOf(DONE) },
    lost: [],
  });
});

test('a stretch without a record, or with one that is none, tells of no call', async () => {
  const nothing = { dispatched: [], outcomes: {}, lost: [] };
  expect(await deedsOf(scheduled(5, 'stretch'), lost(5))).toEqual(nothing);
  expect(await deedsOf(scheduled(5, 'prepareRun'), completed(5, { specHash: 'hash' }))).toEqual(nothing);
  expect(await deedsOf(scheduled(5, 'stretch'), completed(5, { turns: [7, { calls: [7] }] }))).toEqual(nothing);
});

test('a call of its own: sent, answered, lost', async () => {
  const call = scheduled(5, 'callTool', { callId: 't1.c0', attempt: 1 });
  expect(await deedsOf(call)).toEqual({ dispatched: ['t1.c0/1'], outcomes: {}, lost: [] });
  expect(await deedsOf(call, completed(5, { kind: 'not-sent' }))).toMatchObject({ outcomes: {}, lost: [] });
  expect(await deedsOf(call, lost(5))).toMatchObject({ outcomes: {}, lost: ['t1.c0'] });
});

test('how many entries were stored before the newest execution began: what it carries beside them is in no record', async () => {
  const eventTime = msToTs(1_000);
  const begun = (carry: object, continuedExecutionRunId = '') => {
    const input = { payloads: [{}, carry].map((value) => defaultPayloadConverter.toPayload(value)) };
    return [{ eventId: 1, eventTime, workflowExecutionStartedEventAttributes: { input, continuedExecutionRunId } }];
  };
  const carry = { journal: { ledgerLength: 57, since: [{}, {}] } };
  const storedOf = async (histories: Parameters<typeof clientOf>[0]) =>
    (await readDeeds(clientOf(histories), 'run-1')).stored;
  expect(await storedOf({ second: begun(carry, 'first'), first: begun({}) })).toBe(57);
  // Nothing was stored before a first execution, whatever its input says.
  expect(await storedOf({ first: begun(carry) })).toBe(0);
});

test('each execution is read under a deadline of its own: a Temporal that falls silent on the way holds nobody', async () => {
  const client = clientOf({ first: [{ ...STARTED, eventTime: msToTs(1_000) }] });
  const deadlines: number[] = [];
  const connection = {
    withDeadline: async (until: number, read: () => Promise<unknown>) => {
      deadlines.push(until);
      return await read();
    },
  };
  await readDeeds(Object.assign(client, { connection }), 'run-1', undefined, 5_000);
  expect(deadlines).toHaveLength(2);
  for (const until of deadlines) expect(until - Date.now()).toBeLessThanOrEqual(5_000);
});

test.each([
  ['answer', { activityTaskCompletedEventAttributes: { scheduledEventId: 5, result: UNREAD } }],
  [
    'last word',
    {
      activityTaskTimedOutEventAttributes: {
        scheduledEventId: 5,
        failure: { timeoutFailureInfo: { lastHeartbeatDetails: UNREAD } },
      },
    },
  ],
])('the %s of a stretch that nobody can read keeps only its own calls from being verified', async (_, event) => {
  const loadedDataConverter = createDataConverter({ encryption: { keys: [] } });
  const events = [STARTED, scheduled(5, 'stretch'), event].map((each) => ({ ...each, eventTime: msToTs(1_000) }));
  const client = clientOf({ first: events });
  const deeds = await readDeeds(Object.assign(client, { options: { loadedDataConverter } }), 'run-1');
  const entry = (fact: AnyEntry['fact']): AnyEntry => ({ seq: 0, at: '', prev: '', hash: '', fact });
  const started = [entry({ kind: 'run.rolled' })];
  expect(compareWithHistory({ before: started, after: started }, deeds)).toEqual([]);
  // Its key may be missing here, so that it is nobody's fault.
  const sent = [entry({ kind: 'dispatched', callId: 't1.c0', attempt: 1 })];
  expect(() => compareWithHistory({ before: sent, after: sent }, deeds)).toThrow(
    expect.objectContaining({ code: 'CONFIG_INVALID' }),
  );
});

test('what anybody may write into a history and nobody can read keeps nobody from verifying the rest', async () => {
  const loadedDataConverter = createDataConverter({ encryption: { keys: [] } });
  const eventTime = msToTs(1_000);
  const events = [
    STARTED,
    { eventId: 2, workflowExecutionSignaledEventAttributes: { signalName: 'decide', input: UNREAD } },
    scheduled(5, 'callTool', { callId: 't1.c0', attempt: 1 }),
    { activityTaskCompletedEventAttributes: { scheduledEventId: 5, result: UNREAD } },
    scheduled(9, 'callTool', { callId: 't1.c1', attempt: 1 }),
    completed(9, ended('t1.c1').result),
  ];
  const client = clientOf({ first: events.map((event) => ({ ...event, eventTime })) });
  const deeds = await readDeeds(Object.assign(client, { options: { loadedDataConverter } }), 'run-1');
  expect([...deeds.dispatched]).toEqual(['t1.c0/1', 't1.c1/1']);
  expect([...deeds.outcomes.keys()]).toEqual(['t1.c1']);
  // Without the key of the run itself nothing is verified, and that is told.
  const sealed = [{ ...STARTED, eventTime, workflowExecutionStartedEventAttributes: { input: UNREAD } }];
  await expect(
    readDeeds(Object.assign(clientOf({ first: sealed }), { options: { loadedDataConverter } }), 'run-1'),
  ).rejects.toMatchObject({ code: 'CONFIG_INVALID' });
});
