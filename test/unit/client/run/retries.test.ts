/** What is tried again is read of what Temporal has pending; whoever may write to the namespace can make that say anything. */
import { expect, test } from '@jest/globals';
import { retryText } from '../../../../cli/views/run.ts';
import { type Retry, tellingRetriesOnce } from '../../../../client/run/progress.ts';

const retry = (over: Partial<Retry> = {}): Retry => ({
  step: 'list tools of files',
  code: 'DISCOVERY_FAILED',
  message: 'Server "files" did not answer (ECONNREFUSED).',
  attempt: 2,
  since: '2026-01-01T00:00:00.000Z',
  ...over,
});

test('a step is told again when it fails for another reason, or has failed anew, and not at each try', () => {
  const told: string[] = [];
  const tell = tellingRetriesOnce((news) => void told.push(...news.map(({ code, attempt }) => `${code} ${attempt}`)));
  tell([retry()]);
  tell([retry({ attempt: 3 })]);
  tell([retry({ attempt: 4, code: 'TOOL_UNAVAILABLE' })]);
  tell([]);
  tell([retry()]);
  expect(told).toEqual(['DISCOVERY_FAILED 2', 'TOOL_UNAVAILABLE 4', 'DISCOVERY_FAILED 2']);
});

test('it says what, why, how often, since when and when again; nothing of it moves a terminal', () => {
  const hostile = '\u001b[2J\u202eevil\n';
  const text = retryText(retry({ step: hostile, message: hostile, next: '2026-01-01T00:01:00.000Z' }));
  for (const active of ['\u001b', '\u202e', '\n']) expect(text).not.toContain(active);
  expect(text).toMatch(/DISCOVERY_FAILED, attempt 2 since .*tried again at/);
  expect(retryText(retry())).toContain('being tried now');
});
