/** What is known of a call whose outcome is not. */
import { describe, expect, test } from '@jest/globals';
import { outcomePause, sentAsTold } from '../../../../domain/request/outcome.ts';
import { callOf } from '../../../../domain/state/run.ts';
import { flyingRun, UNSURE } from '../../../support/builders/pause.ts';
import { START } from '../../../support/builders/run.ts';

const AT = '2026-01-01T00:00:05.000Z';

function flight() {
  const state = callOf(flyingRun(), 't1.c0');
  if (state?.status !== 'in-flight') throw new Error('not sent');
  return state;
}

test('a worker tells when it left, how much came back, how far it was, and with which token', () => {
  const token = { strategy: 'none' };
  const sent = { at: AT, bytes: 12, progress: 0.5 };
  expect(outcomePause(flight(), { kind: 'ended', outcome: UNSURE, sent, token }, START)).toEqual({
    kind: 'outcome',
    sentAt: AT,
    message: UNSURE.message,
    attempt: 1,
    bytes: 12,
    lastProgress: 0.5,
    token,
  });
});

test('in a run that knows no better, it counts from when the run handed it over', () => {
  expect(outcomePause(flight(), { kind: 'ended', outcome: UNSURE }, START)).toEqual({
    kind: 'outcome',
    sentAt: '2026-01-01T00:00:00.000Z',
    message: UNSURE.message,
    attempt: 1,
  });
});

test('where no worker tells, it is not said to have left at all', () => {
  const about = outcomePause(flight(), { kind: 'ended', outcome: UNSURE }, START, 'told');
  expect(about).toMatchObject({ handedAt: '2026-01-01T00:00:00.000Z' });
  expect(about).not.toHaveProperty('sentAt');
  expect(outcomePause(flight(), { kind: 'ended', outcome: UNSURE, sent: { at: AT } }, START, 'told')).toMatchObject({
    sentAt: AT,
  });
});

test.each([{}, { at: 'yesterday' }, { at: '\u001b]0;owned\u0007' }, { at: 5 }])(
  'a completion that anybody may send tells no time with %p: it counts from when the run handed it over',
  (sent) => {
    // Sound: whoever may write to the namespace completes an activity with whatever they like.
    const result = { kind: 'ended', outcome: UNSURE, sent } as unknown as Parameters<typeof outcomePause>[1];
    expect(outcomePause(flight(), result, START).sentAt).toBe('2026-01-01T00:00:00.000Z');
  },
);

test.each([{ bytes: '\u001b[2J' }, { bytes: -1 }, { bytes: 0.5 }, { progress: '\u001b[2J' }, { progress: Number.NaN }])(
  'what such a completion says of an answer is left out where it is no number: %p',
  (odd) => {
    // Sound: as above.
    const result = { kind: 'ended', outcome: UNSURE, sent: { at: AT, ...odd } } as unknown as Parameters<
      typeof outcomePause
    >[1];
    expect(outcomePause(flight(), result, START)).toEqual({
      kind: 'outcome',
      sentAt: AT,
      message: UNSURE.message,
      attempt: 1,
    });
  },
);

test('an outcome without words is said to be unknown', () => {
  const outcome = { kind: 'cancelled', reason: 'x' } as const;
  expect(outcomePause(flight(), { kind: 'ended', outcome }, START).message).toBe('Its outcome is not known.');
});

describe('the last heartbeat of a worker that is lost', () => {
  test('says what it says', () => {
    expect(sentAsTold({ phase: 'sent', sentAt: AT, progress: 3 })).toEqual({ at: AT, progress: 3 });
    expect(sentAsTold({ phase: 'sent', sentAt: AT })).toEqual({ at: AT });
  });

  test.each([undefined, null, 'sent', { phase: 'connecting' }, { sentAt: 'yesterday' }, { sentAt: 5 }])(
    'is nothing where it says %p',
    (details) => expect(sentAsTold(details)).toBeUndefined(),
  );

  test.each([{ bytes: 7 }, { progress: Number.NaN }, { progress: 'half' }])('leaves out %p', (odd) =>
    expect(sentAsTold({ sentAt: AT, ...odd })).toEqual({ at: AT }),
  );
});

test.each([
  [{ token: { strategy: 'none', jti: 7 } }, UNSURE.message],
  [{ token: 'all' }, UNSURE.message],
  [{ token: { strategy: 'none', scopes: [{}] } }, UNSURE.message],
  [{ outcome: { ...UNSURE, message: 7 } }, 'Its outcome is not known.'],
])('nor does it say of a token, or in words, what is none: %p', (odd, message) => {
  // Sound: as above.
  const result = { kind: 'ended', outcome: UNSURE, ...odd } as unknown as Parameters<typeof outcomePause>[1];
  expect(outcomePause(flight(), result, START)).toEqual({
    kind: 'outcome',
    sentAt: '2026-01-01T00:00:00.000Z',
    message,
    attempt: 1,
  });
});
