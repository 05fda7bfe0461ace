/** Money is counted in whole millionths, never in fractions, and never too low; where nothing is counted no step is taken (INV-G4). */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { startedFact } from '../../../../domain/request/digest.ts';
import { amountText, costOf, limitsState, millionthsOf, reachedLimit, spentOf } from '../../../../domain/run/limits.ts';
import { proposed, type Run, startRun } from '../../../../domain/state/run.ts';
import { preparedRun } from '../../../support/builders/prepared-run.ts';
import { limits } from '../../../support/builders/run-spec.ts';
import { START } from '../../../support/builders/run.ts';

const price = { input: 2_500_000, output: 10_000_000, currency: 'EUR' };
const tokens = (inputTokens: number, outputTokens: number) => ({ inputTokens, outputTokens });
const spending = (spent: number): Run => ({ ...startRun(START), spent });

describe('what a step costs', () => {
  test('is its tokens at the price of a million', () => {
    expect(costOf(price, tokens(1_000_000, 0))).toBe(2_500_000);
    expect(costOf(price, tokens(2, 1))).toBe(15);
    expect(costOf(price, tokens(0, 0))).toBe(0);
  });

  test('is rounded up to a whole millionth, once for each step', () => {
    expect(costOf(price, tokens(1, 0))).toBe(3);
    expect(costOf({ ...price, input: 1 }, tokens(1, 0))).toBe(1);
    expect(costOf({ ...price, input: 0, output: 0 }, tokens(9, 9))).toBe(0);
  });

  test('is exact where numbers are not', () => {
    const dear = { input: 999_999_999_999, output: 0, currency: 'EUR' };
    expect(costOf(dear, tokens(4_999_999, 0))).toBe(4_999_998_999_996);
  });

  test('is never less than was spent, and less than a millionth more', () => {
    const count = fc.integer({ min: 0, max: 10_000_000 });
    const tag = fc.integer({ min: 0, max: 100_000_000 });
    fc.assert(
      fc.property(count, count, tag, tag, (inputs, outputs, input, output) => {
        const exact = BigInt(inputs) * BigInt(input) + BigInt(outputs) * BigInt(output);
        const counted = BigInt(costOf({ input, output, currency: 'EUR' }, tokens(inputs, outputs))) * 1_000_000n;
        expect(counted >= exact && counted - exact < 1_000_000n).toBe(true);
      }),
    );
  });
});

describe('an amount', () => {
  test.each([
    ['0', 0, '0.00'],
    ['5', 5_000_000, '5.00'],
    ['2.5', 2_500_000, '2.50'],
    ['0.000001', 1, '0.000001'],
    ['12.34567', 12_345_670, '12.34567'],
    ['100000', 100_000_000_000, '100000.00'],
  ])('%s is %d millionths, shown as %s', (text, millionths, shown) => {
    expect(millionthsOf(text)).toBe(millionths);
    expect(amountText(millionths)).toBe(shown);
  });

  test('comes back from what is shown of it', () => {
    fc.assert(
      fc.property(fc.maxSafeNat(), (millionths) => expect(millionthsOf(amountText(millionths))).toBe(millionths)),
    );
  });
});

describe('a limit of spend', () => {
  const given = limits({ spend: '0.00001' });

  test('is reached exactly there, and not before', () => {
    expect(reachedLimit(spending(9), given, START)).toBeUndefined();
    expect(reachedLimit(spending(10), given, START)).toEqual({ limit: 'spend', value: 10 });
    expect(reachedLimit(spending(11), given, START)).toEqual({ limit: 'spend', value: 10 });
    expect(reachedLimit(spending(11), limits(), START)).toBeUndefined();
  });

  test('INV-G4: is reached from the start where nothing is counted', () => {
    expect(reachedLimit(startRun(START), given, START)).toEqual({ limit: 'spend', value: 10 });
  });

  test('adds up what steps cost, and the ledger says how', () => {
    const first = proposed(spending(0), [], tokens(2, 1), 15);
    expect(first.facts).toMatchObject([{ kind: 'turn.proposed', cost: 15 }]);
    expect(proposed(first.run, [], tokens(2, 1), 4).run.spent).toBe(19);
    expect(proposed(startRun(START), [], tokens(2, 1), 4).run.spent).toBe(4);
    expect(proposed(startRun(START), [], tokens(2, 1)).run).not.toHaveProperty('spent');
    expect(startedFact(preparedRun({ price }), { name: 'clerk', model: 'scripted' })).toMatchObject({ price });
  });
});

test('how close a run is to each limit can be seen', () => {
  const run = { ...spending(7), turn: 2, totalCalls: 3, usage: tokens(20, 4) };
  const given = limits({ turns: 5, calls: 6, tokens: 100, wallClockSeconds: 60, spend: '1' });
  expect(limitsState(run, given)).toEqual({
    turns: { used: 2, most: 5 },
    calls: { used: 3, most: 6 },
    tokens: { used: 24, most: 100 },
    spend: { used: 7, most: 1_000_000 },
    endsBy: '2026-01-01T00:01:00.000Z',
  });
  expect(limitsState(startRun(START), limits())).not.toHaveProperty('spend');
  expect(limitsState(startRun(START), given).spend).toEqual({ used: 0, most: 1_000_000 });
  expect(spentOf(run, price)).toEqual({ spent: { millionths: 7, currency: 'EUR' } });
  expect([spentOf(run, undefined), spentOf(startRun(START), price)]).toEqual([{}, {}]);
});
