/** Puts cases to the very judge that runs ask. */
import { ConditionClock, Conditions } from '../activities/policy/conditions.ts';
import type { Verdict } from '../contracts/schemas/call.ts';
import { calledTool, type PolicyCase, type PolicyCases } from '../contracts/schemas/policy-cases.ts';
import type { Policy } from '../contracts/schemas/policy.ts';
import { describeRule } from '../domain/approver.ts';
import { callIdOf } from '../contracts/ids.ts';
import { judge } from '../domain/policy.ts';
import { type Considered, consider } from '../domain/policy-layer.ts';

export interface Judging {
  readonly policy: Policy;
  /** Server name → does the operator trust its annotations? */
  readonly trusted: Readonly<Record<string, boolean>>;
}

export type JudgedCase = Omit<PolicyCase, 'name' | 'expect' | 'rules' | 'told' | 'approvers' | 'deadlineSeconds'>;

export interface CaseResult {
  readonly group: string;
  readonly name: string;
  readonly ok: boolean;
  /** What is otherwise than the case says: `expect: ask, not allow`. */
  readonly differences: readonly string[];
  readonly rules: readonly string[];
}

export interface LayerTrace {
  readonly layer: 'organisation' | 'run';
  /** The rules about the tool, up to the one that decides. */
  readonly considered: readonly Considered[];
}

export async function runCases({ groups }: PolicyCases, configured: Judging): Promise<CaseResult[]> {
  const conditions = new Conditions();
  const results: CaseResult[] = [];
  for (const { name: group, policy, trusted, cases } of groups) {
    const judging = {
      policy: policy ?? configured.policy,
      trusted: trusted === undefined ? configured.trusted : Object.fromEntries(trusted.map((name) => [name, true])),
    };
    for (const each of cases) {
      const { verdict } = await verdictOn(judging, each, conditions);
      const differences = differencesOf(each, verdict);
      results.push({ group, name: each.name, ok: differences.length === 0, differences, rules: verdict.rules });
    }
  }
  return results;
}

/** The verdict, and how each layer came to its part of it. */
export async function verdictOn(
  { policy, trusted }: Judging,
  asked: JudgedCase,
  conditions: Conditions = new Conditions(),
): Promise<{ verdict: Verdict; layers: LayerTrace[] }> {
  const { call, annotations, initiator: id, initiatorGroups: groups, tenant, args, turn, earlier, run } = asked;
  const { server, tool } = calledTool(call);
  const serverTrusted = Object.hasOwn(trusted, server) && trusted[server] === true;
  const called = { server, tool, annotations, serverTrusted };
  const inputs = {
    call: { server, tool, callId: callIdOf(turn, 0), annotations: serverTrusted ? (annotations ?? {}) : undefined },
    args,
    run: { id: 'policy-case', tenant, turn },
    initiator: { id, groups, tenant },
    earlier: { tools: earlier },
  };
  return await conditions.asked([policy, run], inputs, new ConditionClock(), (ask) => ({
    verdict: judge({ organisation: policy, run }, called, id, ask),
    layers: [
      { layer: 'organisation', considered: consider(policy, called, ask) },
      ...(run === undefined ? [] : [{ layer: 'run' as const, considered: consider(run, called, ask) }]),
    ],
  }));
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
  const told = toldOf(verdict);
  if (wanted.told !== undefined && !told.includes(wanted.told)) differences.push(`told: ${told}, not ${wanted.told}`);
  return differences;
}

function toldOf(verdict: Verdict): string {
  if (verdict.kind === 'deny') return verdict.message;
  return verdict.kind === 'ask' ? (verdict.explain ?? []).map(({ text }) => text).join(' ') : '';
}
