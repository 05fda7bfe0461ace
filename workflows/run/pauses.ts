/** Opens requests about something other than consent, only in runs prepared for it; `answers.ts` takes the answers. */
import type { DispatchResult } from '../../contracts/wire/tools.ts';
import { type Answerers, answerersByDefault, initiatorRule } from '../../domain/policy/approvers.ts';
import { authorizationPause } from '../../domain/request/authorization.ts';
import { outcomePause } from '../../domain/request/outcome.ts';
import { pausedFor } from '../../domain/request/pause.ts';
import { askedForInput, forgotten } from '../../domain/request/provision.ts';
import type { Dispatched } from '../../domain/state/run.ts';
import type { LiveRun } from './live-run.ts';

type Ended = Extract<DispatchResult, { kind: 'ended' }>;

/** Asks people for an authorization without which nothing has run. Returns false if nobody is asked. */
export function askAuthorization(live: LiveRun, flight: Dispatched, { authorization, outcome }: Ended): boolean {
  if (authorization === undefined || !live.asksAbout('authorization') || live.work.consideredCancelled) return false;
  if (outcome.kind !== 'failed' || outcome.executed) return false;
  const about = authorizationPause(flight, authorization);
  if (about === undefined) return false;
  // A call may wait for weeks while policy changes: consent of people whom policy no longer asks would grant nothing.
  const answerers = authorization.asked ?? whoAnswers(live, flight);
  // Only the initiator may replace the grant.
  const approvers = about.wants === 'grant' ? initiatorRule(live.prepared.initiator.id) : answerers.approvers;
  const pausing = { approvers, deadlineSeconds: answerers.deadlineSeconds, at: Date.now() };
  live.commit(pausedFor(live.run, flight.call.callId, about, pausing, live.ids));
  return true;
}

/** Asks about a call whose outcome is unknown. Returns false if nobody is asked. @param handedAt epoch ms */
export function askOutcome(live: LiveRun, flight: Dispatched, ending: Ended, handedAt: number): boolean {
  const { outcome: unsure } = ending;
  if (unsure.kind !== 'unknown' || !live.asksAbout('outcome') || live.work.consideredCancelled) return false;
  const about = outcomePause(flight, { ...ending, outcome: unsure }, handedAt);
  const pausing = { ...whoAnswers(live, flight), at: Date.now(), unsure };
  live.commit(pausedFor(live.run, flight.call.callId, about, pausing, live.ids));
  return true;
}

export function askInput(live: LiveRun, flight: Dispatched, asked: Extract<DispatchResult, { kind: 'input' }>): void {
  const pausing = { ...whoAnswers(live, flight), at: Date.now() };
  live.commit(askedForInput(live.run, flight.call.callId, asked, pausing, live.ids));
}

export function askAnew(live: LiveRun, flight: Dispatched, why: Extract<DispatchResult, { kind: 'reopen' }>): boolean {
  const { retry } = flight;
  if (why.asks === 'input') {
    live.commit(forgotten(live.run, flight.call.callId));
    return true;
  }
  if (why.asks === undefined || retry === undefined) return false;
  const { approvers, deadlineSeconds } = whoAnswers(live, flight);
  const pausing = {
    approvers: why.approvers ?? approvers,
    deadlineSeconds: why.deadlineSeconds ?? deadlineSeconds,
    at: Date.now(),
    because: `${why.code}: ${why.message}`,
  };
  live.commit(pausedFor(live.run, flight.call.callId, retry.request.about, pausing, live.ids));
  return true;
}

/** Names who answers: the people asked for consent, or those whom policy names if nobody was asked. */
export function whoAnswers({ prepared }: LiveRun, { consent, judgement }: Dispatched): Answerers {
  const { verdict } = judgement;
  const { approvers, deadlineSeconds } = prepared.answerers ?? answerersByDefault(prepared.initiator.id);
  return {
    approvers: consent?.request.approvers ?? approvers,
    deadlineSeconds: verdict.kind === 'ask' ? verdict.deadlineSeconds : deadlineSeconds,
  };
}
