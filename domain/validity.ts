/**
 * How long an approval holds: consent to a call is consent to it now, or soon.
 *
 * 1. Counted from the decision that completed it; of several rules the shortest counts.
 */
import type { ApproverRule } from '../contracts/schemas/policy.ts';

/**
 * When the approval ceased to hold, where it has. Epoch ms.
 * @param decidedAt of the decision that completed it
 */
export function lapsedSince(decidedAt: number, now: number, ...rules: readonly ApproverRule[]): number | undefined {
  const stated = rules.flatMap(({ validForSeconds }) => validForSeconds ?? []);
  if (stated.length === 0) return undefined;
  const end = decidedAt + Math.min(...stated) * 1_000;
  return now < end ? undefined : end;
}

/** For people and the ledger. @param end epoch ms */
export function describeLapse(end: number): string {
  return `The approval held until ${new Date(end).toISOString()}; it needs a fresh one.`;
}
