/** A search costs what the size of the text allows, whatever its writer and the writer of the secret intend. */
import { randomBytes } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { createScrubber, createSecretSearch, MASK } from '../../../../activities/scrubbing/scrubber.ts';
import { Effort } from '../../../../activities/scrubbing/spans.ts';

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
  // Without what might be an escape by chance, and is read as one.
  'random base64': (size) =>
    randomBytes((size * 3) / 4)
      .toString('base64')
      .replaceAll('x', 'y'),
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
    expect(Buffer.from(scrub.bytes(bytes)).equals(Buffer.alloc(bytes.length, '*'))).toBe(true);
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
