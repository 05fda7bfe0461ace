/** Puts cases to the very judge that runs ask. */
import { calledTool, type PolicyCase, type PolicyCases } from '../contracts/schemas/policy-cases.ts';
import type { Verdict } from '../contracts/schemas/call.ts';
import type { Policy } from '../contracts/schemas/policy.ts';
import { describeRule } from '../domain/approver.ts';
import { judge } from '../domain/policy.ts';

export interface Judging {
  readonly policy: Policy;
  /** Server name → does the operator trust its annotations? */
  readonly trusted: Readonly<Record<string, boolean>>;
}

export interface CaseResult {
  readonly group: string;
  readonly name: string;
  readonly ok: boolean;
  /** What is otherwise than the case says: `expect: ask, not allow`. */
  readonly differences: readonly string[];
  readonly rules: readonly string[];
}

export function runCases({ groups }: PolicyCases, configured: Judging): CaseResult[] {
  return groups.flatMap(({ name: group, policy, trusted, cases }) => {
    const judging = {
      policy: policy ?? configured.policy,
      trusted: trusted === undefined ? configured.trusted : Object.fromEntries(trusted.map((name) => [name, true])),
    };
    return cases.map((each) => {
      const verdict = verdictOn(judging, each);
      const differences = differencesOf(each, verdict);
      return { group, name: each.name, ok: differences.length === 0, differences, rules: verdict.rules };
    });
  });
}

export function verdictOn(
  { policy, trusted }: Judging,
  { call, annotations, initiator, run }: Pick<PolicyCase, 'call' | 'annotations' | 'initiator' | 'run'>,
): Verdict {
  const { server, tool } = calledTool(call);
  const serverTrusted = Object.hasOwn(trusted, server) && trusted[server] === true;
  return judge({ organisation: policy, run }, { server, tool, annotations, serverTrusted }, initiator);
}

function differencesOf(wanted: PolicyCase, verdict: Verdict): string[] {
  const differences: string[] = [];
  const compare = (what: string, want: string | undefined, is: string): void => {
    if (want !== undefined && want !== is) differences.push(`${what}: ${is}, not ${want}`);
  };
  compare('verdict', wanted.expect, verdict.kind);
  compare('rules', wanted.rules?.join(', '), verdict.rules.join(', '));
  const isAsked = verdict.kind === 'ask';
  compare('approvers', wanted.approvers, isAsked ? describeRule(verdict.approvers) : 'nobody is asked');
  compare('deadlineSeconds', wanted.deadlineSeconds?.toString(), isAsked ? `${verdict.deadlineSeconds}` : 'none');
  return differences;
}
