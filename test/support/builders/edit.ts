/** Makes requests whose arguments may be edited, and edits of them. */
import type { Judgement } from '../../../contracts/schemas/call.ts';
import type { JsonObject } from '../../../contracts/schemas/json.ts';
import type { ApproverRule } from '../../../contracts/schemas/policy.ts';
import { Limits } from '../../../contracts/schemas/run-spec.ts';
import { accept, admit } from '../../../domain/request/decision.ts';
import { acceptEdit, refuseEdit } from '../../../domain/request/edit.ts';
import type { EditDecision, Run } from '../../../domain/state/run.ts';
import { identicalCalls } from './call.ts';
import { approval, edit, shown } from './decision.ts';
import { askVerdict, judgement } from './judgement.ts';
import { judgedRun, POLICY_VERSION, runIds, START } from './run.ts';

const limits = Limits.parse({});
export const rule = (ids: string[], over: object = {}): ApproverRule => ({
  allOf: [{ layer: 'organisation', ids, groups: [], may: ['edit'], ...over }],
});
export const askedOf = (approvers: ApproverRule, calls = 1): Run =>
  judgedRun(identicalCalls(calls), () => ({ verdict: askVerdict({ approvers }) }));
export const ONE = askedOf(rule(['ann', 'bob']));
export const TWO = askedOf(rule(['ann', 'bob', 'zoe'], { need: 2 }));
export const SMALL: JsonObject = { path: 'notes.txt', content: 'hi' };

let ids = 0;
export const editOf = (run: Run, args: JsonObject = SMALL, who = 'ann'): EditDecision =>
  edit(args, { ...shown(run, 't1.c0'), decisionId: `e-${(ids += 1)}`, approver: { id: who, groups: ['x'] } });
export const plainOf = (run: Run, who: string) =>
  approval({ ...shown(run, 't1.c0'), decisionId: `p-${(ids += 1)}`, approver: { id: who, groups: [] } });

function judgedAs(over: Partial<Judgement>) {
  return { judgement: judgement(over), policyVersion: POLICY_VERSION };
}

/** Records an edit as the handler does: admitted, checked, judged, recorded. */
export function edited(run: Run, decision: EditDecision, over: Partial<Judgement> = {}, at = START + 1_000) {
  const admission = admit(run, decision, runIds(), at);
  if (admission.kind === 'refuse') return admission;
  if (admission.kind === 'repeat') throw new Error('not a repeat');
  const early = refuseEdit(run, admission.state, decision, limits);
  if (early !== undefined) return early;
  const verdict = over.verdict ?? askVerdict({ approvers: admission.state.request.approvers });
  return acceptEdit(run, admission.state, decision, judgedAs({ ...over, verdict }), runIds(), at);
}

export function acceptedEdit(...args: Parameters<typeof edited>) {
  const answer = edited(...args);
  if (answer.kind === 'refuse') throw new Error(`${answer.code}: ${answer.message}`);
  return answer;
}

export const codeOf = (answer: ReturnType<typeof edited>): string =>
  answer.kind === 'refuse' ? answer.code : answer.kind;

/** Returns the run after somebody agreed to the request as it was shown. */
export function voted(run: Run, who: string): Run {
  const decision = plainOf(run, who);
  const admission = admit(run, decision, runIds(), START);
  if (admission.kind !== 'accept') throw new Error(admission.kind);
  return accept(run, admission.state, decision, START).run;
}
