/**
 * The times of an approver rule combine what several layers of policy state.
 *
 * 1. The strictest counts: the shortest validity, the first reminder, the earliest end of a postponement.
 * 2. A layer whose deadline may not be postponed is not overruled: its deadline bounds every postponement.
 */
import { defined } from '../../contracts/defined.ts';
import type { ApproverRule, RequestTimes } from '../../contracts/schemas/policy.ts';

/**
 * An unstated time stays out, so that digests of rules without times do not change.
 * @param deadlineSeconds the shortest deadline of all layers
 */
export function ruleTimes(
  stated: readonly RequestTimes[],
  deadlineSeconds: number,
): Pick<ApproverRule, 'validForSeconds' | 'extendableToSeconds' | 'remindAfterSeconds'> {
  const latest = Math.min(
    ...stated.map((times) => times.extendableToSeconds ?? times.deadlineSeconds ?? Number.POSITIVE_INFINITY),
  );
  const isExtendable = latest > deadlineSeconds && stated.some((times) => times.extendableToSeconds !== undefined);
  return defined({
    validForSeconds: least(stated.flatMap(({ validForSeconds }) => validForSeconds ?? [])),
    extendableToSeconds: isExtendable ? latest : undefined,
    remindAfterSeconds: least(stated.flatMap(({ remindAfterSeconds }) => remindAfterSeconds ?? [])),
  });
}

function least(seconds: readonly number[]): number | undefined {
  return seconds.length === 0 ? undefined : Math.min(...seconds);
}

/** 24 hours, see docs/adr/0010. The constant stands apart from the judge, which no workflow needs in its bundle. */
export const DEFAULT_DEADLINE_SECONDS = 86_400;
