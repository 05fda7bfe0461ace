/**
 * Whether what somebody said of a call still counts as the call leaves. That they said it, and of what, is proven apart.
 *
 * Pure. What was shown then says who was asked then; a call may wait for weeks, and policy, tool and people change.
 * 1. It counts of the tool that is called, by whoever would be asked now, as long as the rules of then and now let an approval hold.
 */
import type { DispatchInput } from '../../contracts/dispatch.ts';
import type { Verdict } from '../../contracts/schemas/call.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import type { ApproverRule } from '../../contracts/schemas/policy.ts';
import { type Answerers, answerersOf } from '../../domain/answerer.ts';
import type { Voter } from '../../domain/approver.ts';
import { lapsedSince } from '../../domain/validity.ts';

type Judged = Exclude<Verdict, { kind: 'deny' }>;

/** As the call leaves. */
export interface Leaving extends Answerers {
  /** Of the tool that is called. */
  readonly definitionHash: string;
  /** Epoch ms. */
  readonly at: number;
}

/** Who would be asked of this call now. */
export function answerersNow(
  { run, runPolicy }: Pick<DispatchInput, 'run' | 'runPolicy'>,
  { policy }: Pick<Config, 'policy'>,
  verdict: Judged,
): Answerers {
  const { approvers, deadlineSeconds } =
    verdict.kind === 'ask' ? verdict : answerersOf({ organisation: policy, run: runPolicy }, run.initiator.id);
  return { approvers, deadlineSeconds };
}

/** What was shown, and when the run took the answer. */
export interface WordThen {
  readonly approvers: ApproverRule;
  readonly definitionHash: string;
  readonly openedAt: string;
  readonly decidedAt: string;
}

/** Who said it, and how long after they were asked. */
export function voterOf(voter: Voter, { openedAt, decidedAt }: Pick<WordThen, 'openedAt' | 'decidedAt'>): Voter {
  return { ...voter, after: Date.parse(decidedAt) - Date.parse(openedAt) };
}

export type Spent =
  | { readonly kind: 'redefined' }
  | { readonly kind: 'others-asked' }
  /** Epoch ms. */
  | { readonly kind: 'lapsed'; readonly end: number };

/** Why it does not count any more; undefined where it does. @param isEnough whether those who said it meet a rule */
export function spentNow(then: WordThen, now: Leaving, isEnough: (rule: ApproverRule) => boolean): Spent | undefined {
  if (then.definitionHash !== now.definitionHash) return { kind: 'redefined' };
  if (!isEnough(now.approvers)) return { kind: 'others-asked' };
  const end = lapsedSince(Date.parse(then.decidedAt), now.at, then.approvers, now.approvers);
  return end === undefined ? undefined : { kind: 'lapsed', end };
}
