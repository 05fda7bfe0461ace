/** A large text is searched part by part, with the result of a search of all of it (INV-S1, docs/adr/0089). */
import { randomBytes } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  createScrubber,
  createSecretSearch,
  MASK,
  scrubbedBeginning,
  spansByParts,
} from '../../../../activities/scrubbing/scrubber.ts';
import { ENCODINGS } from '../../../support/canary/scan.ts';
import { turnsDuring } from '../../../support/other-work.ts';
import { overwritten } from '../../../support/canary/overwritten.ts';

const KIB = 1_024;
const SENTENCE = 'The quick brown fox jumps over 12 lazy dogs; it was seen at 10:42. ';
const large = randomBytes(600).toString('base64url');
const SECRETS = [randomBytes(32).toString('base64url'), `Bearer ${large}`];

const base64 = (text: string): string => Buffer.from(text).toString('base64');
const prose = (size: number): string => SENTENCE.repeat(Math.ceil(size / SENTENCE.length)).slice(0, size);

/** Two layers of it are the longest writing of a byte. */
const units = (text: string): string =>
  [...text].map((each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`).join('');

describe('a text that is searched part by part', () => {
  test('is found to hold what a search of all of it finds, wherever parts begin', async () => {
    const encodings = fc.constantFrom(...Object.entries(ENCODINGS));
    const token = fc.constantFrom(...Array.from({ length: 20 }, () => randomBytes(18).toString('base64url')));
    const sizes = { part: 2_048, overlap: 4_096 };
    await fc.assert(
      fc.asyncProperty(token, encodings, encodings, fc.nat(9_000), async (secret, [, inner], [, outer], before) => {
        const form = outer(inner(secret));
        const text = `${prose(before)} ${form} ${prose(9_000 - before)}`;
        const search = createSecretSearch([secret]);
        const bytes = Buffer.from(text);
        const whole = search.spansIn(bytes);
        expect(whole.length).toBeGreaterThan(0);
        expect(await spansByParts(bytes, search, sizes)).toEqual(whole);
      }),
      { numRuns: 500 },
    );
  });

  test('comes out as one that is searched at once', async () => {
    const scrub = createScrubber(SECRETS);
    const text = `${prose(600 * KIB)} ${large} ${prose(600 * KIB)} ${base64(large)}`;
    const value = { text, halves: [text.slice(0, 601 * KIB), text.slice(601 * KIB)], bytes: [...Buffer.from(large)] };
    expect(await scrub.largeValue(value)).toEqual(scrub.value(value));
    const bytes = Buffer.from(text);
    expect(Buffer.from(await scrub.largeBytes(bytes)).equals(overwritten(SECRETS, bytes))).toBe(true);
    expect(bytes.toString()).toBe(text);
  });

  test.each([
    ['as it is', (secret: string) => secret],
    ['with gaps', (secret: string) => [...secret].join(' '.repeat(60))],
    ['in base64', base64],
    ['in escapes of escapes', (secret: string) => units(units(secret))],
  ])('has no secret left where two of its parts meet: %s', async (_, written) => {
    for (const border of [524_288, 589_824]) {
      const form = written(large);
      for (const back of [1, Math.floor(form.length / 2), form.length - 1]) {
        const text = `${prose(border - back - 1)} ${form} ${prose(700_000)}`;
        const scrub = createScrubber([large]);
        expect(await scrub.largeValue(text)).toBe(scrub.text(text));
      }
    }
  });

  test('has none left of a long token in the longest writing', async () => {
    const token = randomBytes(2_250).toString('base64url');
    const form = units(units(token));
    const scrub = createScrubber([token]);
    for (const back of [1, 20_000, 80_000]) {
      const text = `${prose(524_288 - back)} ${form} ${prose(700_000)}`;
      expect(await scrub.largeValue(text)).toBe(scrub.text(text));
    }
  });

  test('is searched with others in turn: each turn of the process has one part of one of them', async () => {
    const scrub = createScrubber(SECRETS);
    const texts = Array.from({ length: 3 }, () => prose(2_048 * KIB));
    const others = await turnsDuring(async () => {
      await Promise.all(texts.map(async (text) => await scrub.largeValue(text)));
    });
    expect(others).toBeGreaterThanOrEqual(9);
  });

  test('lets the process do something else between any two parts', async () => {
    const scrub = createScrubber(SECRETS);
    const others = await turnsDuring(async () => await scrub.largeValue([prose(4_096 * KIB)]));
    expect(others).toBeGreaterThanOrEqual(7);
  });
});

describe('a text of which little is shown', () => {
  test('shows no secret that the whole would not show, and something in any case', () => {
    const scrub = createScrubber([large]);
    for (const back of [1, 100, 700, 1_400, 60_000]) {
      const gaps = [...large].join(' '.repeat(Math.max(0, Math.floor(back / 800))));
      const text = `${prose(524_288 - back)} ${gaps} ${prose(100_000)}`;
      const shown = scrubbedBeginning(scrub, text);
      expect(shown.length).toBeGreaterThan(390_000);
      expect(text.startsWith(shown.split(MASK)[0] ?? '')).toBe(true);
      expect(shown.replaceAll(' ', '')).not.toContain(large.slice(0, 8));
    }
    expect(scrubbedBeginning(scrub, `${large} `.repeat(3_000))).toMatch(/^\[redacted\]/);
    expect(scrubbedBeginning(scrub, large.repeat(3_000))).toContain(MASK);
  });

  test('costs no more than its beginning', () => {
    const searched: number[] = [];
    const text = (given: string): string => {
      searched.push(given.length);
      return given;
    };
    scrubbedBeginning({ text }, 'x'.repeat(3_000_000));
    expect(searched).toEqual([524_288]);
  });
});
