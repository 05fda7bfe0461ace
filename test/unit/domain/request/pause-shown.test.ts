/** What people read of a call whose outcome is not known: in Temporal UI, in lists, in the memo. */
import { expect, test } from '@jest/globals';
import { pausedFor } from '../../../../domain/request/pause.ts';
import { currentDetails, pendingAttributes, pendingMemo } from '../../../../domain/views/temporal-ui.ts';
import { flyingRun, outcomePause, pausedRun, pausing } from '../../../support/builders/pause.ts';
import { runIds } from '../../../support/builders/run.ts';

test('says that it may have run, what is known, and what to do; text of servers is escaped', () => {
  const about = outcomePause({ message: 'lost <b>[x](http://evil)', bytes: 12, lastProgress: 0.5 });
  const { run } = pausedFor(flyingRun(), 't1.c0', about, pausing(), runIds());
  const text = currentDetails('waiting', run);
  expect(text).toContain('**it may have run**');
  expect(text).toContain('12 bytes of an answer came, progress 0.5');
  expect(text).toContain('countersign resolve');
  expect(text).not.toContain('<b>');
  expect(text).not.toContain('[x](');
});

test('no time is markup, whoever told it', () => {
  const about = outcomePause({ sentAt: '[now](http://evil)\u001b[2J' });
  const text = currentDetails('waiting', pausedFor(flyingRun(), 't1.c0', about, pausing(), runIds()).run);
  expect(text).not.toContain('[now](');
  expect(text).not.toContain('\u001b');
});

test('a call of which nobody has said that it left has no time of leaving', () => {
  const { sentAt: _, ...about } = outcomePause({ handedAt: '2026-01-01T00:00:00.000Z' });
  const text = currentDetails('waiting', pausedFor(flyingRun(), 't1.c0', about, pausing(), runIds()).run);
  expect(text).toContain('none has said that it left, attempt 1');
  expect(text).not.toContain('sent at');
});

test('leaves out what nobody knows', () => {
  const text = currentDetails('waiting', pausedRun());
  expect(text).toContain('attempt 1\n');
  expect(text).not.toContain('progress');
});

test('lists count it among what waits, and name its kind', () => {
  expect(pendingMemo(pausedRun(), runIds())).toMatchObject({ count: 1, requests: [{ about: 'outcome' }] });
  expect(pendingAttributes(pausedRun())).toMatchObject({ pending: 1 });
});
