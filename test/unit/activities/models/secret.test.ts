/** Taking a key out of what leaves the worker. */
import { describe, expect, test } from '@jest/globals';
import { scrubberOf } from '../../../../activities/models/refusal.ts';

const KEY = 'sk-live/ab+cd=ef?gh';

describe('INV-S1: a provider key', () => {
  test.each([
    ['raw', KEY],
    ['base64', Buffer.from(KEY).toString('base64')],
    ['base64url', Buffer.from(KEY).toString('base64url')],
    ['URL-encoded', encodeURIComponent(KEY)],
  ])('%s is taken out of every string, keys of objects too', (_, form) => {
    const cleaned = scrubberOf(KEY)({
      a: `x ${form} y ${form}`,
      deep: [{ [form]: form, n: 1, none: null, flag: true }],
    });
    expect(JSON.stringify(cleaned)).not.toContain(form.replace(/=+$/, ''));
    expect(cleaned).toMatchObject({
      a: expect.stringMatching(/^x \[redacted\]=* y \[redacted\]=*$/),
      deep: [{ n: 1, none: null, flag: true }],
    });
  });

  test('or none: lone surrogates, which canonical JSON refuses, are replaced', () => {
    expect(scrubberOf(undefined)({ text: 'a\ud800b \u{1f600}' })).toEqual({ text: 'a\ufffdb \u{1f600}' });
  });

  test('that is a placeholder, or none, takes nothing out', () => {
    for (const placeholder of [undefined, '', 'EMPTY', 'ollama']) {
      expect(scrubberOf(placeholder)({ text: 'EMPTY ollama' })).toEqual({ text: 'EMPTY ollama' });
    }
  });
});
