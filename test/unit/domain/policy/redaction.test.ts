/** Arguments that policy keeps out of what is shown (G-6): replaced in a copy, at exactly the places that are named. */
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import { REDACTED, redactionsOf, shownArguments, withoutRedacted } from '../../../../domain/policy/redaction.ts';
import { canonicalJson } from '../../../../domain/text/canonical.ts';
import { forAll } from '../../../support/for-all.ts';

const ARGS = {
  iban: 'DE1',
  amount: 7,
  payees: [{ iban: 'DE2', name: 'ann' }, { iban: 'DE3' }],
  'a/b': { '~': 'x' },
  none: null,
};

describe('arguments without what is kept back', () => {
  test.each<[string, object]>([
    ['iban', { ...ARGS, iban: REDACTED }],
    ['/iban', { ...ARGS, iban: REDACTED }],
    ['/payees/1/iban', { ...ARGS, payees: [ARGS.payees[0], { iban: REDACTED }] }],
    ['/payees/*/iban', { ...ARGS, payees: [{ iban: REDACTED, name: 'ann' }, { iban: REDACTED }] }],
    ['payees', { ...ARGS, payees: REDACTED }],
    ['/a~1b/~0', { ...ARGS, 'a/b': { '~': REDACTED } }],
    ['none', { ...ARGS, none: REDACTED }],
    ['/none/deep', ARGS],
    ['/amount/deep', ARGS],
    ['absent', ARGS],
    ['*', { iban: REDACTED, amount: REDACTED, payees: REDACTED, 'a/b': REDACTED, none: REDACTED }],
  ])('%s', (place, shown) => {
    const before = canonicalJson(ARGS);
    expect(withoutRedacted(ARGS, [place])).toEqual(shown);
    expect(canonicalJson(ARGS)).toBe(before);
  });

  test('all places at once; none is all', () => {
    expect(shownArguments({ arguments: ARGS, redact: ['iban', 'payees'] })).toEqual({
      ...ARGS,
      iban: REDACTED,
      payees: REDACTED,
    });
    expect(shownArguments({ arguments: ARGS })).toEqual(ARGS);
  });

  test('a value at a place that is named is never shown, whatever else is named', () => {
    const place = fc.constantFrom('iban', '/payees', '/payees/*/iban', '/payees/0', 'absent', '/iban/x', '*');
    forAll(fc.array(place), (others) => {
      const shown = canonicalJson(withoutRedacted(ARGS, [...others, '/payees/1/iban']));
      expect(shown).not.toContain('DE3');
    });
  });
});

test('of the lists of a policy, those that are of the server and the tool apply, each place once', () => {
  const redact = [
    { arguments: ['password'] },
    { server: 'bank', arguments: ['iban', 'password'] },
    { server: 'bank', tool: 'pay', arguments: ['/payees/*/iban'] },
    { tool: 'search', arguments: ['query'] },
  ];
  expect(redactionsOf(redact, { server: 'bank', tool: 'pay' })).toEqual(['password', 'iban', '/payees/*/iban']);
  expect(redactionsOf(redact, { server: 'files', tool: 'search' })).toEqual(['password', 'query']);
  expect(redactionsOf([], { server: 'bank', tool: 'pay' })).toEqual([]);
});
