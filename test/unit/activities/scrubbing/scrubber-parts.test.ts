/** A large text is searched part by part, with the result of a search of all of it (INV-S1, docs/adr/0089). */
import { randomBytes } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { createScrubber, createSecretSearch, spansByParts } from '../../../../activities/scrubbing/scrubber.ts';
import { ENCODINGS } from '../../../support/canary/scan.ts';

const KIB = 1_024;
const SENTENCE = 'The quick brown fox jumps over 12 lazy dogs; it was seen at 10:42. ';
const large = randomBytes(600).toString('base64url');
const SECRETS = [randomBytes(32).toString('base64url'), `Bearer ${large}`];

const base64 = (text: string): string => Buffer.from(text).toString('base64');
const prose = (size: number): string => SENTENCE.repeat(Math.ceil(size / SENTENCE.length)).slice(0, size);

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
    expect(Buffer.from(await scrub.largeBytes(bytes)).equals(scrub.bytes(bytes))).toBe(true);
    expect(bytes.toString()).toBe(text);
  });

  test('lets the process do something else between any two parts', async () => {
    const scrub = createScrubber(SECRETS);
    let others = 0;
    let isOver = false;
    const other = (): void => {
      others += 1;
      if (!isOver) setImmediate(other);
    };
    setImmediate(other);
    await scrub.largeValue([prose(4_096 * KIB)]);
    isOver = true;
    expect(others).toBeGreaterThanOrEqual(7);
  });
});
