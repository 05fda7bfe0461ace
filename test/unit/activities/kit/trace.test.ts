/** The trace of an activity reaches its requests, and nothing else that a header may hold does. */
import { expect, test } from '@jest/globals';
import { defaultPayloadConverter } from '@temporalio/common';
import { currentTrace, inTrace } from '../../../../activities/kit/trace.ts';

const TRACEPARENT = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;
const within = async (carrier: unknown) =>
  await inTrace(defaultPayloadConverter.toPayload(carrier), async () => await Promise.resolve(currentTrace()));

test('there is a trace within it, for whatever it waits, and none outside', async () => {
  expect(await within({ traceparent: TRACEPARENT })).toEqual({ traceparent: TRACEPARENT });
  expect(await within({ traceparent: TRACEPARENT, tracestate: 'vendor=1' })).toEqual({
    traceparent: TRACEPARENT,
    tracestate: 'vendor=1',
  });
  expect(currentTrace()).toBeUndefined();
  expect(await inTrace(undefined, async () => await Promise.resolve(currentTrace()))).toBeUndefined();
});

test.each<[string, unknown]>([
  ['nothing', {}],
  ['no object', 'x'],
  ['another form', { traceparent: 'secret' }],
  ['zeros for a trace', { traceparent: TRACEPARENT.replaceAll('a', '0') }],
  ['zeros for a span', { traceparent: TRACEPARENT.replaceAll('b', '0') }],
  ['the version that is forbidden', { traceparent: `ff${TRACEPARENT.slice(2)}` }],
  ['a line of its own', { traceparent: `${TRACEPARENT}\n` }],
  ['a list', { traceparent: [TRACEPARENT] }],
])('a header with %s is no trace', async (_what, carrier) => {
  expect(await within(carrier)).toBeUndefined();
});

test.each(['a\nb', 'ä', 'x'.repeat(513), ''])('a state that cannot be sent is left out: %j', async (tracestate) => {
  expect(await within({ traceparent: TRACEPARENT, tracestate, baggage: 'secret=1' })).toEqual({
    traceparent: TRACEPARENT,
  });
});

test('a header that cannot be read is no trace', async () => {
  const header = {
    metadata: { encoding: new TextEncoder().encode('json/plain') },
    data: new TextEncoder().encode('{'),
  };
  expect(await inTrace(header, async () => await Promise.resolve(currentTrace()))).toBeUndefined();
});
