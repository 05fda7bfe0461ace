/**
 * Who answers what is asked of a call besides consent, where nobody was asked for consent.
 *
 * 1. Those whom policy names where it names nobody in particular (`policy.approvers`), of each layer; else whoever started the run.
 */
import type { ApproverRule, PolicyInput } from '../contracts/schemas/policy.ts';
import { clauseOf, initiatorRule } from './clause.ts';
import { DEFAULT_DEADLINE_SECONDS } from './default-deadline.ts';

export interface Answerers {
  readonly approvers: ApproverRule;
  readonly deadlineSeconds: number;
}

export function answerersOf(
  { organisation, run }: { readonly organisation: PolicyInput; readonly run?: PolicyInput | undefined },
  initiatorId: string,
): Answerers {
  const clauses = (
    [
      ['organisation', organisation],
      ['run', run],
    ] as const
  ).flatMap(([layer, policy]) =>
    policy?.approvers === undefined ? [] : [clauseOf(layer, policy.approvers, initiatorId)],
  );
  return {
    approvers: {
      allOf: clauses.length > 0 ? clauses : initiatorRule(initiatorId).allOf,
      ...(clauses.length > 1 ? { together: true as const } : {}),
    },
    deadlineSeconds: Math.min(
      organisation.deadlineSeconds ?? DEFAULT_DEADLINE_SECONDS,
      run?.deadlineSeconds ?? Number.POSITIVE_INFINITY,
    ),
  };
}
