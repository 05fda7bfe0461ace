/** What a dispatch asks of the history before a reset, and when it does not (INV-X1). */
import { expect, test } from '@jest/globals';
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { defaultPayloadConverter } from '@temporalio/common';
import { msToTs } from '@temporalio/common/lib/time.js';
import { lostInReset } from '../../../../activities/gate/dispatch-check.ts';
import { createDiscardedReader, type ReadDiscarded } from '../../../../activities/run/discarded-tail.ts';
import { defined } from '../../../../contracts/defined.ts';
import type { DispatchInput } from '../../../../contracts/wire/tools.ts';

const SCHEDULER = { workflowId: 'run-1', runId: 'r-2' };
// Sound for the test: no other field of a dispatch is looked at.
const INPUT = {
  callId: 't1.c0',
  idempotencyKey: 'run-1/t1.c0',
  decidedIn: ['r-2'],
  target: { server: 'bank', serverUrl: 'https://bank.example/', tool: 'pay', definitionHash: '' },
  arguments: {},
} as unknown as DispatchInput;

test('nothing is asked where the call may be repeated, or somebody has said that it is sent again', async () => {
  const never: ReadDiscarded = async () => {
    throw new Error('asked');
  };
  expect(await lostInReset(INPUT, SCHEDULER, true, never)).toBeUndefined();
  // Sound: that there is a word is all that counts here; it was proven before.
  const retry = {} as NonNullable<DispatchInput['retry']>;
  expect(await lostInReset({ ...INPUT, retry }, SCHEDULER, false, never)).toBeUndefined();
  expect(await lostInReset(INPUT, SCHEDULER, false, undefined)).toBeUndefined();
  await expect(lostInReset(INPUT, SCHEDULER, false, never)).rejects.toThrow('asked');
});

interface Execution {
  readonly originalRunId: string;
  readonly firstRunId?: string;
  readonly before?: string;
  readonly events?: readonly object[];
}

/** A client of a namespace that has these executions; what is not there was forgotten. */
function namespaceOf(
  executions: Readonly<Record<string, Execution>>,
  listed: readonly string[] = Object.keys(executions),
) {
  const eventsOf = (runId: string): readonly object[] => {
    const execution = executions[runId];
    if (execution === undefined) throw new WorkflowNotFoundError('gone', 'run-1', runId);
    const { originalRunId, firstRunId = 'r-1', before, events = [] } = execution;
    const started = {
      originalExecutionRunId: originalRunId,
      firstExecutionRunId: firstRunId,
      ...defined({ continuedExecutionRunId: before }),
    };
    return [{ eventId: 1, workflowExecutionStartedEventAttributes: started }, ...events];
  };
  let requests = 0;
  const client = {
    options: {
      namespace: 'default',
      loadedDataConverter: { payloadConverter: defaultPayloadConverter, payloadCodecs: [] },
    },
    connection: { withDeadline: async (_at: number, act: () => Promise<unknown>) => await act() },
    workflowService: {
      getWorkflowExecutionHistory: async ({ execution }: { execution: { runId: string } }) => {
        requests += 1;
        return { history: { events: eventsOf(execution.runId).slice(0, 1) } };
      },
    },
    workflow: {
      getHandle: (_id: string, runId: string) => ({
        fetchHistory: async () => {
          requests += 1;
          return { events: eventsOf(runId) };
        },
      }),
      async *list() {
        for (const runId of listed) yield { runId };
      },
    },
  };
  // Sound for the test: the reader uses no more of a client.
  const read = createDiscardedReader(client as unknown as Client);
  return { read, requests: () => requests };
}

const reset = (eventId: number, baseRunId: string, newRunId = 'r-2') => ({
  eventId,
  workflowTaskFailedEventAttributes: { baseRunId, newRunId },
});
const at = msToTs(1_000_000);
const dispatched = (eventId: number, input: object) => ({
  eventId,
  eventTime: at,
  activityTaskScheduledEventAttributes: {
    activityType: { name: 'callTool' },
    input: { payloads: [defaultPayloadConverter.toPayload({ ...INPUT, ...input })] },
  },
});

test('a run that was never reset costs one request for each execution, which is kept', async () => {
  const { read, requests } = namespaceOf({ 'r-2': { originalRunId: 'r-2', before: 'r-1' } });
  const input = { ...INPUT, decidedIn: ['r-1', 'r-2'] };
  expect(await read('run-1', 'r-2', input)).toBeUndefined();
  expect(await read('run-1', 'r-2', input)).toBeUndefined();
  expect(requests()).toBe(1);
});

test('what stands before the reset is no discarded send; what stands after it in the other execution is one', async () => {
  const before = dispatched(4, {});
  const executions = {
    'r-1': {
      originalRunId: 'r-1',
      events: [before, dispatched(9, { idempotencyKey: 'run-1/t2.c0', arguments: { b: 1 } })],
    },
    'r-2': { originalRunId: 'r-1', events: [before, reset(7, 'r-1')] },
  };
  const { read } = namespaceOf(executions);
  expect(await read('run-1', 'r-2', INPUT)).toBeUndefined();
  expect(await read('run-1', 'r-2', { ...INPUT, idempotencyKey: 'run-1/t2.c0' })).toMatchObject({
    kind: 'sent',
    send: { runId: 'r-1', at: 1_000_000, ending: 'unknown' },
  });
});

test('a dispatch that cannot be read may be any call', async () => {
  const unreadable = {
    ...dispatched(9, {}),
    activityTaskScheduledEventAttributes: { activityType: { name: 'callTool' } },
  };
  const { read } = namespaceOf({
    'r-1': { originalRunId: 'r-1', events: [unreadable] },
    'r-2': { originalRunId: 'r-1', events: [reset(7, 'r-1')] },
  });
  expect(await read('run-1', 'r-2', INPUT)).toMatchObject({ kind: 'sent' });
});

const endedAs = (eventId: number, scheduledEventId: number, result: object) => ({
  eventId,
  activityTaskCompletedEventAttributes: {
    scheduledEventId,
    result: { payloads: [defaultPayloadConverter.toPayload(result)] },
  },
});
const NOT_SENT = { kind: 'not-sent', code: 'TOOL_UNAVAILABLE', message: '' };

test('attempts of the call itself, and calls that came to nothing, account for no discarded send', async () => {
  const other = 'run-1/t1.c1';
  const readSince = (...since: readonly object[]) =>
    namespaceOf({
      'r-1': { originalRunId: 'r-1', events: [dispatched(9, { idempotencyKey: 'run-1/t1.c9' })] },
      'r-2': { originalRunId: 'r-1', events: [reset(7, 'r-1'), ...since] },
    }).read('run-1', 'r-2', INPUT);
  const sent = { kind: 'sent', send: { runId: 'r-1' } };
  expect(await readSince(dispatched(8, {}), endedAs(9, 8, NOT_SENT), dispatched(12, {}))).toMatchObject(sent);
  expect(
    await readSince(dispatched(8, { idempotencyKey: other }), endedAs(9, 8, NOT_SENT), dispatched(12, {})),
  ).toMatchObject(sent);
  // Of another call, which was asked about or sent, it does.
  expect(await readSince(dispatched(8, { idempotencyKey: other }), dispatched(12, {}))).toBeUndefined();
});

test.each([
  ['a timeout', 'activityTaskTimedOutEventAttributes'],
  ['a cancellation', 'activityTaskCanceledEventAttributes'],
])('%s proves nothing: an attempt that has failed before leaves no trace in it', async (_what, attributes) => {
  const over = { eventId: 10, [attributes]: { scheduledEventId: 9, startedEventId: 0 } };
  const { read } = namespaceOf({
    'r-1': { originalRunId: 'r-1', events: [dispatched(9, {}), over] },
    'r-2': { originalRunId: 'r-1', events: [reset(7, 'r-1')] },
  });
  expect(await read('run-1', 'r-2', INPUT)).toMatchObject({ kind: 'sent', send: { ending: 'unknown' } });
});

test('a reset that lies before what is kept is a reset still', async () => {
  const forgotten = { kind: 'forgotten' };
  const cut = namespaceOf({ 'r-4': { originalRunId: 'r-4', before: 'r-3' } });
  expect(await cut.read('run-1', 'r-4', { ...INPUT, decidedIn: ['r-2', 'r-3', 'r-4'] })).toEqual(forgotten);
  // Nor does a newer one hide it.
  const newer = namespaceOf({
    'r-4': { originalRunId: 'r-4', before: 'r-3' },
    'r-5': { originalRunId: 'r-4', before: 'r-3', events: [reset(7, 'r-4', 'r-5')] },
  });
  expect(await newer.read('run-1', 'r-5', { ...INPUT, decidedIn: ['r-5'] })).toEqual(forgotten);
});

test('what Temporal has not kept is said, never taken for nothing', async () => {
  const { read } = namespaceOf({ 'r-2': { originalRunId: 'r-1', events: [reset(7, 'r-1')] } });
  expect(await read('run-1', 'r-2', INPUT)).toEqual({ kind: 'forgotten' });
  expect(await lostInReset(INPUT, SCHEDULER, false, read)).toMatchObject({
    kind: 'ended',
    outcome: { kind: 'unknown', message: expect.stringContaining('has not kept') },
  });
});

test('another run that had the id before is none of it', async () => {
  const { read } = namespaceOf({
    'r-0': { originalRunId: 'r-0', firstRunId: 'r-0', events: [dispatched(9, {})] },
    'r-1': { originalRunId: 'r-1' },
    'r-2': { originalRunId: 'r-1', events: [reset(7, 'r-1')] },
  });
  expect(await read('run-1', 'r-2', INPUT)).toBeUndefined();
});

test('a Temporal that does not answer is a fault that passes', async () => {
  const { read } = namespaceOf({});
  await expect(read('run-1', 'r-2', INPUT)).rejects.toMatchObject({
    code: 'ENGINE_UNAVAILABLE',
    traits: { retryable: true },
  });
});
