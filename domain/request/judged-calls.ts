/**
 * The verdicts of a turn take effect here: each call is denied, cleared, asked, answered by a standing decision, or
 * refused again.
 */
import type { Judgement, ProposedCall } from '../../contracts/schemas/call.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { Change, Run, RunIds } from '../state/run.ts';
import { duplicate, judged, refusedAgain } from '../state/call.ts';
import { outcomeFact, requestOpenedFact, verdictFact } from './digest.ts';
import { answeredBefore, Duplicates } from './repeats.ts';
import { answeredByStanding, stillStanding } from './standing-changes.ts';

/**
 * Applies the judgements to the proposed calls. A call that the judge passed over is denied (INV-G4).
 * @param at epoch ms
 */
export function judgedAll(
  run: Run,
  judgements: readonly Judgement[],
  policyVersion: string,
  ids: RunIds,
  at: number,
): Change {
  const current = stillStanding(run, judgements, at);
  const facts: LedgerFact[] = [...current.facts];
  const duplicates = new Duplicates(run);
  const calls = run.calls.map((state) => {
    if (state.status !== 'proposed') return state;
    const judgement = judgements.find(({ callId }) => callId === state.call.callId) ?? passedOver(state.call);
    const { target } = judgement;
    const before = answeredBefore(run, state.call, judgement);
    const now =
      before === undefined
        ? duplicate(judged(state.call, judgement, at), target && duplicates.of(state.call, target))
        : refusedAgain(state.call, judgement, before);
    facts.push(verdictFact(state.call, judgement, policyVersion));
    const { next, facts: told } = answeredByStanding(current.run, now, at);
    facts.push(...told);
    if (next.status === 'waiting-for-consent') facts.push(requestOpenedFact(next, ids));
    if (next.status === 'settled') facts.push(outcomeFact(state.call.callId, next.outcome));
    return next;
  });
  return { run: { ...current.run, calls }, facts };
}

function passedOver({ callId }: ProposedCall): Judgement {
  return {
    callId,
    repeatable: false,
    verdict: {
      kind: 'deny',
      rules: ['default/passed-over'],
      code: 'POLICY_DENIED',
      message: 'No verdict was given for this call.',
    },
  };
}
