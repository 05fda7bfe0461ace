/** Makes runs in which approvals may be remembered, and such approvals. */
import { defined } from '../../../contracts/defined.ts';
import type { Judgement, ProposedCall } from '../../../contracts/schemas/call.ts';
import type { Decision, Remember } from '../../../contracts/schemas/request.ts';
import type { JsonObject } from '../../../contracts/schemas/json.ts';
import type { ApproverRule } from '../../../contracts/schemas/policy.ts';
import { accept, admit } from '../../../domain/request/decision.ts';
import { closeTurn, judgedAll } from '../../../domain/run/turn.ts';
import { proposed, type Run } from '../../../domain/state/run.ts';
import { remembered } from '../../../domain/request/standing.ts';
import { proposedCall } from './call.ts';
import { approval, shown } from './decision.ts';
import { askVerdict, judgement } from './judgement.ts';
import { POLICY_VERSION, runIds, START } from './run.ts';

export const ARGS: JsonObject = { path: 'notes.txt', content: 'hello' };

export function rememberRule(ids: string[] = ['ann', 'bob'], over: object = {}): ApproverRule {
  const remember: ('call' | 'arguments' | 'tool')[] = ['call', 'arguments', 'tool'];
  return { allOf: [{ layer: 'organisation', ids, groups: [], remember, ...over }] };
}

/** Adds the next turn of a run, with one call for each of the arguments. */
export function nextTurn(
  run: Run,
  args: readonly JsonObject[],
  over: Partial<Judgement> = {},
  at = START + 1_000,
): Run {
  const turn = run.turn + 1;
  const calls = args.map((each, index): ProposedCall =>
    proposedCall({ callId: `t${turn}.c${index}`, providerCallId: `p${index}`, arguments: each }),
  );
  const verdict = askVerdict({ approvers: rememberRule() });
  const judgements = calls.map(({ callId }) => judgement({ callId, verdict, ...over }));
  const next = proposed(closeTurn(run), calls, { inputTokens: 0, outputTokens: 0 }).run;
  return judgedAll(next, judgements, POLICY_VERSION, runIds(), at).run;
}

let ids = 0;
export function remembering(run: Run, callId: string, remember: Remember | undefined, who = 'ann'): Decision {
  const over = { ...shown(run, callId), decisionId: `r-${(ids += 1)}`, approver: { id: who, groups: [] } };
  return approval({ ...over, comment: 'seen', ...defined({ remember }) });
}

/**
 * Records a decision as the handler does.
 * @throws if the decision is refused
 */
export function decidedIn(run: Run, decision: Decision, at = START + 1_000, grant?: string) {
  const admission = admit(run, decision, runIds(), at);
  if (admission.kind !== 'accept') throw new Error(admission.kind === 'refuse' ? admission.code : 'a repeat');
  const change = accept(run, admission.state, decision, at);
  const after = remembered(change.run, decision.callId, at, grant);
  return { run: after.run, ack: change.ack, facts: [...change.facts, ...after.facts] };
}

export function codeFor(run: Run, decision: Decision, at = START + 1_000): string {
  const admission = admit(run, decision, runIds(), at);
  return admission.kind === 'refuse' ? admission.code : admission.kind;
}

export function statuses(run: Run): string[] {
  return run.calls.map(({ status }) => status);
}
