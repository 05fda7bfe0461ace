/** Ceilings of an operator: what is not stated bounds nothing beyond what a spec may say. */
import { describe, expect, test } from '@jest/globals';
import { Config } from '../../../../contracts/schemas/config.ts';
import { Limits } from '../../../../contracts/schemas/run-spec.ts';

describe('ceilings', () => {
  test('are none where the operator states none: the defaults of a spec are no ceilings', () => {
    expect(Config.parse({}).limits).toEqual({});
    expect(Config.parse({ limits: { turns: 500 } }).limits).toEqual({ turns: 500 });
  });

  test.each(Object.keys(Limits.shape))('%s may be bounded, within the same range as in a spec', (name) => {
    expect(Config.safeParse({ limits: { [name]: 1_000_000_000 } }).success).toBe(
      Limits.safeParse({ [name]: 1_000_000_000 }).success,
    );
    expect(Config.safeParse({ limits: { [name]: 300 } }).success).toBe(Limits.safeParse({ [name]: 300 }).success);
    expect(Config.safeParse({ limits: { [name]: 0 } }).success).toBe(false);
  });

  test('an unknown limit is refused', () => {
    expect(Config.safeParse({ limits: { turn: 5 } }).success).toBe(false);
  });
});
