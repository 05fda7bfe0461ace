import type { Judgement, Verdict } from '../../../contracts/schemas/call.ts';
import type { ApproverClause, ApproverRule } from '../../../contracts/schemas/policy.ts';
import { toolTarget } from './tool.ts';

/** Makes a clause of the organisation that these people meet. */
export function clauseFor(ids: readonly string[], over: Partial<ApproverClause> = {}): ApproverClause {
  return { layer: 'organisation', ids: [...ids], groups: [], ...over };
}

export function approverRule(ids: readonly string[] = ['ann'], groups: readonly string[] = []): ApproverRule {
  return { allOf: [clauseFor(ids, { groups: [...groups] })] };
}

type Of<Kind extends Verdict['kind']> = Extract<Verdict, { kind: Kind }>;

export function askVerdict(over: Partial<Of<'ask'>> = {}): Of<'ask'> {
  return { kind: 'ask', rules: ['organisation/default'], approvers: approverRule(), deadlineSeconds: 3_600, ...over };
}

export function allowVerdict(over: Partial<Of<'allow'>> = {}): Of<'allow'> {
  return { kind: 'allow', rules: ['organisation/strategy/never'], ...over };
}

export function denyVerdict(over: Partial<Of<'deny'>> = {}): Of<'deny'> {
  return {
    kind: 'deny',
    rules: ['organisation/servers/files/default'],
    code: 'POLICY_DENIED',
    message: 'files/write_file is denied.',
    ...over,
  };
}

export function judgement(over: Partial<Judgement> = {}): Judgement {
  return { callId: 't1.c0', verdict: askVerdict(), target: toolTarget(), repeatable: false, ...over };
}
