/** Text of models, tools and servers, made inert before a person reads it. */
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import { byteLength } from '../../../../domain/text/canonical.ts';
import {
  bounded,
  boundedBytes,
  codeSpan,
  markdown,
  named,
  quoted,
  spaced,
  unhidden,
  visible,
} from '../../../../domain/text/escape.ts';
import { anyText, unicodeText } from '../../../support/builders/arbitraries.ts';
import { forAll } from '../../../support/for-all.ts';

/** Characters that show nothing, or something else than what they are, each with the name Unicode gives it. */
const INVISIBLE: readonly (readonly [string, number])[] = [
  ['NULL', 0x00],
  ['LINE FEED', 0x0a],
  ['ESCAPE', 0x1b],
  ['DELETE', 0x7f],
  ['NEXT LINE', 0x85],
  ['NO-BREAK SPACE', 0xa0],
  ['SOFT HYPHEN', 0xad],
  ['COMBINING GRAPHEME JOINER', 0x034f],
  ['ARABIC LETTER MARK', 0x061c],
  ['HANGUL CHOSEONG FILLER', 0x115f],
  ['KHMER VOWEL INHERENT AQ', 0x17b4],
  ['MONGOLIAN FREE VARIATION SELECTOR ONE', 0x180b],
  ['ZERO WIDTH SPACE', 0x200b],
  ['ZERO WIDTH JOINER', 0x200d],
  ['RIGHT-TO-LEFT MARK', 0x200f],
  ['LINE SEPARATOR', 0x2028],
  ['RIGHT-TO-LEFT OVERRIDE', 0x202e],
  ['WORD JOINER', 0x2060],
  ['RIGHT-TO-LEFT ISOLATE', 0x2067],
  ['BRAILLE PATTERN BLANK', 0x2800],
  ['IDEOGRAPHIC SPACE', 0x3000],
  ['HANGUL FILLER', 0x3164],
  ['private use', 0xe000],
  ['VARIATION SELECTOR-16', 0xfe0f],
  ['ZERO WIDTH NO-BREAK SPACE', 0xfeff],
  ['HALFWIDTH HANGUL FILLER', 0xffa0],
  ['noncharacter', 0xffff],
  ['TAG LATIN SMALL LETTER A', 0xe0061],
  ['VARIATION SELECTOR-256', 0xe01ef],
  ['half of a surrogate pair', 0xd800],
];

describe('visible text', () => {
  test.each(INVISIBLE)('%s shows as its number', (_name, point) => {
    expect(visible(`a${String.fromCodePoint(point)}b`)).toBe(`a\\u{${point.toString(16)}}b`);
  });

  test('no invisible character survives in any text', () => {
    const invisible = fc.constantFrom(...INVISIBLE.map(([, point]) => String.fromCodePoint(point)));
    forAll(fc.array(fc.oneof(invisible, anyText(4))), (parts) => {
      expect(visible(parts.join(''))).not.toMatch(/[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]|(?! )\p{Zs}/u);
    });
  });

  test('what everybody can see is left alone', () => {
    for (const text of ['plain text, 1 + 1 = 2!', 'Größe 寸法 размер', '😀', 'é', 'İstanbul', '한국'])
      expect(visible(text)).toBe(text);
  });

  test.each([
    ['HEBREW LETTER ALEF', 0x05d0],
    ['ARABIC LETTER BEH', 0x0628],
    ['ARABIC-INDIC DIGIT ONE', 0x0661],
    ['NKO LETTER A', 0x07ca],
    ['HEBREW LETTER WIDE ALEF', 0xfb21],
    ['ARABIC LETTER ALEF FINAL FORM', 0xfe8e],
    ['ADLAM CAPITAL LETTER ALIF', 0x1e900],
    ['COMBINING LONG SOLIDUS OVERLAY', 0x0338],
    ['COMBINING ENCLOSING CIRCLE BACKSLASH', 0x20e0],
    ['DEVANAGARI VOWEL SIGN I', 0x093f],
    ['HALFWIDTH KATAKANA VOICED SOUND MARK', 0xff9e],
    ['HANGUL JUNGSEONG A', 0x1161],
  ])('%s shows as its number, since it moves or covers what stands beside it', (_name, point) => {
    expect(visible(`a${String.fromCodePoint(point)}b`)).toBe(`a\\u{${point.toString(16)}}b`);
  });

  test('no script of Unicode that is written from right to left survives, nor any mark', () => {
    const moving =
      /[\p{sc=Adlm}\p{sc=Arab}\p{sc=Armi}\p{sc=Avst}\p{sc=Cprt}\p{sc=Hatr}\p{sc=Hebr}\p{sc=Khar}\p{sc=Lydi}\p{sc=Mand}\p{sc=Mani}\p{sc=Mend}\p{sc=Merc}\p{sc=Mero}\p{sc=Narb}\p{sc=Nbat}\p{sc=Nkoo}\p{sc=Orkh}\p{sc=Palm}\p{sc=Phli}\p{sc=Phlp}\p{sc=Phnx}\p{sc=Prti}\p{sc=Rohg}\p{sc=Samr}\p{sc=Sarb}\p{sc=Sogd}\p{sc=Sogo}\p{sc=Syrc}\p{sc=Thaa}\p{sc=Yezi}\p{M}]/u;
    const survivors: string[] = [];
    for (let point = 0; point <= 0x10ffff; point += 1) {
      const char = String.fromCodePoint(point);
      if (moving.test(char) && visible(char) === char) survivors.push(point.toString(16));
    }
    expect(survivors).toEqual([]);
  });
});

describe('text that stands alone', () => {
  test('keeps its script, and hides nothing', () => {
    expect(unhidden('שלום e\u0301 \u202e')).toBe('שלום e\u0301 \\u{202e}');
    expect(markdown('שלום 100')).toBe('\u2068שלום 100\u2069');
    // Nothing in it ends the isolate.
    expect(markdown('\u2069א')).toBe('\u2068\\u&#123;2069&#125;א\u2069'.replace('\\u', '&#92;u'));
  });
});

describe('text of others beside words of ours', () => {
  test('ends where its mark stands, whatever it holds', () => {
    expect(quoted('say "no", \\')).toBe('"say \\"no\\", \\\\"');
    forAll(anyText(), anyText(), (one, other) => {
      const line = `${quoted(one)}, ${quoted(other)}`;
      expect(line).toMatch(/^"(?:[^"\\]|\\.)*", "(?:[^"\\]|\\.)*"$/u);
      expect(line).not.toMatch(/ {2}/);
      expect(visible(line)).toBe(line);
    });
  });

  test('shows each space after the first: no terminal can break it into what looks like another line', () => {
    expect(spaced('a   b c')).toBe('a \\u{20}\\u{20}b c');
  });

  test('is a name as it is where it is one word, and quoted where it could pass for more', () => {
    for (const name of ['delete_all', 'files/read.2', 'größe', '寸法', 'a:b@c']) expect(named(name)).toBe(name);
    expect(named('book  approved by ann')).toBe('"book \\u{20}approved by ann"');
    for (const name of ['a b', 'a,b', 'a;b', 'a"b', 'a\\b', '(x)', 'a\u200bb', 'a\nb', ''])
      expect(named(name)).toBe(quoted(name));
  });
});

describe('Markdown', () => {
  /** All that may stand in front of an element, a link, a mention or a formula in CommonMark and its usual extensions. */
  const active = /[\\`*_{}[\]()#+\-.!|<>&~$:@\n\r\t]/;

  test('nothing that could be markup is left but the numbers of escaped characters', () => {
    forAll(anyText(), (text) => {
      const rest = markdown(text).replaceAll(/&#\d+;/g, '');
      expect(rest).not.toMatch(active);
    });
  });

  test('it reads back as the visible text', () => {
    forAll(anyText(), (text) => {
      const read = markdown(text).replaceAll(/&#(\d+);/g, (_all, number: string) =>
        String.fromCharCode(Number(number)),
      );
      expect(read.replaceAll(/[\u2068\u2069]/g, '')).toBe(unhidden(text));
    });
  });

  test.each([
    ['a link', '[click](https://evil.example)'],
    ['a bare link', 'https://evil.example'],
    ['a mail address', 'a@evil.example'],
    ['an image', '![x](y)'],
    ['HTML', '<img src=x onerror=alert(1)>'],
    ['an entity', '&lt;b&gt;'],
    ['code', '`rm -rf`'],
    ['emphasis', '**approved**'],
    ['a heading on a line of its own', 'x\n# Approved'],
    ['a table', '| a | b |'],
  ])('%s is only text', (_what, text) => {
    const inert = markdown(text);
    expect(inert).not.toBe(text);
    expect(inert.replaceAll(/&#\d+;/g, '')).not.toMatch(active);
  });
});

describe('bounded text', () => {
  test('short text is left alone, long text is cut with the number of what is missing', () => {
    expect(bounded('abc', 3)).toBe('abc');
    expect(bounded('abcd', 3)).toBe('abc… (1 more characters)');
  });

  test('a character is never cut in half', () => {
    expect(bounded('😀😀😀', 2)).toBe('😀😀… (1 more characters)');
  });

  test('what is kept is the beginning, and what is counted is the rest', () => {
    forAll(unicodeText(), fc.nat({ max: 20 }), (text, most) => {
      const [, kept = text, missing = '0'] = /^(.*)… \((\d+) more characters\)$/su.exec(bounded(text, most)) ?? [];
      expect(text.startsWith(kept)).toBe(true);
      expect([...kept].length + Number(missing)).toBe([...text].length);
    });
  });

  test('bytes are bounded too: what fits is left alone, what does not is cut to at most so many', () => {
    expect(boundedBytes('äöü', 6)).toBe('äöü');
    expect(boundedBytes('äöü', 5)).toBe('ä…');
    expect(boundedBytes('äöü', 3)).toBe('…');
    forAll(unicodeText(), fc.integer({ min: 3, max: 30 }), (text, most) => {
      const cut = boundedBytes(text, most);
      expect(byteLength(cut)).toBeLessThanOrEqual(most);
      expect(cut === text || (cut.endsWith('…') && text.startsWith(cut.slice(0, -1)))).toBe(true);
      // Nothing is cut that had room: the next character, of at most four bytes, did not fit.
      if (cut !== text) expect(byteLength(cut)).toBeGreaterThan(most - 4);
    });
  });
});

describe('a code span', () => {
  test('shows text as it is, dashes and quotes too, and what is invisible as a code point', () => {
    expect(codeSpan('rm --force "x"\u200b')).toBe('` rm --force "x"\\u{200b} `');
  });

  test('cannot be ended from inside', () => {
    expect(codeSpan('a `b` ``c``` d')).toBe('```` a `b` ``c``` d ````');
  });
});
