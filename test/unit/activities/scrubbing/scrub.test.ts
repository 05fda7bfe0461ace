/** Taking secrets out of text, values and bytes (INV-S1). */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { createScrubber, MASK } from '../../../../activities/scrubbing/scrubber.ts';

const secret = fc.string({ minLength: 8, maxLength: 60, unit: 'grapheme-ascii' });
const anyText = fc.string({ maxLength: 200 });

describe('the scrubber', () => {
  test('leaves text without secrets as it is', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        expect(createScrubber(['a-secret-that-is-nowhere']).text(text)).toBe(text);
      }),
    );
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
    fc.assert(
      fc.property(secret, anyText, anyText, (value, before, after) => {
        const scrub = createScrubber([value]);
        for (const form of forms(value)) expect(scrub.text(`${before} ${form} ${after}`)).not.toContain(form);
      }),
    );
  });

  test('finds a secret in hexadecimal, in either case, inside longer text and bytes', () => {
    fc.assert(
      fc.property(secret, anyText, anyText, (value, before, after) => {
        const scrub = createScrubber([value]);
        const hex = Buffer.from(value).toString('hex');
        for (const form of [hex, hex.toUpperCase()]) {
          const around = `${Buffer.from(before).toString('hex')}${form}${Buffer.from(after).toString('hex')}`;
          expect(scrub.text(around)).not.toContain(form);
          expect(Buffer.from(scrub.bytes(Buffer.from(around))).includes(form)).toBe(false);
        }
      }),
    );
  });

  test('finds each of these inside a URL, where they are encoded once more', () => {
    fc.assert(
      fc.property(secret, (value) => {
        const forms = [
          value,
          JSON.stringify({ value }),
          encodeURIComponent(value),
          Buffer.from(value).toString('base64'),
        ];
        for (const form of forms) {
          const clean = createScrubber([value]).text(`https://x.test/?back=${encodeURIComponent(form)}`);
          expect(clean).toContain(MASK);
          expect(decodeURIComponent(clean)).not.toContain(form);
        }
      }),
    );
  });

  test('finds a secret inside longer base64, whatever stands before and after it', () => {
    fc.assert(
      fc.property(
        secret,
        fc.uint8Array({ maxLength: 40 }),
        fc.uint8Array({ maxLength: 40 }),
        (value, before, after) => {
          const encoded = Buffer.concat([before, Buffer.from(value), after]).toString('base64');
          const clean = createScrubber([value]).text(encoded);
          expect(clean).toContain(MASK);
          // No stretch that is left decodes to the secret, at any alignment.
          for (const word of clean.split(MASK)) {
            for (const start of [0, 1, 2, 3]) {
              expect(Buffer.from(word.slice(start), 'base64').includes(value)).toBe(false);
            }
          }
        },
      ),
    );
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

  test('overwrites secrets in bytes and keeps the length', () => {
    const bytes = Buffer.from(`\u00ff\u0000canary-1 and ${Buffer.from('canary-1').toString('base64')} end`, 'latin1');
    const clean = Buffer.from(createScrubber(['canary-1']).bytes(bytes));
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
