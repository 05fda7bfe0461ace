/**
 * An approval with other arguments: the only decision whose handler waits, and it waits for the judge alone (INV-D3).
 *
 * 1. What came while the judge was asked came first: the decision is admitted again before it counts (INV-G2).
 * 2. No run waits long for an edit: one that ends cancels the question, one that rolls waits for the answer.
 */
import { CancellationScope } from '@temporalio/workflow';
import type { JudgeInput } from '../contracts/activities.ts';
import type { Decision, DecisionAck, SignedDecision } from '../contracts/schemas/decision.ts';
import type { Asking } from '../domain/call-state.ts';
import type { Admission } from '../domain/decision.ts';
import { type EditDecision, isEdit, refuseLongAnswer } from '../domain/decision-rights.ts';
import { type Refusal, refuse } from '../domain/refusal.ts';
import { acceptEdit, type EditVerdict, MOST_JUDGED_EDITS, refuseEdit } from '../domain/edit.ts';
import { admitSigned } from '../domain/signed-decision.ts';
import { summaryOf } from '../domain/present.ts';
import { earlierThan } from '../domain/tally.ts';
import { editActivities } from './activity-stubs.ts';
import { linkedOnly } from './linked-reads.ts';
import type { LiveRun } from './live-run.ts';
import { answered, assertFailure } from './unread.ts';

/** As `admit`, with what only the run knows of an edit: its limits. @param now epoch ms */
export function admitted(live: LiveRun, decision: SignedDecision, now: number): Admission {
  const admission = admitSigned(live.run, decision, live.ids, now, live);
  if (admission.kind !== 'accept') return admission;
  if (decision.kind === 'respond') return refuseLongAnswer(decision, live.prepared.limits) ?? admission;
  if (!isEdit(decision)) return admission;
  return refuseEdit(live.run, admission.state, decision, live.prepared.limits) ?? admission;
}

/** Beyond this many the next one is refused before it is judged; it may be sent again. */
export function refuseFlood(live: LiveRun, decision: Decision): Refusal | undefined {
  if (!isEdit(decision)) return undefined;
  if (live.takesNoEdits)
    return refuse('JUDGE_UNAVAILABLE', 'The run hands over to its next execution; send the edit again in a moment.', {
      callId: decision.callId,
    });
  if (live.judging.size < MOST_JUDGED_EDITS) return undefined;
  return refuse(
    'LIMIT_REACHED',
    `${MOST_JUDGED_EDITS} edits of this run are being judged; send this one again in a moment.`,
    { callId: decision.callId, limit: 'edits' },
  );
}

export type EditAnswer = { readonly kind: 'ack'; readonly ack: DecisionAck } | Refusal;

/** @param state the request as the decision was admitted on */
export async function editCall(live: LiveRun, state: Asking, decision: EditDecision): Promise<EditAnswer> {
  const scope = new CancellationScope();
  live.judging.add(scope);
  try {
    return settleEdit(live, decision, await verdictOn(live, state, decision, scope));
  } finally {
    // Not before it is recorded: what is not in the ledger would not be carried.
    live.judging.delete(scope);
  }
}

function settleEdit(live: LiveRun, decision: EditDecision, verdict: EditVerdict | undefined): EditAnswer {
  if (live.closing || live.work.consideredCancelled)
    return refuse('RUN_CLOSED', 'The run ended while the edit was judged; nothing was changed.', {
      callId: decision.callId,
    });
  const now = Date.now();
  const admission = admitted(live, decision, now);
  if (admission.kind === 'repeat') return { kind: 'ack', ack: admission.ack };
  if (admission.kind === 'refuse') return admission;
  if (verdict === undefined)
    return refuse('JUDGE_UNAVAILABLE', 'The edited call could not be judged; nothing was changed. Try again.', {
      callId: decision.callId,
    });
  const accepted = acceptEdit(live.run, admission.state, decision, verdict, live.ids, now);
  if (accepted.kind === 'refuse') return accepted;
  live.commit(accepted);
  return { kind: 'ack', ack: accepted.ack };
}

async function verdictOn(
  live: LiveRun,
  state: Asking,
  decision: EditDecision,
  scope: CancellationScope,
): Promise<EditVerdict | undefined> {
  try {
    const { judge } = editActivities(summaryOf(state, `judge the edit of ${decision.approver.id}`));
    const answer = await scope.run(() =>
      judge({
        run: live.identity,
        toolset: live.toolset,
        runPolicy: live.spec.policy,
        calls: [{ ...state.call, arguments: decision.arguments }],
        ...earlierCalls(live, state.call.callId),
      }),
    );
    const { judgements, policyVersion } = answered(live, 'judge', answer);
    const [judgement] = judgements;
    if (judgement === undefined) return undefined;
    return { judgement: linkedOnly(live, decision, judgement), policyVersion };
  } catch (error) {
    assertFailure(error);
    // Not to be had in time, or cancelled with the run.
    return undefined;
  }
}

/** As the dispatch will see them. */
function earlierCalls(live: LiveRun, callId: string): Pick<JudgeInput, 'earlier'> {
  const { earlier } = live.earlier;
  return earlier === undefined ? {} : { earlier: earlierThan(earlier, live.run.calls, callId) };
}

/** Those who wait for a verdict are answered before the run is over. */
export function stopJudging(live: LiveRun): void {
  for (const scope of live.judging) scope.cancel();
}
