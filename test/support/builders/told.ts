/** What people say of requests for consent, and what a run makes of it: each as the handlers of updates do it. */
import type { ApproverRule } from '../../../contracts/schemas/policy.ts';
import type { Decision } from '../../../contracts/schemas/request.ts';
import { accept, admit } from '../../../domain/request/decision.ts';
import type { Change, Run } from '../../../domain/state/run.ts';
import { identicalCalls } from './call.ts';
import { answer, approval, extension, rejection, shown, withdrawal } from './decision.ts';
import { askVerdict } from './judgement.ts';
import { judgedRun, runIds, START } from './run.ts';

/** Makes a run whose calls are asked for under this rule. */
export function askedUnder(approvers: ApproverRule, deadlineSeconds = 3_600, calls = 1): Run {
  return judgedRun(identicalCalls(calls), () => ({ verdict: askVerdict({ approvers, deadlineSeconds }) }));
}

const MAKE = { approve: approval, reject: rejection, withdraw: withdrawal, extend: extension, respond: answer };
let ids = 0;

/** Makes the decision of somebody who has read the request, each under an id of its own. */
export function by(id: string, run: Run, kind: Decision['kind'] = 'approve', over: object = {}): Decision {
  const callId = 'callId' in over && typeof over.callId === 'string' ? over.callId : 't1.c0';
  ids += 1;
  return MAKE[kind]({ ...shown(run, callId), decisionId: `by-${ids}`, approver: { id, groups: [] }, ...over });
}

export interface Told extends Change {
  /** The code of a refusal, the status that the acknowledgement names, or `again` and the status of the first answer. */
  readonly answer: string;
  readonly message?: string;
}

/** Tells a run a decision; one that is refused changes nothing. */
export function told(run: Run, decision: Decision, at = START, endsAt?: number): Told {
  const admission = admit(run, decision, runIds(), at, endsAt);
  if (admission.kind === 'refuse') return { run, facts: [], answer: admission.code, message: admission.message };
  if (admission.kind === 'repeat') return { run, facts: [], answer: `again ${admission.ack.status}` };
  const { ack, ...change } = accept(run, admission.state, decision, at);
  return { ...change, answer: ack.status };
}
