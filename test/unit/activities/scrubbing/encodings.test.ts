/** Secrets that come back written in another way, or in pieces (INV-S1). */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { createScrubber, MASK } from '../../../../activities/scrubbing/scrubber.ts';
import { ENCODINGS } from '../../../support/canary/scan.ts';

const anyText = fc.string({ maxLength: 200 });
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
    fc.assert(
      fc.property(token, anyText, anyText, (secret, before, after) => {
        const form = encode(secret);
        const clean = createScrubber([secret]).text(`${before} ${form} ${after}`);
        expect(clean).toContain(MASK);
        expect(clean.replaceAll(MASK, '').length).toBeLessThan(
          before.length + after.length + encode('').length + LEFT_OVER,
        );
      }),
    );
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
    fc.assert(
      fc.property(token, encoding, encoding, anyText, anyText, (secret, [, inner], [, outer], before, after) => {
        const form = outer(inner(secret));
        const clean = createScrubber([secret]).text(`${before} ${form} ${after}`);
        expect(clean).toContain(MASK);
        expect(clean).not.toContain(form);
        expect(clean.replaceAll(MASK, '').length).toBeLessThan(
          before.length + after.length + outer(inner('')).length + LEFT_OVER + PADDING,
        );
      }),
      { numRuns: 1_000 },
    );
  });

  test('is overwritten in bytes, whose number stays', () => {
    fc.assert(
      fc.property(token, encoding, fc.uint8Array({ maxLength: 50 }), (secret, [, encode], before) => {
        const bytes = Buffer.concat([before, Buffer.from(` ${encode(secret)} `)]);
        const clean = Buffer.from(createScrubber([secret]).bytes(bytes));
        expect(clean.length).toBe(bytes.length);
        expect(clean.includes(secret)).toBe(false);
        expect(clean.equals(bytes)).toBe(false);
      }),
      { numRuns: 500 },
    );
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
    fc.assert(
      fc.property(token, encoding, encoding, (other, [, inner], [, outer]) => {
        const form = outer(inner(other));
        expect(scrub.text(form)).toBe(form);
      }),
      { numRuns: 500 },
    );
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
    fc.assert(
      fc.property(fc.json(), (json) => {
        const value: unknown = JSON.parse(json);
        expect(JSON.stringify(scrub.value(value))).toBe(JSON.stringify(value));
      }),
    );
  });
});
