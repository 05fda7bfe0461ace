/** A copy that differs from the run in times alone, and times of workflow tasks at that, was damaged by a query; another was changed. */
import { expect, test } from '@jest/globals';
import { msToTs } from '@temporalio/common/lib/time.js';
import { earlierClock } from '../../../client/query-clock.ts';
import type { AnyEntry } from '../../../contracts/schemas/ledger-record.ts';

const EARLIER = Date.parse('2026-11-22T10:00:00.000Z');
const LATER = Date.parse('2026-11-22T10:00:49.000Z');
// Sound for the test: no other part of an event is looked at.
const history = {
  events: [EARLIER, LATER].map((at) => ({ eventTime: msToTs(at), workflowTaskStartedEventAttributes: {} })),
} as unknown as Parameters<typeof earlierClock>[2];

function opened(at: number, over: object = {}): AnyEntry {
  const fact = { kind: 'request.opened', callId: 't1.c0', deadline: new Date(at + 600_000).toISOString(), ...over };
  return { seq: 3, at: new Date(at).toISOString(), prev: '0', hash: `hash of ${at} ${JSON.stringify(over)}`, fact };
}

test('times of an earlier workflow task, in the entry and in what follows from its clock', () => {
  expect(earlierClock([opened(EARLIER)], [opened(LATER)], history)).toEqual({
    seq: 3,
    copy: '2026-11-22T10:00:00.000Z',
    run: '2026-11-22T10:00:49.000Z',
  });
});

test.each([
  ['the same entry', [opened(LATER)]],
  ['another fact', [opened(EARLIER, { callId: 't1.c1' })]],
  ['a time that is of no workflow task', [opened(EARLIER + 1)]],
  ['nothing', []],
])('not so: %s', (_what, copy) => {
  expect(earlierClock(copy, [opened(LATER)], history)).toBeUndefined();
});

test('not so: a later time in the copy', () => {
  expect(earlierClock([opened(LATER)], [opened(EARLIER)], history)).toBeUndefined();
});
