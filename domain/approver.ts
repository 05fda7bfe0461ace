/**
 * Who may decide, and when enough have.
 *
 * 1. A clause without ids and groups is met by nobody, and so is the rule that it stands in (INV-G4).
 * 2. People are counted, not votes: nobody counts twice for a clause (E-2).
 */
import type { Approver } from '../contracts/schemas/decision.ts';
import type { ApproverClause, ApproverRule } from '../contracts/schemas/policy.ts';

/**
 * May this person say anything about it? Whoever counts for one clause may; of a rule that was recorded before several could meet
 * it together, only who counts for all: what was refused then must stay refused in replay (INV-D1).
 */
export function mayDecide(rule: ApproverRule, approver: Approver): boolean {
  if (!canBeMet(rule)) return false;
  const isNamed = (clause: ApproverClause): boolean => counts(clause, approver);
  return rule.together === true ? rule.allOf.some(isNamed) : rule.allOf.every(isNamed);
}

/** Have these people, together, met every clause? */
export function isMet(rule: ApproverRule, approvers: readonly Approver[]): boolean {
  return canBeMet(rule) && rule.allOf.every((clause) => missing(clause, approvers) === 0);
}

/** Would one more bring the rule nearer to being met? */
export function isWanted(rule: ApproverRule, approvers: readonly Approver[], approver: Approver): boolean {
  return rule.allOf.some((clause) => missing(clause, approvers) > missing(clause, [...approvers, approver]));
}

/** So many more people are needed, at least. */
export function stillNeeded(rule: ApproverRule, approvers: readonly Approver[]): number {
  return Math.max(0, ...rule.allOf.map((clause) => missing(clause, approvers)));
}

function canBeMet({ allOf }: ApproverRule): boolean {
  return allOf.length > 0 && allOf.every(({ ids, groups }) => ids.length + groups.length > 0);
}

function missing(clause: ApproverClause, approvers: readonly Approver[]): number {
  const people = new Set(approvers.filter((approver) => counts(clause, approver)).map(({ id }) => id));
  return Math.max(0, (clause.need ?? 1) - people.size);
}

function counts({ ids, groups, not }: ApproverClause, approver: Approver): boolean {
  if (not?.includes(approver.id) === true) return false;
  return ids.includes(approver.id) || groups.some((group) => approver.groups.includes(group));
}

/** For people: `2 of ann, group:ops, not ben, may edit`. */
export function describeRule(rule: ApproverRule): string {
  return rule.allOf.map(describeClause).join(' and ');
}

function describeClause({ ids, groups, need, not = [], may = [] }: ApproverClause): string {
  const who = [...ids, ...groups.map((group) => `group:${group}`)].join(' or ') || 'nobody';
  return `${need === undefined ? '' : `${need} of `}${who}${not.length === 0 ? '' : `, not ${not.join(' or ')}`}${may.length === 0 ? '' : `, may ${may.join(' and ')}`}`;
}
