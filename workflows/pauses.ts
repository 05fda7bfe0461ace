/**
 * Requests about something else than consent, as the run opens them and takes their answers. Handlers record and return (INV-D3).
 *
 * 1. A validator reads only; the handler behind it compares nothing that depends on the Temporal run (INV-D4).
 * 2. Only runs that were prepared for a kind of pause open one: others end as they did before. The first one leaves a marker, so that
 *    no build that knows of none takes the run up; where such a build has gone on without, it is not asked afterwards (INV-D1).
 */
import type { UpdateDefinition } from '@temporalio/common';
import { patched, setHandler } from '@temporalio/workflow';
import type { DispatchInput, DispatchResult } from '../contracts/dispatch.ts';
import { failureOf } from '../contracts/failure.ts';
import type { InputPause, OutcomePause, PauseAck, PauseKind } from '../contracts/schemas/pause.ts';
import type { SignedProvision } from '../contracts/schemas/provision.ts';
import type { SignedResolution } from '../contracts/schemas/resolution.ts';
import type { SignedAuthorization } from '../contracts/schemas/authorization.ts';
import type { Answerers } from '../domain/answerer.ts';
import { authorizationPause, authorize, grantorOf, refuseAuthorization } from '../domain/authorization.ts';
import type { InFlight, Unsure } from '../domain/call-state.ts';
import { initiatorRule } from '../domain/clause.ts';
import { madeInTime } from '../domain/decision.ts';
import { DEFAULT_DEADLINE_SECONDS } from '../domain/default-deadline.ts';
import type { Parsed } from '../domain/messages.ts';
import { admitAnswer, type PauseAnswer, type Paused, pausedFor } from '../domain/pause.ts';
import { askedForInput, forgotten, provide, provisionProofs, refuseProvision } from '../domain/provision.ts';
import { refuseLongResult, resolve } from '../domain/resolution.ts';
import type { Change } from '../domain/run.ts';
import type { Refusal } from '../domain/refusal.ts';
import { outcomePause } from '../domain/outcome-pause.ts';
import type { AnswerPurpose } from '../domain/signed-decision.ts';
import { parseAuthorization, parseProvision, parseResolution } from '../domain/messages.ts';
import { interrupted } from '../domain/talk.ts';
import type { LiveRun } from './live-run.ts';
import { authorizeUpdate, provideInputUpdate, resolveOutcomeUpdate } from './messages.ts';
import { closed, endingOr, parsed, refuseWith } from './refusals.ts';
import { assertSignedAnswer, openedAnswer } from './trust.ts';
import { assertReadable } from './unread.ts';

type Ended = Extract<DispatchResult, { kind: 'ended' }>;

/** What takes the answers to one kind of request. */
interface Taker<Answer extends PauseAnswer> {
  readonly asked: PauseKind;
  readonly description: string;
  readonly purpose: AnswerPurpose;
  readonly parse: (message: unknown) => Parsed<Answer>;
  /** Of an answer that is otherwise taken. */
  readonly refuse: (live: LiveRun, state: Paused, answer: Answer) => Refusal | undefined;
  readonly record: (live: LiveRun, state: Paused, answer: Answer, at: number) => Change & { readonly ack: PauseAck };
}

const OUTCOME: Taker<SignedResolution> = {
  asked: 'outcome',
  description: 'Say what became of a call whose outcome is not known, or that it is sent again',
  purpose: 'resolveOutcome',
  parse: parseResolution,
  refuse: (live, _, resolution) => refuseLongResult(resolution, live.prepared.limits),
  // Sound: it was admitted for a request about this kind; so below.
  record: (live, state, resolution, at) => resolve(live.run, state as Paused<OutcomePause>, resolution, live.ids, at),
};

const INPUT: Taker<SignedProvision> = {
  asked: 'input',
  description: 'Answer what a server asks for in the middle of a call',
  purpose: 'provideInput',
  parse: parseProvision,
  refuse: (live, state, provision) => refuseProvision(live.run, state as Paused<InputPause>, provision),
  record: (live, state, provision, at) => provide(live.run, state as Paused<InputPause>, provision, at),
};

const AUTHORIZATION: Taker<SignedAuthorization> = {
  asked: 'authorization',
  purpose: 'authorize',
  description: 'Consent to scopes for a call, or give another grant, where its server wants another authorization',
  parse: parseAuthorization,
  refuse: (live, state, answer) =>
    refuseAuthorization(state, answer, live.prepared.initiator.id, Date.now(), live.trust),
  record: (live, state, answer, at) => authorize(live.run, state, answer, at),
};

export function servePauses(live: LiveRun): void {
  register(live, authorizeUpdate, AUTHORIZATION);
  register(live, resolveOutcomeUpdate, OUTCOME);
  register(live, provideInputUpdate, INPUT);
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
    admission.kind === 'refuse'
      ? endingOr(live, admission)
      : (madeInTime(answer, live.decidedIn) ?? taker.refuse(live, admission.state, answer)),
  );
}

function take<Answer extends PauseAnswer>(live: LiveRun, taker: Taker<Answer>, input: unknown): PauseAck {
  assertReadable(input);
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

/** Nothing has run for want of an authorization that people can give: they are asked. False where nobody is. */
export function askAuthorization(live: LiveRun, flight: InFlight, { authorization, outcome }: Ended): boolean {
  if (authorization === undefined || !asksAbout(live, 'authorization') || live.work.consideredCancelled) return false;
  if (outcome.kind !== 'failed' || outcome.executed) return false;
  const about = authorizationPause(flight, authorization);
  if (about === undefined || !patched('pauses')) return false;
  // A call waits for weeks, and policy changes: consent by whom it asks no more would grant nothing.
  const answerers = authorization.asked ?? whoAnswers(live, flight);
  const approvers = about.wants === 'grant' ? grantorOf(live.prepared.initiator.id) : answerers.approvers;
  const pausing = { approvers, deadlineSeconds: answerers.deadlineSeconds, at: Date.now() };
  live.commit(pausedFor(live.run, flight.call.callId, about, pausing, live.ids));
  live.commit(interrupted(live.run));
  return true;
}

export function asksAbout(live: LiveRun, kind: PauseKind): boolean {
  return live.prepared.pauses?.includes(kind) === true;
}

/** Nobody knows what became of the call: a person is asked. False where nobody is. @param handedAt epoch ms */
export function askOutcome(live: LiveRun, flight: InFlight, ending: Ended, handedAt: number): boolean {
  if (!isUnsure(ending) || !asksAbout(live, 'outcome') || live.work.consideredCancelled || !patched('pauses'))
    return false;
  const about = outcomePause(flight, ending, handedAt, live.prepared.sentTimes);
  const pausing = { ...whoAnswers(live, flight), at: Date.now(), unsure: ending.outcome };
  live.commit(pausedFor(live.run, flight.call.callId, about, pausing, live.ids));
  live.commit(interrupted(live.run));
  return true;
}

function isUnsure(ending: Ended): ending is Ended & { readonly outcome: Unsure } {
  return ending.outcome.kind === 'unknown';
}

/** The server asks for something before it goes on: a person is asked. An earlier build leaves the call where it stands, which ends it. */
export function askInput(live: LiveRun, flight: InFlight, asked: Extract<DispatchResult, { kind: 'input' }>): void {
  if (!patched('pauses')) return;
  const pausing = { ...whoAnswers(live, flight), at: Date.now() };
  live.commit(askedForInput(live.run, flight.call.callId, asked, pausing, live.ids));
  live.commit(interrupted(live.run));
}

/** Of a run that can wait for input: what was answered, and where the server takes the call up again. */
export function inputTo(live: LiveRun, { input }: InFlight): Pick<DispatchInput, 'input'> {
  if (!asksAbout(live, 'input')) return {};
  if (input === undefined) return { input: { provided: [] } };
  return { input: { provided: provisionProofs(input.provided), leg: input.leg } };
}

/** The word that it is sent again does not hold: the same is asked again. */
export function askAnew(live: LiveRun, flight: InFlight, why: Extract<DispatchResult, { kind: 'reopen' }>): boolean {
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
  live.commit(interrupted(live.run));
  return true;
}

/** How long people have, where no rule of a call says so. */
export function deadlineOfAnswers({ prepared }: LiveRun): number {
  return prepared.answerers?.deadlineSeconds ?? DEFAULT_DEADLINE_SECONDS;
}

/** Whoever was asked for consent; of a call that nobody was asked for, whom policy names. */
export function whoAnswers({ prepared }: LiveRun, { request, judgement }: InFlight): Answerers {
  const { verdict } = judgement;
  const { approvers, deadlineSeconds } = prepared.answerers ?? {
    approvers: initiatorRule(prepared.initiator.id),
    deadlineSeconds: DEFAULT_DEADLINE_SECONDS,
  };
  return {
    approvers: request?.approvers ?? approvers,
    deadlineSeconds: verdict.kind === 'ask' ? verdict.deadlineSeconds : deadlineSeconds,
  };
}
