/**
 * What model steps cost, in whole millionths of one currency: no fraction is ever added up.
 *
 * 1. A step is rounded up: what is counted is never less than what was spent.
 */
import type { ModelPrice } from '../contracts/activities.ts';
import type { Spent } from '../contracts/schemas/run-state.ts';
import type { Usage } from '../contracts/schemas/transcript.ts';
import type { Run } from './run.ts';

const MILLION = 1_000_000n;

/** @returns millionths, for the tokens of one step */
export function costOf({ input, output }: ModelPrice, { inputTokens, outputTokens }: Usage): number {
  const exact = BigInt(inputTokens) * BigInt(input) + BigInt(outputTokens) * BigInt(output);
  return Number((exact + MILLION - 1n) / MILLION);
}

/** What a run has spent, as it is shown; absent where its model has no price. */
export function spentOf({ spent }: Run, price: ModelPrice | undefined): { readonly spent?: Spent } {
  return spent === undefined || price === undefined ? {} : { spent: { millionths: spent, currency: price.currency } };
}

/** @param amount decimal, at most six digits after the point, as the configuration and a spec have it */
export function millionthsOf(amount: string): number {
  const fraction = amount.split('.')[1] ?? '';
  return Number(amount.replace('.', '') + '0'.repeat(6 - fraction.length));
}

/** As a price tag has it: two digits after the point, more where they say something. */
export function amountText(millionths: number): string {
  const digits = String(millionths).padStart(7, '0');
  const fraction = digits.slice(-6).replace(/0{1,4}$/, '');
  return `${digits.slice(0, -6)}.${fraction}`;
}
