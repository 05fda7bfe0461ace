/** Judges policy cases with the same judge that runs use. */
import { callIdOf } from '../../contracts/names.ts';
import type { Verdict } from '../../contracts/schemas/call.ts';
import type { PolicyCase, PolicyCases } from '../../contracts/schemas/policy-cases.ts';
import { describeRule } from '../../domain/policy/approvers.ts';
import type { Organisation } from '../../domain/policy/judge.ts';
import { splitTool } from '../../domain/text/match.ts';
import { OfflineJudge, type Traced } from '../../workers/config/offline-judge.ts';

interface Judging {
  readonly policy: Organisation;
  /** Server name → true if the operator trusts the server's annotations. */
  readonly trusted: Readonly<Record<string, boolean>>;
}

type JudgedCase = Omit<PolicyCase, 'name' | 'expect' | 'rules' | 'told' | 'approvers' | 'deadlineSeconds'>;

export interface CaseResult {
  readonly group: string;
  readonly name: string;
  readonly ok: boolean;
  /** Differences from what the case expects, such as `expect: ask, not allow`. */
  readonly differences: readonly string[];
  readonly rules: readonly string[];
}

export async function runCases({ groups }: PolicyCases, configured: Judging): Promise<CaseResult[]> {
  const judge = new OfflineJudge();
  const results: CaseResult[] = [];
  for (const { name: group, policy, trusted, cases } of groups) {
    const judging = {
      policy: policy ?? configured.policy,
      trusted: trusted === undefined ? configured.trusted : Object.fromEntries(trusted.map((name) => [name, true])),
    };
    for (const each of cases) {
      const { verdict } = await verdictOn(judging, each, judge);
      const differences = differencesOf(each, verdict);
      results.push({ group, name: each.name, ok: differences.length === 0, differences, rules: verdict.rules });
    }
  }
  return results;
}

export async function verdictOn(
  { policy, trusted }: Judging,
  asked: JudgedCase,
  judge = new OfflineJudge(),
): Promise<Traced> {
  const { call, annotations, initiator: id, initiatorGroups: groups, tenant, args, turn, earlier, run, at } = asked;
  const { server, tool } = splitTool(call);
  const serverTrusted = Object.hasOwn(trusted, server) && trusted[server] === true;
  return await judge.judge({
    organisation: policy,
    run,
    tool: { server, tool, annotations, serverTrusted },
    inputs: {
      call: { server, tool, callId: callIdOf(turn, 0), annotations: serverTrusted ? (annotations ?? {}) : undefined },
      args,
      run: { id: 'policy-case', tenant, turn },
      initiator: { id, groups, tenant },
      earlier: { tools: earlier },
    },
    now: at === undefined ? Date.now() : Date.parse(at),
  });
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
  if (verdict.kind === 'allow') return verdict.breakGlass?.reason ?? '';
  return (verdict.explain ?? []).map(({ text }) => text).join(' ');
}
