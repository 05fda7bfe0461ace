/** Names with stars. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { globCovers, globMatches, splitTool } from '../../../../domain/text/match.ts';

const short = fc.stringMatching(/^[ab*]{0,6}$/);
const name = fc.stringMatching(/^[ab]{0,8}$/);

describe('a star', () => {
  test('is for any characters, and everything else for itself: the same as a pattern written out', () => {
    fc.assert(
      fc.property(short, name, (glob, text) => {
        const pattern = new RegExp(`^${glob.replaceAll('*', '.*')}$`, 's');
        expect(globMatches(glob, text)).toBe(pattern.test(text));
      }),
      { numRuns: 2_000 },
    );
  });

  test('costs no more than the product of both lengths', () => {
    expect(globMatches(`${'a*'.repeat(60)}b`, 'a'.repeat(5_000))).toBe(false);
  });
});

test('what covers another matches all that the other does', () => {
  fc.assert(
    fc.property(short, short, name, (wide, narrow, text) => {
      if (globCovers(wide, narrow) && globMatches(narrow, text)) expect(globMatches(wide, text)).toBe(true);
    }),
    { numRuns: 2_000 },
  );
  expect(globCovers('bank*', 'bank')).toBe(true);
  expect(globCovers('*', 'b*k')).toBe(true);
  expect(globCovers('bank', 'bank*')).toBe(false);
});

test('a tool may have a slash, a server may not', () => {
  expect(splitTool('files/a/b')).toEqual({ server: 'files', tool: 'a/b' });
});
