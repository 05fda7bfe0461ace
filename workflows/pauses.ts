/**
 * Requests about something else than consent, as the run opens them and takes their answers. Handlers record and return (INV-D3).
 *
 * 1. A validator reads only; the handler behind it compares nothing that depends on the Temporal run (INV-D4).
 * 2. Only runs that were prepared for a kind of pause open one: others end as they did before (INV-D1).
 */
import type { UpdateDefinition } from '@temporalio/common';
import { setHandler } from '@temporalio/workflow';
import type { DispatchResult } from '../contracts/activities.ts';
import { failureOf } from '../contracts/failure.ts';
import type { PauseAck, PauseKind } from '../contracts/schemas/pause.ts';
import type { SignedResolution } from '../contracts/schemas/resolution.ts';
import type { Answerers } from '../domain/answerer.ts';
import type { InFlight, Unsure } from '../domain/call-state.ts';
import { madeInTime } from '../domain/decision.ts';
import { DEFAULT_DEADLINE_SECONDS } from '../domain/default-deadline.ts';
import type { Parsed } from '../domain/field-checks.ts';
import { admitAnswer, type PauseAnswer, type Paused, pausedFor } from '../domain/pause.ts';
import { refuseLongResult, resolve } from '../domain/resolution.ts';
import type { Change } from '../domain/run.ts';
import type { Refusal } from '../domain/refusal.ts';
import { outcomePause } from '../domain/outcome-pause.ts';
import type { AnswerPurpose } from '../domain/signed-decision.ts';
import { parseResolution } from '../domain/shapes.ts';
import { interrupted } from '../domain/talk.ts';
import type { LiveRun } from './live-run.ts';
import { resolveOutcomeUpdate } from './messages.ts';
import { closed, parsed, refuseWith } from './refusals.ts';
import { assertSignedAnswer, openedAnswer } from './trust.ts';

/** What takes the answers to one kind of request. */
interface Taker<Answer extends PauseAnswer> {
  readonly asked: PauseKind;
  readonly description: string;
  readonly purpose: AnswerPurpose;
  readonly parse: (message: unknown) => Parsed<Answer>;
  /** Of an answer that is otherwise taken. */
  readonly refuse: (live: LiveRun, answer: Answer) => Refusal | undefined;
  readonly record: (live: LiveRun, state: Paused, answer: Answer, at: number) => Change & { readonly ack: PauseAck };
}

const OUTCOME: Taker<SignedResolution> = {
  asked: 'outcome',
  description: 'Say what became of a call whose outcome is not known, or that it is sent again',
  purpose: 'resolveOutcome',
  parse: parseResolution,
  refuse: (live, resolution) => refuseLongResult(resolution, live.prepared.limits),
  record: (live, state, resolution, at) => resolve(live.run, state, resolution, live.ids, at),
};

export function servePauses(live: LiveRun): void {
  register(live, resolveOutcomeUpdate, OUTCOME);
}

function register<Answer extends PauseAnswer>(
  live: LiveRun,
  update: UpdateDefinition<PauseAck, [unknown]>,
  taker: Taker<Answer>,
): void {
  setHandler(update, (input) => take(live, taker, input), {
    description: taker.description,
    validator: (input) => validate(live, taker, input),
  });
}

function validate<Answer extends PauseAnswer>(live: LiveRun, taker: Taker<Answer>, input: unknown): void {
  const answer = parsed(openedAnswer(live, input, taker.parse), 'DECISION_INVALID');
  assertSignedAnswer(live, taker.purpose, answer);
  const admission = admitAnswer(live.run, taker.asked, answer, live.ids, Date.now());
  if (admission.kind === 'repeat') return;
  if (live.closing) throw closed();
  refuseWith(
    admission.kind === 'refuse' ? admission : (madeInTime(answer, live.decidedIn) ?? taker.refuse(live, answer)),
  );
}

function take<Answer extends PauseAnswer>(live: LiveRun, taker: Taker<Answer>, input: unknown): PauseAck {
  live.updates += 1;
  const answer = parsed(openedAnswer(live, input, taker.parse), 'DECISION_INVALID');
  const now = Date.now();
  const admission = admitAnswer(live.run, taker.asked, answer, live.ids, now);
  if (admission.kind === 'repeat') return admission.ack;
  // Only one that raced another in the same task gets here refused: its validator ran before the other's handler.
  if (admission.kind === 'refuse') throw failureOf(admission.code, admission.message, admission.facts);
  const { ack, ...change } = taker.record(live, admission.state, answer, now);
  live.commit(change);
  // It may be asked of others now.
  live.commit(interrupted(live.run));
  return ack;
}

export function asksAbout(live: LiveRun, kind: PauseKind): boolean {
  return live.prepared.pauses?.includes(kind) === true;
}

/** Nobody knows what became of the call: a person is asked. @param handedAt epoch ms */
export function askOutcome(
  live: LiveRun,
  flight: InFlight,
  ending: Extract<DispatchResult, { kind: 'ended' }> & { readonly outcome: Unsure },
  handedAt: number,
): void {
  const about = outcomePause(flight, ending, handedAt);
  const pausing = { ...whoAnswers(live, flight), at: Date.now(), unsure: ending.outcome };
  live.commit(pausedFor(live.run, flight.call.callId, about, pausing, live.ids));
  live.commit(interrupted(live.run));
}

/** The word that it is sent again does not hold: the same is asked again. */
export function askAnew(live: LiveRun, flight: InFlight, why: Extract<DispatchResult, { kind: 'reopen' }>): boolean {
  const { retry } = flight;
  if (why.asks === undefined || retry === undefined) return false;
  const { approvers, deadlineSeconds } = whoAnswers(live, flight);
  const pausing = {
    approvers: why.approvers ?? approvers,
    deadlineSeconds: why.deadlineSeconds ?? deadlineSeconds,
    at: Date.now(),
    because: `${why.code}: ${why.message}`,
  };
  live.commit(pausedFor(live.run, flight.call.callId, retry.request.about, pausing, live.ids));
  live.commit(interrupted(live.run));
  return true;
}

/** Whoever was asked for consent; of a call that nobody was asked for, whom policy names. */
function whoAnswers({ prepared }: LiveRun, { request, judgement }: InFlight): Answerers {
  const { verdict } = judgement;
  const { approvers, deadlineSeconds } = prepared.answerers ?? {
    approvers: { allOf: [{ layer: 'default' as const, ids: [prepared.initiator.id], groups: [] }] },
    deadlineSeconds: DEFAULT_DEADLINE_SECONDS,
  };
  return {
    approvers: request?.approvers ?? approvers,
    deadlineSeconds: verdict.kind === 'ask' ? verdict.deadlineSeconds : deadlineSeconds,
  };
}
