/**
 * An approval with other arguments: the only decision whose handler waits, and for the judge alone (INV-D3).
 *
 * 1. A message that arrived meanwhile came first, so the decision is admitted again before it counts (INV-G2).
 * 2. No run waits long for an edit. A run that ends cancels the judging; a run that rolls waits for its answer.
 */
import { CancellationScope, patched } from '@temporalio/workflow';
import { defined } from '../../contracts/defined.ts';
import type { DecisionAck, SignedDecision } from '../../contracts/schemas/request.ts';
import type { Admission } from '../../domain/request/decision.ts';
import { acceptEdit, type EditVerdict, MOST_JUDGED_EDITS } from '../../domain/request/edit.ts';
import { earlierThan } from '../../domain/run/limits.ts';
import { withoutUnlinked } from '../../domain/run/resource-link.ts';
import type { Asking, EditDecision } from '../../domain/state/run.ts';
import { type Refusal, refuse } from '../../domain/text/refusal.ts';
import { summaryOf } from '../../domain/views/temporal-ui.ts';
import { answered, assertFailure } from '../entity/unread.ts';
import { editActivities } from './activities.ts';
import type { LiveRun } from './live-run.ts';

/** Refuses an edit before it is judged if too many are being judged or the run hands over; it may be sent again. */
export function refuseFlood(live: LiveRun, decision: EditDecision): Refusal | undefined {
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

type EditAnswer = DecisionAck | Refusal;

/** Admits a decision as the run is now. @param now epoch ms */
type Admit = (live: LiveRun, decision: SignedDecision, now: number) => Admission;

/** @param state the request on which the decision was admitted */
export function editCall(live: LiveRun, state: Asking, decision: EditDecision, admit: Admit): Promise<EditAnswer> {
  const scope = new CancellationScope();
  // The edit counts as judged only once it is recorded: a decision that is not in the ledger would not be carried.
  return live.judging.during(scope, async () =>
    settleEdit(live, decision, await verdictOn(live, state, decision, scope), admit),
  );
}

function settleEdit(live: LiveRun, decision: EditDecision, verdict: EditVerdict | undefined, admit: Admit): EditAnswer {
  if (live.closing || live.work.consideredCancelled)
    return refuse('RUN_CLOSED', 'The run ended while the edit was judged; nothing was changed.', {
      callId: decision.callId,
    });
  const now = Date.now();
  const admission = admit(live, decision, now);
  if (admission.kind === 'repeat') return admission.ack;
  if (admission.kind === 'refuse') return admission;
  if (verdict === undefined)
    return refuse('JUDGE_UNAVAILABLE', 'The edited call could not be judged; nothing was changed. Try again.', {
      callId: decision.callId,
    });
  const isAnew = admission.state.attempts > 0 && patched('as-documented');
  const accepted = acceptEdit(live.run, admission.state, decision, verdict, live.ids, now, isAnew);
  if (accepted.kind === 'refuse') return accepted;
  live.commit(accepted);
  return accepted.ack;
}

async function verdictOn(
  live: LiveRun,
  state: Asking,
  decision: EditDecision,
  scope: CancellationScope,
): Promise<EditVerdict | undefined> {
  try {
    const { earlier } = live.earlier;
    const { judge } = editActivities(summaryOf(state, `judge the edit of ${decision.approver.id}`));
    const answer = await scope.run(() =>
      judge({
        run: live.identity,
        toolset: live.toolset,
        runPolicy: live.spec.policy,
        calls: [{ ...state.call, arguments: decision.arguments }],
        ...defined({ earlier: earlier && earlierThan(earlier, live.run.calls, state.call.callId) }),
      }),
    );
    const { judgements, policyVersion } = answered(live, 'judge', answer);
    const [judgement] = judgements;
    if (judgement === undefined) return undefined;
    return { judgement: withoutUnlinked(live.run, decision, judgement), policyVersion };
  } catch (error) {
    assertFailure(error);
    // The verdict did not come in time, or was cancelled with the run.
    return undefined;
  }
}

/** Cancels the judging of edits, so that their senders get an answer before the run is over. */
export function stopJudging(live: LiveRun): void {
  for (const scope of live.judging) scope.cancel();
}
