/** Scopes in words: only where their names say something, and never more. */
import { expect, test } from '@jest/globals';
import { scopesView, scopeWords } from '../../../../gateway/page/scopes.ts';

test.each([
  ['calendar:read', 'read calendar'],
  ['write:repo_hook', 'change repo hook'],
  ['https://www.googleapis.com/auth/calendar.readonly', 'read calendar'],
  ['Mail.Send', 'send Mail'],
  ['org.members.admin', 'do everything with org, members'],
  ['offline_access', 'stay authorized while you are away'],
  ['repo', undefined],
  ['a8f3:77', undefined],
  ['read', undefined],
  ['pay me:read', undefined],
  ['bank:launch', undefined],
  ['read:<script>', undefined],
])('%s: %s', (scope, words) => {
  expect(scopeWords(scope)).toBe(words);
});

test('the name itself always stands there, and words are said to be read from names', () => {
  const { text } = scopesView(['calendar:read', '<b>\u202e']);
  expect(text).toContain('calendar:read');
  expect(text).toContain('read from the names');
  expect(text).not.toContain('<b>');
  expect(scopesView(['repo']).text).not.toContain('read from the names');
});
