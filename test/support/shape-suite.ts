/** What a shape that is checked by hand must be: that of its schema, on valid messages, nearly valid ones, and anything. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { z } from 'zod';
import type { Parsed } from '../../domain/shapes/fields.ts';

export interface Shape {
  readonly name: string;
  readonly parse: (value: unknown) => Parsed<unknown>;
  readonly schema: z.ZodType;
  readonly valid: fc.Arbitrary<object>;
  /** Valid ones with one thing wrong. */
  readonly nearly: fc.Arbitrary<unknown>;
  /** What is refused by hand, and not by the schema. */
  readonly refusedBesides?: (value: unknown) => boolean;
}

export function describeShape({ name, parse, schema, valid, nearly, refusedBesides = () => false }: Shape): void {
  const agrees = (value: unknown): void => {
    const byHand = parse(value);
    const bySchema = schema.safeParse(value);
    expect(byHand.kind === 'ok').toBe(bySchema.success && !refusedBesides(value));
    if (byHand.kind === 'ok') expect(byHand.value).toEqual(bySchema.data);
  };

  describe(`the shape of ${name}`, () => {
    test('takes every valid message, with the same defaults as the schema', () => {
      fc.assert(
        fc.property(valid, (value) => {
          expect(parse(value).kind).toBe('ok');
          agrees(value);
        }),
      );
    });

    test('S2.3: agrees with the schema on messages with one thing wrong', () => {
      fc.assert(fc.property(nearly, agrees), { numRuns: 500 });
    });

    test('agrees with the schema on anything', () => {
      fc.assert(fc.property(fc.anything(), agrees), { numRuns: 100 });
    });
  });
}
