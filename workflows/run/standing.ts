/** Applies remembered approvals in a run: which calls they answer, and how they are taken back. */
import { patched } from '@temporalio/workflow';
import { failureOf } from '../../contracts/failure.ts';
import type { Forget, ForgetAck } from '../../contracts/schemas/request.ts';
import type { Consent } from '../../contracts/wire/carry.ts';
import type { DispatchResult } from '../../contracts/wire/tools.ts';
import { admitForget, callsApprovedBy, forget, FORGOTTEN, lost, standingOf } from '../../domain/request/standing.ts';
import type { Dispatched } from '../../domain/state/run.ts';
import type { LiveRun } from './live-run.ts';

/** Takes a standing decision back; a repeated message gets the first answer. @throws ApplicationFailure */
export function forgetStanding(live: LiveRun, message: Forget): ForgetAck {
  const admission = admitForget(live.run, message);
  if (admission.kind === 'repeat') return admission.ack;
  if (admission.kind === 'refuse') throw failureOf(admission.code, admission.message, admission.facts);
  const { standing } = admission;
  const isAnew = callsApprovedBy(live.run, standing).length > 0 && patched('as-documented');
  const { ack, ...change } = forget(live.run, standing, message, live.ids, Date.now(), isAnew);
  live.commit(change);
  return ack;
}

/** Why people must be asked after all about a call that a standing decision had answered. @param now epoch ms */
export function noLongerAnswered(
  live: LiveRun,
  { made }: Consent,
  now: number,
): Extract<DispatchResult, { kind: 'reopen' }> | undefined {
  if (made.standing === undefined || standingOf(live.run, made.standing, now) !== undefined) return undefined;
  return { kind: 'reopen', code: 'STANDING_LOST', message: FORGOTTEN };
}

/** Ends a standing decision that a dispatch did not accept as consent, so that people are asked about the next call. */
export function dropRefused(live: LiveRun, { consent }: Dispatched, code: string): void {
  const standing = consent?.made.standing;
  if (standing !== undefined) live.commit(lost(live.run, standing, code));
}
