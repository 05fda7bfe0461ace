/**
 * The times of an approver rule, from what several layers of policy say.
 *
 * 1. The strictest counts: the shortest validity, the first reminder, the earliest end of what may be postponed.
 * 2. A layer whose deadline may not be postponed is not outvoted: its deadline is the end of it.
 */
import type { ApproverRule } from '../../contracts/schemas/policy.ts';

export interface StatedTimes {
  /** Undefined where the layer takes no time away. */
  readonly deadlineSeconds: number | undefined;
  readonly validForSeconds: number | undefined;
  readonly extendableToSeconds: number | undefined;
  readonly remindAfterSeconds: number | undefined;
}

/** What is not stated is not in the rule: digests of rules without times stay as they were. @param deadlineSeconds of them all */
export function ruleTimes(
  stated: readonly StatedTimes[],
  deadlineSeconds: number,
): Pick<ApproverRule, 'validForSeconds' | 'extendableToSeconds' | 'remindAfterSeconds'> {
  const validities = stated.flatMap(({ validForSeconds }) => validForSeconds ?? []);
  const reminders = stated.flatMap(({ remindAfterSeconds }) => remindAfterSeconds ?? []);
  const latest = Math.min(
    ...stated.map((times) => times.extendableToSeconds ?? times.deadlineSeconds ?? Number.POSITIVE_INFINITY),
  );
  const isExtendable = latest > deadlineSeconds && stated.some((times) => times.extendableToSeconds !== undefined);
  return {
    ...(validities.length === 0 ? {} : { validForSeconds: Math.min(...validities) }),
    ...(isExtendable ? { extendableToSeconds: latest } : {}),
    ...(reminders.length === 0 ? {} : { remindAfterSeconds: Math.min(...reminders) }),
  };
}

/** 24 hours, see docs/adr/0010. Apart from the judge, which no workflow needs in its bundle. */
export const DEFAULT_DEADLINE_SECONDS = 86_400;
