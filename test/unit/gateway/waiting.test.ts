import { expect, test } from '@jest/globals';
import { type ClosedRequest, WaitingRequests } from '../../../gateway/metrics/waiting.ts';
import type { Known } from '../../../gateway/projection/projection.ts';
import { START } from '../../support/builders/run.ts';
import { known } from '../../support/scenes/asking.ts';

const DAY = 86_400_000;
const digestOf = (index: number) => String(index).repeat(64);

function seen(digests: readonly number[], over: Partial<Known['row']> = {}, truncated = false): Known {
  const requests = digests.map((index) => ({
    callId: `t1.c${index}`,
    server: 'bank',
    tool: 'pay',
    deadline: new Date(START + index * DAY).toISOString(),
    digest: digestOf(index),
  }));
  const waitingSince = new Date(START - 2_000_000).toISOString();
  return known(
    { status: 'waiting', waitingSince, pending: digests.length, ...over },
    {
      memo: { count: digests.length, requests, truncated },
      approvers: ['group:finance', 'group:of-a-tenant', 'id:ben'],
    },
  );
}

function following(groups: readonly string[] = ['finance']) {
  const closed: ClosedRequest[] = [];
  const ended: string[] = [];
  const there = new Set(['run-1']);
  const waiting = new WaitingRequests(
    // Sound: a run is there, or not.
    { run: (runId) => (there.has(runId) ? ({} as Known) : undefined) },
    groups,
    { closed: (request) => void closed.push(request), runEnded: (status) => void ended.push(status) },
    START,
  );
  return { waiting, closed, ended, there };
}

test('requests count by age, and for each group of their run; groups that are not listed count together', () => {
  const { waiting, there } = following();
  waiting.see(seen([1], { pending: 3 }), START);
  waiting.see(seen([1, 2], { pending: 3 }), START + 10_000);
  const { byAge, byGroup } = waiting.counted(START + 20_000);
  // One that was open before and one that the memo does not list are as old as their run has waited.
  expect([...byAge]).toEqual([
    ['1h', 2],
    ['5m', 1],
  ]);
  expect([...byGroup].map(([group, counts]) => [group, Object.fromEntries(counts)])).toEqual([
    ['finance', { '1h': 2, '5m': 1 }],
    ['(other)', { '1h': 2, '5m': 1 }],
    ['(people)', {}],
  ]);
  expect([...waiting.counted(START + 30 * DAY).byAge]).toEqual([['more', 3]]);
  there.clear();
  expect([...waiting.counted(START).byAge]).toEqual([]);
});

test('requests that are due within the hour', () => {
  const { waiting } = following();
  waiting.see(seen([1, 2]), START);
  expect(waiting.counted(START + DAY - 3_600_001).dueSoon).toBe(0);
  expect(waiting.counted(START + DAY - 3_600_000).dueSoon).toBe(1);
});

test('a request that is gone was closed, or has expired if its deadline is over', () => {
  const { waiting, closed } = following();
  waiting.see(seen([1, 2, 3]), START);
  waiting.see(seen([1, 3]), START + 5_000);
  waiting.see(seen([3]), START + DAY);
  expect(closed).toEqual([
    { result: 'closed', seconds: 2_005 },
    { result: 'expired', seconds: 2_000 + 86_400 },
  ]);
  // It is told once.
  waiting.see(seen([3]), START + DAY);
  expect(closed).toHaveLength(2);
});

test('a list that is cut proves nothing of what it leaves out', () => {
  const { waiting, closed } = following();
  waiting.see(seen([1, 2]), START);
  waiting.see(seen([2], { pending: 7 }, true), START + 5_000);
  expect(closed).toEqual([]);
});

test('of requests that are not listed at least as many close as their number falls', () => {
  const { waiting, closed } = following();
  const many = { pending: 7, nextDeadline: new Date(START + DAY).toISOString() };
  waiting.see(seen([1, 2, 3, 4, 5], many), START);
  waiting.see(seen([1, 2, 3, 4, 5], { ...many, pending: 6 }), START + 5_000);
  // One is gone from the list, which names the next one instead.
  waiting.see(seen([2, 3, 4, 5, 6], { ...many, pending: 5 }), START + 6_000);
  expect(closed).toEqual([
    { result: 'closed', seconds: 2_005 },
    { result: 'closed', seconds: 2_006 },
  ]);
  closed.length = 0;
  waiting.see(seen([2, 3, 4, 5, 6], many), START + 7_000);
  // The first deadline is over, and nobody has answered.
  waiting.see(seen([], { pending: 0 }), START + 6 * DAY);
  expect(closed.map(({ result }) => result)).toEqual(Array.from({ length: 7 }, () => 'expired'));
});

test('a number that nobody can have closes no more than a thousand', () => {
  const { waiting, closed } = following();
  waiting.see(seen([1], { pending: Number.MAX_SAFE_INTEGER }), START);
  waiting.see(seen([], { pending: 0 }), START + 1_000);
  expect(closed).toHaveLength(1_001);
});

test('a run whose memo cannot be read closes nothing by it', () => {
  const { waiting, closed } = following();
  waiting.see(seen([1, 2]), START);
  waiting.see({ ...seen([], { pending: 2 }), memo: undefined }, START + 1_000);
  expect(closed).toEqual([]);
  expect(waiting.counted(START).bySubject.get('(unlisted)')).toBe(2);
  waiting.see({ ...seen([], { pending: 1 }), memo: undefined }, START + 2_000);
  expect(closed).toHaveLength(1);
});

test('a request stays the same when its run continues as new and its digest is another', () => {
  const { waiting, closed } = following();
  waiting.see(seen([1]), START);
  const next = seen([1]);
  const requests = next.memo?.requests.map((request) => ({ ...request, digest: digestOf(9) })) ?? [];
  waiting.see({ ...next, memo: { count: 1, requests, truncated: false } }, START + 1_000);
  expect(closed).toEqual([]);
});

test('what open requests ask for, and that the first deadline of those that are not listed is due', () => {
  const { waiting } = following();
  const run = seen([1, 2], { pending: 3, nextDeadline: new Date(START + 3_600_000).toISOString() });
  const [first, second] = run.memo?.requests ?? [];
  if (first === undefined || second === undefined) throw new Error('no request');
  const memo = { count: 3, requests: [first, { ...second, about: 'outcome' as const }], truncated: true };
  waiting.see({ ...run, memo }, START);
  expect(Object.fromEntries(waiting.counted(START).bySubject)).toEqual({
    consent: 1,
    outcome: 1,
    input: 0,
    authorization: 0,
    '(unlisted)': 1,
  });
  expect(waiting.counted(START - 1).dueSoon).toBe(0);
  expect(waiting.counted(START).dueSoon).toBe(1);
});

test('an end is counted once, if this gateway saw it; a status of strangers becomes no label', () => {
  const { waiting, ended } = following();
  const at = (ms: number) => new Date(ms).toISOString();
  waiting.see(seen([], { runId: 'old', status: 'completed', endedAt: at(START - 1) }), START);
  waiting.see(seen([], { status: 'completed', endedAt: at(START + 1) }), START + 2);
  waiting.see(seen([], { status: 'completed', endedAt: at(START + 1) }), START + 3);
  waiting.see(seen([], { runId: 'forged', status: 'a stranger wrote this', endedAt: at(START + 1) }), START + 3);
  expect(ended).toEqual(['completed', 'other']);
});
