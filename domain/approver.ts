/** Who may decide. */
import type { Approver } from '../contracts/schemas/decision.ts';
import type { ApproverClause, ApproverRule } from '../contracts/schemas/policy.ts';

/** A decider must satisfy every clause; a clause without ids and groups is satisfied by nobody (INV-G4). */
export function isEntitled(rule: ApproverRule, approver: Approver): boolean {
  return rule.allOf.length > 0 && rule.allOf.every((clause) => satisfies(clause, approver));
}

function satisfies(clause: ApproverClause, approver: Approver): boolean {
  return clause.ids.includes(approver.id) || clause.groups.some((group) => approver.groups.includes(group));
}

/** For people: `ann, group:ops`. */
export function describeRule(rule: ApproverRule): string {
  return rule.allOf
    .map(({ ids, groups }) => [...ids, ...groups.map((group) => `group:${group}`)].join(' or ') || 'nobody')
    .join(' and ');
}
