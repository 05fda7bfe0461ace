/** Taking secrets out of text, values and bytes, in any form and at a bounded cost (INV-S1). */
import { randomBytes } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { createScrubber, createSecretSearch, MASK } from '../../../../activities/scrubbing/scrubber.ts';
import { Effort } from '../../../../activities/scrubbing/spans.ts';
import { encodedTwice, ENCODINGS } from '../../../support/canary/scan.ts';
import { forAll, forMany } from '../../../support/for-all.ts';
import { overwritten } from '../../../support/canary/overwritten.ts';

const anyText = fc.string({ maxLength: 200 });

const anySecret = fc.string({ minLength: 8, maxLength: 60, unit: 'grapheme-ascii' });

describe('the scrubber', () => {
  test('leaves text without secrets as it is', () => {
    forAll(fc.string({ unit: 'grapheme' }), (text) => {
      expect(createScrubber(['a-secret-that-is-nowhere']).text(text)).toBe(text);
    });
  });

  test('looks at what is as long as the shortest form, and what is shorter is well-formed all the same', () => {
    const { text, value } = createScrubber(['abcd', 'a-secret-that-is-long']);
    expect(text('abcd')).toBe(MASK);
    expect(value(['abc', 'a\ud800', { abcd: 'x' }])).toEqual(['abc', 'a\ufffd', { [MASK]: 'x' }]);
    expect(createScrubber([]).text('a\ud800')).toBe('a\ufffd');
  });

  test('finds a secret raw, escaped, URL-encoded and in base64, wherever it stands', () => {
    const forms = (value: string): string[] => [
      value,
      JSON.stringify(value).slice(1, -1),
      encodeURIComponent(value),
      Buffer.from(value).toString('base64'),
      Buffer.from(value).toString('base64url'),
    ];
    forAll(anySecret, anyText, anyText, (value, before, after) => {
      const scrub = createScrubber([value]);
      for (const form of forms(value)) expect(scrub.text(`${before} ${form} ${after}`)).not.toContain(form);
    });
  });

  test('finds a secret in hexadecimal, in either case, inside longer text and bytes', () => {
    forAll(anySecret, anyText, anyText, (value, before, after) => {
      const scrub = createScrubber([value]);
      const hex = Buffer.from(value).toString('hex');
      for (const form of [hex, hex.toUpperCase()]) {
        const around = `${Buffer.from(before).toString('hex')}${form}${Buffer.from(after).toString('hex')}`;
        expect(scrub.text(around)).not.toContain(form);
        expect(overwritten([value], Buffer.from(around)).includes(form)).toBe(false);
      }
    });
  });

  test('finds each of these inside a URL, where they are encoded once more', () => {
    forAll(anySecret, (value) => {
      const forms = [
        value,
        JSON.stringify({ value }),
        encodeURIComponent(value),
        Buffer.from(value).toString('base64'),
      ];
      for (const form of forms) {
        const clean = createScrubber([value]).text(`https://x.test/?back=${encodeURIComponent(form)}`);
        expect(clean).toContain(MASK);
        // A secret that begins like the end of the escape before it leaves half an escape.
        const whole = clean.replace(/%[\dA-F]?(?=\[redacted\])/g, '');
        expect(decodeURIComponent(whole)).not.toContain(form);
      }
    });
  });

  test('finds a secret inside longer base64, whatever stands before and after it', () => {
    forAll(anySecret, fc.uint8Array({ maxLength: 40 }), fc.uint8Array({ maxLength: 40 }), (value, before, after) => {
      const encoded = Buffer.concat([before, Buffer.from(value), after]).toString('base64');
      const clean = createScrubber([value]).text(encoded);
      expect(clean).toContain(MASK);
      // No stretch that is left decodes to the secret, at any alignment.
      for (const word of clean.split(MASK)) {
        for (const start of [0, 1, 2, 3]) {
          expect(Buffer.from(word.slice(start), 'base64').includes(value)).toBe(false);
        }
      }
    });
  });

  test('takes the credential for the secret where a scheme was given with it', () => {
    expect(createScrubber(['Bearer abc.def.ghi']).text('token abc.def.ghi')).toBe(`token ${MASK}`);
    expect(createScrubber(['Basic dXNlcjpwYXNz']).text('got dXNlcjpwYXNz')).toBe(`got ${MASK}`);
  });

  test('replaces the longer of two secrets first, so that neither leaves a rest', () => {
    expect(createScrubber(['abcd1234', 'abcd1234efgh']).text('abcd1234efgh abcd1234')).toBe(`${MASK} ${MASK}`);
  });

  test.each(['', 'a', 'abc'])('does not take "%s" for a secret', (value) => {
    expect(createScrubber([value]).text('a abc bc')).toBe('a abc bc');
  });

  test('walks values, keys included, and keeps what is no string', () => {
    const value = { 'key-canary-1': ['canary-1', 7, null, true, { deep: 'x canary-1' }] };
    expect(createScrubber(['canary-1']).value(value)).toEqual({
      [`key-${MASK}`]: [MASK, 7, null, true, { deep: `x ${MASK}` }],
    });
  });

  test('keeps a key __proto__ a key', () => {
    const clean = createScrubber(['canary-1']).value(JSON.parse('{"__proto__":{"a":"canary-1"}}'));
    expect(JSON.stringify(clean)).toBe(`{"__proto__":{"a":"${MASK}"}}`);
  });

  test('overwrites secrets in bytes and keeps the length', async () => {
    const bytes = Buffer.from(`\u00ff\u0000canary-1 and ${Buffer.from('canary-1').toString('base64')} end`, 'latin1');
    const clean = Buffer.from(await createScrubber(['canary-1']).largeBytes(bytes));
    expect(clean.length).toBe(bytes.length);
    expect(clean.toString('latin1')).toBe(`\u00ff\u0000******** and ${'*'.repeat(12)} end`);
    expect(bytes.toString('latin1')).toContain('canary-1');
  });

  test('gives well-formed text', () => {
    expect(createScrubber([]).text('a\ud800b\udc00 😀')).toBe('a\ufffdb\ufffd 😀');
  });

  test('a secret with a lone surrogate is no fault', () => {
    expect(createScrubber(['abcd\ud800efgh']).text('fine')).toBe('fine');
  });
});

// Secrets that come back written in another way, or in pieces (INV-S1).

/** As long as tokens are; with characters that encodings write in another way. */
const token = fc
  .tuple(
    fc.stringMatching(/^[A-Za-z0-9]{20,40}$/),
    fc.string({ unit: fc.constantFrom(...'~+/=._-%"\\&: '), maxLength: 4 }),
    fc.stringMatching(/^[A-Za-z0-9]{4,10}$/),
  )
  .map((parts) => parts.join(''));
const encoding = fc.constantFrom(...Object.entries(ENCODINGS));
/** Letters of an encoding that hold bits of a neighbour too; quotes. */
const LEFT_OVER = 20;
/** Six times `=`, which may be written as `&equals;`. */
const PADDING = 60;

describe('a secret that is written in another way', () => {
  test.each(Object.entries(ENCODINGS))('is found: %s', (_, encode) => {
    forAll(token, anyText, anyText, (secret, before, after) => {
      const form = encode(secret);
      const clean = createScrubber([secret]).text(`${before} ${form} ${after}`);
      expect(clean).toContain(MASK);
      expect(clean.replaceAll(MASK, '').length).toBeLessThan(
        before.length + after.length + encode('').length + LEFT_OVER,
      );
    });
  });

  test('is found in quoted-printable, save where letters are escaped among others (SECURITY.md)', () => {
    const secret = 'sk_live-abc=DEF+ghi/123456789_xyz';
    const escaped = (text: string): string => `=${text.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`;
    const every = [...secret].map(escaped).join('');
    const forms = [secret.replace('=', '=3D'), every, every.replaceAll(/.{30}/g, '$&=\r\n')];
    for (const form of forms) {
      const left = createScrubber([secret]).text(`It said ${form} then.`);
      expect(left).toContain(MASK);
      expect(left.replaceAll(MASK, '').length).toBeLessThan(20);
    }
    const some = secret.replaceAll(/[a-c]/g, escaped);
    expect(createScrubber([secret]).text(some)).toBe(some);
  });

  test('is found in one encoding inside another', () => {
    forMany(
      { numRuns: 1_000 },
      token,
      encoding,
      encoding,
      anyText,
      anyText,
      (secret, [, inner], [, outer], before, after) => {
        const form = outer(inner(secret));
        const clean = createScrubber([secret]).text(`${before} ${form} ${after}`);
        expect(clean).toContain(MASK);
        expect(clean).not.toContain(form);
        expect(clean.replaceAll(MASK, '').length).toBeLessThan(
          before.length + after.length + outer(inner('')).length + LEFT_OVER + PADDING,
        );
      },
    );
  });

  test.each([
    ['a key', 24, 'a', 'z', ''],
    ['a signed token', 300, 'a', 'z', ''],
    // Marks at its ends may be left where each character is written as an entity (SECURITY.md), and nothing else.
    ['a key with marks at its ends', 24, '__a', 'z-_', '__-_'],
  ])('is found in each encoding inside each other, as long as %s', (_, bytes, before, after, marks) => {
    const secret = `${before}${randomBytes(bytes).toString('base64url')}${after}`;
    const scrub = createScrubber([secret]);
    const mayBeLeft = encodedTwice(marks);
    const left = encodedTwice(secret).map((form, index) => {
      const clean = scrub.text(`It said ${form} then.`);
      return clean.startsWith('It said ') && clean.includes(MASK)
        ? clean.replaceAll(MASK, '').length - (mayBeLeft[index]?.length ?? 0)
        : Number.POSITIVE_INFINITY;
    });
    expect(left.filter((length) => length > 'It said  then.'.length + LEFT_OVER + PADDING)).toEqual([]);
  });

  test('is overwritten in bytes, whose number stays', () => {
    forMany({ numRuns: 500 }, token, encoding, fc.uint8Array({ maxLength: 50 }), (secret, [, encode], before) => {
      const bytes = Buffer.concat([before, Buffer.from(` ${encode(secret)} `)]);
      const clean = overwritten([secret], bytes);
      expect(clean.length).toBe(bytes.length);
      expect(clean.includes(secret)).toBe(false);
      expect(clean.equals(bytes)).toBe(false);
    });
  });

  test('stands among characters of several bytes, and they are all kept', () => {
    const secret = 'Zq81kd0Px77Lm2Rv91aa';
    const form = Buffer.from(secret).toString('hex');
    expect(createScrubber([secret]).text(`\u00e9\ud83d\ude00 ${form} \u4e2d\ud83d\ude00`)).toBe(
      `\u00e9\ud83d\ude00 ${MASK} \u4e2d\ud83d\ude00`,
    );
  });

  test('control: what belongs to no secret stays, in all these forms', () => {
    const scrub = createScrubber(['Zq81kd0Px77Lm2Rv91aa']);
    forMany({ numRuns: 500 }, token, encoding, encoding, (other, [, inner], [, outer]) => {
      const form = outer(inner(other));
      expect(scrub.text(form)).toBe(form);
    });
  });
});

describe('a secret in pieces', () => {
  const secret = 'Zq81kd0Px77Lm2Rv91aa4Tg6';
  const scrub = createScrubber([secret]);
  const forms = [secret, Buffer.from(secret).toString('base64'), Buffer.from(secret).toString('hex')];
  const cases = forms.flatMap((form) =>
    [1, 4, form.length / 2, form.length - 4].map((at) => [form.slice(0, at), form.slice(at)] as const),
  );
  const part = (text: string): object => ({ type: 'text', text, annotations: { audience: ['user'] } });

  test.each(cases)(
    '%s and %s: of two parts of a text, a key and its value, two values, two keys, a list',
    (one, two) => {
      const values = [
        [part(`it is ${one}`), part(`${two}.`)],
        { [one]: two },
        { first: one, second: two },
        { [`_${one}`]: 1, [`_${two}`]: 2 },
        { first: { text: one }, second: { other: 'x', text: two } },
        [one, two],
        [...`${one}${two}`],
      ];
      for (const value of values) {
        const clean = scrub.value(value);
        const json = JSON.stringify(clean);
        expect(json).toContain(MASK);
        for (const piece of [one, two]) if (piece.length > 3) expect(json).not.toContain(piece);
      }
    },
  );

  test('goes from one long text over into the next, in whatever order of fields', () => {
    const long = 'plain words, and more of them. '.repeat(5_000);
    const clean = scrub.value([part(`${long}${secret.slice(0, 9)}`), part(`${secret.slice(9)}${long}`)]);
    expect(clean).toEqual([part(`${long}${MASK}`), part(`${MASK}${long}`)]);
  });

  test('as the numbers of its bytes: they are 0, all others stay', () => {
    const numbers = { before: [1, 2.5, 300, -1], data: [7, ...Buffer.from(secret), 9], after: 255 };
    expect(scrub.value(numbers)).toEqual({
      before: [1, 2.5, 300, -1],
      data: [7, ...Array.from({ length: secret.length }, () => 0), 9],
      after: 255,
    });
  });
});

describe('what is no secret', () => {
  const PROSE =
    'The quick brown fox jumps over the lazy dog. Pass word, token and key; a tester, 1234567, and test-er: 100% of &amp; C:\\new.';

  test.each(['test', 'token', 'password', 'tester', 'pass-word', '1234567', 'a-test-token', 'quick fox', 'JumpsOver'])(
    'stays, though "%s" is one: a short one is found as it is written, not with other case or separators',
    (secret) => {
      const clean = createScrubber([secret]).text(PROSE);
      expect(clean).toBe(PROSE.replaceAll(secret, MASK));
    },
  );

  test('stays whatever it is, if no letters and digits of it are those of a secret', () => {
    const scrub = createScrubber(['Zq81kd0Px77Lm2Rv91aa', 'Bearer eyJh.bGci.T-_iJ', 'correct horse battery staple']);
    forAll(fc.json(), (json) => {
      const value: unknown = JSON.parse(json);
      expect(JSON.stringify(scrub.value(value))).toBe(JSON.stringify(value));
    });
  });
});

// A search costs what the size of the text allows, whatever its writer and the writer of the secret intend.

const SECRETS = [
  randomBytes(32).toString('base64url'),
  `Bearer ${randomBytes(600).toString('base64url')}`,
  // Of a server that wants comparisons to be long: the state of its question is a secret, too.
  `${'a'.repeat(180)}b`,
  'ab'.repeat(100),
];
const KIB = 1_024;

const base64 = (text: string): string => Buffer.from(text).toString('base64');
const ofSize = (piece: string, size: number): string => piece.repeat(Math.ceil(size / piece.length)).slice(0, size);
const prose = (size: number): string =>
  ofSize('The quick brown fox jumps over 12 lazy dogs; it was seen at 10:42. ', size);

/** Each of about that size. */
const TEXTS: Readonly<Record<string, (size: number) => string>> = {
  prose,
  'text in base64 in base64 in base64': (size) => base64(base64(base64(prose((size * 27) / 64)))),
  'escapes of escapes of escapes': (size) =>
    encodeURIComponent(encodeURIComponent(encodeURIComponent(ofSize('%&"\\', size / 27)))),
  // Without x and X: after + or /, 0x and two digits are an escape, which is read once more. One text may have it by
  // chance, and the other not.
  'random base64': (size) =>
    randomBytes((size * 3) / 4)
      .toString('base64')
      .replaceAll(/x/gi, 'y'),
  hexadecimal: (size) => randomBytes(size / 2).toString('hex'),
  'one letter of every alphabet': (size) => 'A'.repeat(size),
  'letters that are text at every beginning': (size) => ofSize('QUE', size),
  'marks of escapes': (size) => ofSize('%\\&0x', size),
  'the beginning of a name': (size) => ofSize(`&${'a'.repeat(40)}`, size),
  'numbers of bytes': (size) => ofSize('65, 66, ', size),
  'numbers without an end': (size) => '1'.repeat(size),
  zeros: (size) => '\u0000'.repeat(size),
  'spaces between': (size) => ofSize('a    ', size),
};

describe('the effort of a search', () => {
  test.each(Object.entries(TEXTS))('is linear: %s', (_, text) => {
    const search = createSecretSearch(SECRETS.slice(0, 2));
    const [half, whole] = [64 * KIB, 256 * KIB].map((size) => {
      const effort = new Effort();
      const bytes = Buffer.from(text(size));
      search.spansIn(bytes, effort);
      return effort.spent / bytes.length;
    });
    expect(whole).toBeLessThan(100);
    expect(Math.abs((whole ?? 0) / (half ?? 0) - 1)).toBeLessThan(0.15);
  });

  test('of as much as a session reads is what it is of a part of it', () => {
    const search = createSecretSearch(SECRETS);
    const [part, all] = [KIB, 32 * KIB].map((size) => {
      const effort = new Effort();
      const bytes = Buffer.from(prose(size * KIB));
      expect(search.spansIn(bytes, effort)).toEqual([]);
      return effort.spent / bytes.length;
    });
    expect(Math.abs((all ?? 0) / (part ?? 0) - 1)).toBeLessThan(0.01);
  });

  test('has an end, and a text that wants more is taken for a secret as a whole', () => {
    const scrub = createScrubber(SECRETS);
    const text = 'a'.repeat(64 * KIB);
    expect(scrub.text(text)).toBe(MASK);
    expect(scrub.value([text, 'and this'])).toEqual([MASK, MASK]);
    const bytes = Buffer.from(text);
    expect(overwritten(SECRETS, bytes).equals(Buffer.alloc(bytes.length, '*'))).toBe(true);
    expect(createScrubber(SECRETS.slice(0, 2)).text(text)).toBe(text);
  });

  test('of very many secrets in one text does not grow with their number', () => {
    const [secret = ''] = SECRETS;
    const effort = new Effort();
    const bytes = Buffer.from(ofSize(`${secret} ${base64(secret)}\n`, 512 * KIB));
    expect(createSecretSearch([secret]).spansIn(bytes, effort).length).toBeGreaterThan(4_000);
    expect(effort.spent / bytes.length).toBeLessThan(100);
  });
});
