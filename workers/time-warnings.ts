/** Times of a policy that never come: what is planned for the deadline or later does not happen. */
import { pathText } from '../contracts/schemas/issues.ts';
import type { ApproverList, RequestTimes } from '../contracts/schemas/policy.ts';
import { DEFAULT_DEADLINE_SECONDS } from '../domain/default-deadline.ts';

/** What stands in a layer, a tool's entry or a rule. */
export interface Entry extends RequestTimes {
  readonly approvers?: ApproverList | undefined;
}

/** @param whole with what the layer says where the entry is silent; only what the entry brings about is said of it */
export function timeWarnings(whole: Entry, own: Entry, path: readonly (string | number)[]): string[] {
  const { deadlineSeconds = DEFAULT_DEADLINE_SECONDS, extendableToSeconds = 0 } = whole;
  const end = Math.max(deadlineSeconds, extendableToSeconds);
  const isMine = (part: keyof Entry): boolean => own[part] !== undefined || own.deadlineSeconds !== undefined;
  const warnings: string[] = [];
  const warn = (part: keyof Entry, field: string, why: string): void => {
    if (isMine(part)) warnings.push(`${pathText([...path, ...field.split('.')])} ${why}`);
  };
  if (whole.extendableToSeconds !== undefined && extendableToSeconds <= deadlineSeconds)
    warn(
      'extendableToSeconds',
      'extendableToSeconds',
      `is not after the deadline (${deadlineSeconds} s): nobody can postpone it.`,
    );
  if (whole.remindAfterSeconds !== undefined && whole.remindAfterSeconds >= end)
    warn('remindAfterSeconds', 'remindAfterSeconds', `is not before the deadline (${end} s): nobody is ever reminded.`);
  const afterSeconds = whole.approvers?.escalate?.afterSeconds;
  if (afterSeconds !== undefined && afterSeconds >= end)
    warn('approvers', 'approvers.escalate.afterSeconds', `is not before the deadline (${end} s): it never escalates.`);
  return warnings;
}
