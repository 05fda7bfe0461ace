/** Progress in heartbeats, which any writer of the namespace can send: read as far as it can be believed to be one. */
import { expect, test } from '@jest/globals';
import { MOST_REPORTED, progressIn, progressOfStretch } from '../../../../domain/shapes/reported-progress.ts';

const PROGRESS = { callId: 't1.c0', sentAt: '2026-01-01T00:00:00.000Z', progress: 1 };

test('is read without anything else that a heartbeat says', () => {
  expect(progressIn({ ...PROGRESS, phase: 'sent', resume: 'sealed' })).toEqual(PROGRESS);
  expect(progressIn({ ...PROGRESS, total: 4 })).toEqual({ ...PROGRESS, total: 4 });
  for (const total of [Number.POSITIVE_INFINITY, '\u001b[2J', null])
    expect(progressIn({ ...PROGRESS, total })).toEqual(PROGRESS);
});

test.each([
  undefined,
  'odd',
  { ...PROGRESS, callId: '\u001b[2J' },
  { ...PROGRESS, sentAt: 1 },
  { ...PROGRESS, sentAt: '2026-01-01' },
  { ...PROGRESS, sentAt: '\u001b]0;owned\u0007' },
  { ...PROGRESS, progress: '1' },
  { ...PROGRESS, progress: null },
])('is none: %p', (odd) => {
  expect(progressIn(odd)).toBeUndefined();
  expect(progressOfStretch({ progress: [odd, PROGRESS] })).toEqual([PROGRESS]);
});

test('of a stretch is a list, of which no more is read than a worker writes', () => {
  for (const odd of [undefined, 'odd', { turns: [] }, { progress: PROGRESS }])
    expect(progressOfStretch(odd)).toEqual([]);
  const many = Array.from({ length: MOST_REPORTED + 1 }, () => PROGRESS);
  expect(progressOfStretch({ progress: many })).toHaveLength(MOST_REPORTED);
});
