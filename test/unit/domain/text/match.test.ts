/** Names with stars. */
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import { globCovers, globMatches, nearNames, splitTool } from '../../../../domain/text/match.ts';
import { forAll, forMany } from '../../../support/for-all.ts';

describe('patterns', () => {
  const short = fc.stringMatching(/^[ab*]{0,6}$/);
  const name = fc.stringMatching(/^[ab]{0,8}$/);

  describe('a star', () => {
    test('is for any characters, and everything else for itself: the same as a pattern written out', () => {
      forMany({ numRuns: 2_000 }, short, name, (glob, text) => {
        const pattern = new RegExp(`^${glob.replaceAll('*', '.*')}$`, 's');
        expect(globMatches(glob, text)).toBe(pattern.test(text));
      });
    });

    test('costs no more than the product of both lengths', () => {
      expect(globMatches(`${'a*'.repeat(60)}b`, 'a'.repeat(5_000))).toBe(false);
    });
  });

  test('what covers another matches all that the other does', () => {
    forMany({ numRuns: 2_000 }, short, short, name, (wide, narrow, text) => {
      if (globCovers(wide, narrow) && globMatches(narrow, text)) expect(globMatches(wide, text)).toBe(true);
    });
    expect(globCovers('bank*', 'bank')).toBe(true);
    expect(globCovers('*', 'b*k')).toBe(true);
    expect(globCovers('bank', 'bank*')).toBe(false);
  });

  test('a tool may have a slash, a server may not', () => {
    expect(splitTool('files/a/b')).toEqual({ server: 'files', tool: 'a/b' });
  });
});

// Names that a model may have meant when it named a tool that is not there.

const known = ['files__read_file', 'files__write_file', 'mail__send', 'mail__sent_items'];

describe('near names', () => {
  test.each([
    ['one letter off', 'mail__sendd', ['mail__send']],
    ['two letters swapped', 'mail__sned', ['mail__send']],
    ['another case', 'MAIL__SEND', ['mail__send']],
  ])('%s is found first', (_what, wanted, nearest) => {
    expect(nearNames(wanted, known).slice(0, 1)).toEqual(nearest);
  });

  test('a shared word is enough, nearest first', () => {
    expect(nearNames('write_file', known)).toEqual(['files__write_file', 'files__read_file']);
  });

  test('words of one or two letters are not enough', () => {
    expect(nearNames('do_it_to_all_of_them', ['to_do', 'it'])).toEqual([]);
  });

  test('in a large catalog a shared word is not lost among names that are merely as long', () => {
    const many = Array.from({ length: 600 }, (_, index) => `zzzz_q${String(index).padStart(4, '0')}`);
    expect(nearNames('open_issue', [...many, 'create_issue'])).toEqual(['create_issue']);
  });

  test('nothing near is nothing named', () => {
    expect(nearNames('transfer_money', known)).toEqual([]);
    expect(nearNames('x', [])).toEqual([]);
  });

  test('never more than asked for, never a name that is not known, never one twice', () => {
    forAll(
      fc.string({ maxLength: 80 }),
      fc.uniqueArray(fc.string({ maxLength: 80 })),
      fc.nat({ max: 5 }),
      (wanted, names, most) => {
        const near = nearNames(wanted, names, most);
        expect(near.length).toBeLessThanOrEqual(most);
        expect(new Set(near).size).toBe(near.length);
        for (const name of near) expect(names).toContain(name);
      },
    );
  });

  test('a wanted name of any length, and a large catalog, are looked at in part: the words of its first 64 characters', () => {
    expect(nearNames(`${'x'.repeat(64)} send`, known)).toEqual([]);
    expect(nearNames(`send ${'x'.repeat(1_000)}`, known)).toEqual(['mail__send']);
    const catalog = Array.from({ length: 10_000 }, (_, index) => `srv__send_${index}`);
    expect(nearNames('send', [...catalog.slice(0, 5_000), 'send'])).not.toContain('send');
    expect(nearNames('send', catalog)).toHaveLength(3);
  });

  test('every name within two edits is found: a letter changed, left out or added, twice at most', () => {
    const letter = fc.constantFrom('q', 'z', '7');
    const place = fc.nat({ max: 9 });
    const edit = fc.record({ kind: fc.constantFrom('change', 'drop', 'add'), place, letter });
    forAll(fc.array(edit, { minLength: 1, maxLength: 2 }), (edits) => {
      const wanted = edits.reduce((name, { kind, place: index, letter: put }) => {
        const kept = kind === 'add' ? index : index + 1;
        return `${name.slice(0, index)}${kind === 'drop' ? '' : put}${name.slice(kept)}`;
      }, 'aabbccddee');
      expect(nearNames(wanted, ['aabbccddee'])).toEqual(['aabbccddee']);
    });
  });

  test('three edits away, without a shared word, is another name', () => {
    expect(nearNames('aabbccd', ['aabbccdeee'])).toEqual([]);
    expect(nearNames('aabbccdeee', ['aabbccd'])).toEqual([]);
  });
});
