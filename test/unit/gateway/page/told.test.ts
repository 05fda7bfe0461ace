/** A channel that fails shows on the page of its run, as in `countersign show`. */
import { expect, test } from '@jest/globals';
import type { MessagesState } from '../../../../contracts/schemas/run-state.ts';
import { facts } from '../../../../gateway/page/kit/layout.ts';
import { toldFacts } from '../../../../gateway/page/run.ts';

const NONE: MessagesState = { sent: 3, underWay: [], failed: 0, failures: [] };

function textOf(messages: MessagesState | undefined): string {
  return facts(toldFacts(messages))
    .text.replaceAll(/<[^>]*>/g, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim();
}

test('a run that tells nobody says nothing of messages; one whose channels are well counts them', () => {
  expect(textOf(undefined)).toBe('');
  expect(textOf(NONE)).toBe('Messages 3 sent, 0 under way, 0 given up');
});

test('what is tried again and what was given up is said each, with channel, calls, code and reason', () => {
  const at = '2026-01-01T00:00:00.000Z';
  const text = textOf({
    sent: 0,
    underWay: [{ channel: 'desk', event: 'opened', calls: ['t1.c0', 't1.c1'], since: at }],
    failed: 12,
    failures: [
      { channel: 'chat', event: 'reminder', calls: ['t1.c0'], code: 'MESSAGE_REFUSED', message: 'answered 410', at },
    ],
  });
  expect(text).toBe(
    'Messages 0 sent, 1 under way, 12 given up ' +
      'Not told yet opened of t1.c0, t1.c1 through desk , since 2026-01-01 00:00:00 UTC ' +
      'Not told reminder of t1.c0 through chat , at 2026-01-01 00:00:00 UTC : MESSAGE_REFUSED answered 410',
  );
});

test('words of a failure are no markup, and hide nothing', () => {
  const failure = {
    channel: 'desk',
    event: 'opened' as const,
    calls: ['t1.c0'],
    code: 'MESSAGE_REFUSED',
    at: '2026-01-01T00:00:00.000Z',
  };
  const { text } = facts(
    toldFacts({ ...NONE, failures: [{ ...failure, message: '<script>alert(1)</script>\u202E' }] }),
  );
  expect(text).not.toContain('<script');
  expect(text).not.toContain('\u202E');
  expect(text).toContain('&lt;script');
});
