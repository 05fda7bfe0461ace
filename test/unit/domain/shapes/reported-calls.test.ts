/** What an activity reports of a call (docs/adr/0046): people are shown it, or wait for it, without another look at it. */
import { expect, test } from '@jest/globals';
import { isAnswerOf } from '../../../../domain/shapes/inputs.ts';

const AT = '2026-01-01T00:00:05.000Z';
const UNKNOWN = { kind: 'ended', outcome: { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: 'Lost.' } };
const TASK = { sealed: {}, sentAt: AT, until: AT };

test.each([
  UNKNOWN,
  { ...UNKNOWN, sent: { at: AT, bytes: 0, progress: 0.5 }, token: { strategy: 'given', scopes: ['a'] } },
  // A later release may say more of a token.
  {
    kind: 'ended',
    outcome: { kind: 'succeeded', result: { content: [] } },
    token: { strategy: 'exchange', lifetimeSeconds: 60, boundTo: {} },
  },
  { kind: 'task', task: { ...TASK, pollMs: 1e12, message: 'begun' }, token: { strategy: 'none' } },
])('callTool answers with %j', (value) => {
  expect(isAnswerOf('callTool', value)).toBe(true);
});

test.each([
  { outcome: { kind: 'unknown', code: 'OUTCOME_UNKNOWN' } },
  { outcome: { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: 7 } },
  ...[{}, { at: 'yesterday' }, { at: '\u001b]0;owned\u0007' }, { at: 5 }].map((sent) => ({ sent })),
  ...[{ bytes: '\u001b[2J' }, { bytes: -1 }, { bytes: 0.5 }, { progress: '\u001b[2J' }, { progress: Number.NaN }].map(
    (odd) => ({ sent: { at: AT, ...odd } }),
  ),
  { token: 'all' },
  { token: { strategy: 'none', jti: 7 } },
  { token: { strategy: 'none', scopes: [{}] } },
])('a lost call is not told with %j: whoever may write to the namespace can send it', (odd) => {
  expect(isAnswerOf('callTool', { ...UNKNOWN, ...odd })).toBe(false);
});

test.each([
  { sentAt: 'x' },
  { until: 'y' },
  { until: '\u001b[2J' },
  { message: 7 },
  { pollMs: 'soon' },
  { sealed: 'text' },
])('no task is begun with %j, which could not be shown or given up', (odd) => {
  expect(isAnswerOf('callTool', { kind: 'task', task: { ...TASK, ...odd } })).toBe(false);
});

test.each([
  { kind: 'working', pollMs: 'soon' },
  { kind: 'working', message: 7 },
  { kind: 'unreached', message: 'busy', retryAfterMs: 'later' },
])('and none is polled with %j', (said) => {
  expect(isAnswerOf('pollTask', said)).toBe(false);
});
