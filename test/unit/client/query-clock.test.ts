/** A copy that differs from the run in times alone, and times of workflow tasks at that, was damaged by a query; another was changed. */
import { expect, test } from '@jest/globals';
import { msToTs } from '@temporalio/common/lib/time.js';
import { earlierClock } from '../../../client/query-clock.ts';
import type { AnyEntry } from '../../../contracts/schemas/ledger-record.ts';
import { hashOf } from '../../../domain/canonical.ts';
import { GENESIS } from '../../../domain/ledger.ts';

const EARLIER = Date.parse('2026-11-22T10:00:00.000Z');
const LATER = Date.parse('2026-11-22T10:00:49.000Z');
const NEXT = Date.parse('2026-11-22T10:05:00.000Z');
const HOUR = 3_600_000;
// Sound for the test: no other part of an event is looked at.
const history = {
  events: [EARLIER, LATER, NEXT].map((at) => ({ eventTime: msToTs(at), workflowTaskStartedEventAttributes: {} })),
} as unknown as Parameters<typeof earlierClock>[2][number];

interface Said {
  readonly at: number;
  readonly fact: AnyEntry['fact'];
}

function chain(said: readonly Said[]): readonly AnyEntry[] {
  const entries: AnyEntry[] = [];
  for (const [seq, { at, fact }] of said.entries()) {
    const body = { seq, at: iso(at), prev: entries.at(-1)?.hash ?? GENESIS, fact };
    entries.push({ ...body, hash: hashOf(body) });
  }
  return entries;
}

const iso = (at: number): string => new Date(at).toISOString();

function opened(at: number, over: object = {}): Said {
  return { at, fact: { kind: 'request.opened', callId: 't1.c0', deadline: iso(at + HOUR), ...over } };
}

/** Of what stood open since. */
const reminded = (at: number, openedAt: number): Said => ({
  at,
  fact: { kind: 'request.reminded', callId: 't1.c0', deadline: iso(openedAt + HOUR) },
});
const said = (at: number, text: string): Said => ({ at, fact: { kind: 'said', text } });

const RUN = chain([opened(LATER), reminded(NEXT, LATER)]);

test.each([
  ['in the entry and in what follows from its clock', [opened(EARLIER), reminded(NEXT, EARLIER)]],
  ['with a later entry that a query wrote too', [opened(EARLIER), reminded(LATER, EARLIER)]],
  ['in a copy that ends before the run', [opened(EARLIER)]],
])('times of an earlier workflow task, %s', (_where, copy) => {
  expect(earlierClock(chain(copy), RUN, [history])).toEqual({
    seq: 0,
    copy: '2026-11-22T10:00:00.000Z',
    run: '2026-11-22T10:00:49.000Z',
  });
});

test.each([
  ['the same entries', [opened(LATER), reminded(NEXT, LATER)]],
  ['another fact', [opened(EARLIER, { callId: 't1.c1' })]],
  ['a time that is of no workflow task', [opened(EARLIER + 1)]],
  ['a second time that is of no workflow task', [opened(EARLIER), reminded(NEXT - 1_000, EARLIER)]],
  ['a second entry with a later time than that of the run', [opened(EARLIER), reminded(NEXT + 1, EARLIER)]],
  ['a deadline that its clock does not explain', [opened(EARLIER, { deadline: iso(NEXT) })]],
  ['a deadline of a second entry that no clock explains', [opened(EARLIER), reminded(NEXT, EARLIER + 7)]],
  ['an entry that the run has not', [opened(EARLIER), reminded(NEXT, EARLIER), said(NEXT, 'pay')]],
  ['nothing', []],
])('not so: %s', (_what, copy) => {
  expect(earlierClock(chain(copy), RUN, [history])).toBeUndefined();
});

test('not so: a later time in the copy', () => {
  expect(earlierClock(chain([opened(LATER)]), chain([opened(EARLIER)]), [history])).toBeUndefined();
});

test('not so: an instant that somebody wrote, and no clock', () => {
  const run = chain([opened(LATER), said(NEXT, 'until 2026-11-23T10:00:49.000Z')]);
  const copy = chain([opened(EARLIER), said(NEXT, 'until 2026-11-23T10:00:00.000Z')]);
  expect(earlierClock(copy, run, [history])).toBeUndefined();
});

test('not so: an entry that was changed in place, whose hash is still that of the run', () => {
  const [first, second] = chain([opened(EARLIER), reminded(NEXT, EARLIER)]);
  const altered = [first, { ...second, at: iso(LATER) }] as readonly AnyEntry[];
  expect(earlierClock(altered, RUN, [history])).toBeUndefined();
  const [own, after] = RUN;
  const kept = [own, { ...after, at: iso(LATER) }] as readonly AnyEntry[];
  expect(earlierClock(kept, RUN, [history])).toBeUndefined();
});
