/**
 * Opens requests about something other than consent, and takes their answers. Handlers record and return (INV-D3).
 *
 * 1. A validator only reads; the handler behind it compares nothing that depends on the Temporal run (INV-D4).
 * 2. Only runs that were prepared for a kind of pause open one; others end as before. The first pause leaves a marker,
 *    so that no build without pauses takes the run up. If such a build has continued without asking, nobody is asked
 *    afterwards (INV-D1).
 */
import type { UpdateDefinition } from '@temporalio/common';
import { patched } from '@temporalio/workflow';
import { failureOf } from '../../contracts/failure.ts';
import type {
  InputPause,
  OutcomePause,
  PauseAck,
  PauseKind,
  SignedAuthorization,
  SignedProvision,
  SignedResolution,
} from '../../contracts/schemas/request.ts';
import type { RetryProof } from '../../contracts/wire/proofs.ts';
import type { DiscoverInput, DispatchInput, DispatchResult } from '../../contracts/wire/tools.ts';
import { type Answerers, initiatorRule } from '../../domain/policy/approvers.ts';
import { DEFAULT_DEADLINE_SECONDS } from '../../domain/policy/times.ts';
import {
  authorizationPause,
  authorizationsOf,
  authorize,
  grantorOf,
  grantsFor,
  refuseAuthorization,
} from '../../domain/request/authorization.ts';
import { madeInTime } from '../../domain/request/decision.ts';
import { outcomePause, refuseLongResult, resolve } from '../../domain/request/outcome.ts';
import { admitAnswer, type PauseAnswer, type Paused, pausedFor } from '../../domain/request/pause.ts';
import { askedForInput, forgotten, provide, provisionProofs, refuseProvision } from '../../domain/request/provision.ts';
import type { AnswerPurpose } from '../../domain/request/signed-answer.ts';
import { parseAuthorization, type Parsed, parseProvision, parseResolution } from '../../domain/shapes/messages.ts';
import type { Authorized, Dispatched, InFlight, Retry, Unsure, WaitingForAnswer } from '../../domain/state/call.ts';
import type { Change } from '../../domain/state/run.ts';
import type { Refusal } from '../../domain/text/refusal.ts';
import { onUpdate } from '../entity/updates.ts';
import type { LiveRun } from './live-run.ts';
import { authorizeUpdate, provideInputUpdate, resolveOutcomeUpdate } from './messages.ts';
import { closed, endingOr } from './refusals.ts';
import { assertSignedAnswer, openedAnswer } from './trust.ts';
import { parsed, refuseWith } from '../entity/refusals.ts';

type Ended = Extract<DispatchResult, { kind: 'ended' }>;

/** Handler of the answers to one kind of request. */
interface Taker<Answer extends PauseAnswer> {
  readonly asked: PauseKind;
  readonly description: string;
  readonly purpose: AnswerPurpose;
  readonly parse: (message: unknown) => Parsed<Answer>;
  /** Refuses an answer that every other check admits. */
  readonly refuse: (live: LiveRun, state: Paused, answer: Answer) => Refusal | undefined;
  readonly record: (live: LiveRun, state: Paused, answer: Answer, at: number) => Change & { readonly ack: PauseAck };
}

const OUTCOME: Taker<SignedResolution> = {
  asked: 'outcome',
  description: 'Say what became of a call whose outcome is not known, or that it is sent again',
  purpose: 'resolveOutcome',
  parse: parseResolution,
  refuse: (live, _, resolution) => refuseLongResult(resolution, live.prepared.limits),
  // Sound: the answer was admitted for a request about this kind. The same holds for the casts below.
  record: (live, state, resolution, at) =>
    resolve(live.run, state as WaitingForAnswer<OutcomePause>, resolution, live.ids, at),
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
    refuseAuthorization(state as WaitingForAnswer, answer, live.prepared.initiator.id, Date.now(), live.trust),
  record: (live, state, answer, at) => authorize(live.run, state as WaitingForAnswer, answer, at),
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
  onUpdate(live, update, {
    description: taker.description,
    read: (input) => parsed(openedAnswer(live, input, taker.parse), 'DECISION_INVALID'),
    check: (answer) => validate(live, taker, answer),
    act: (answer) => take(live, taker, answer),
  });
}

function validate<Answer extends PauseAnswer>(live: LiveRun, taker: Taker<Answer>, answer: Answer): void {
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

function take<Answer extends PauseAnswer>(live: LiveRun, taker: Taker<Answer>, answer: Answer): PauseAck {
  const now = Date.now();
  const admission = admitAnswer(live.run, taker.asked, answer, live.ids, now);
  if (admission.kind === 'repeat') return admission.ack;
  // An answer is refused here only if it raced another in the same task: its validator ran before the other's handler.
  if (admission.kind === 'refuse') throw failureOf(admission.code, admission.message, admission.facts);
  const { ack, ...change } = taker.record(live, admission.state, answer, now);
  live.commit(change);
  return ack;
}

/** Asks people for an authorization without which nothing has run. Returns false if nobody is asked. */
export function askAuthorization(live: LiveRun, flight: Dispatched, { authorization, outcome }: Ended): boolean {
  if (authorization === undefined || !asksAbout(live, 'authorization') || live.work.consideredCancelled) return false;
  if (outcome.kind !== 'failed' || outcome.executed) return false;
  const about = authorizationPause(flight, authorization);
  if (about === undefined || !patched('pauses')) return false;
  // A call may wait for weeks while policy changes: consent of people whom policy no longer asks would grant nothing.
  const answerers = authorization.asked ?? whoAnswers(live, flight);
  const approvers = about.wants === 'grant' ? grantorOf(live.prepared.initiator.id) : answerers.approvers;
  const pausing = { approvers, deadlineSeconds: answerers.deadlineSeconds, at: Date.now() };
  live.commit(pausedFor(live.run, flight.call.callId, about, pausing, live.ids));
  return true;
}

/** True if this run was prepared to ask people about this kind of question. */
export function asksAbout(live: LiveRun, kind: PauseKind): boolean {
  return live.prepared.pauses?.includes(kind) === true;
}

/**
 * Asks a person about a call whose outcome is unknown. Returns false if nobody is asked.
 * @param handedAt epoch ms
 */
export function askOutcome(live: LiveRun, flight: Dispatched, ending: Ended, handedAt: number): boolean {
  if (!isUnsure(ending) || !asksAbout(live, 'outcome') || live.work.consideredCancelled || !patched('pauses'))
    return false;
  const about = outcomePause(flight, ending, handedAt, live.prepared.sentTimes);
  const pausing = { ...whoAnswers(live, flight), at: Date.now(), unsure: ending.outcome };
  live.commit(pausedFor(live.run, flight.call.callId, about, pausing, live.ids));
  return true;
}

function isUnsure(ending: Ended): ending is Ended & { readonly outcome: Unsure } {
  return ending.outcome.kind === 'unknown';
}

/**
 * Asks a person for the input that the server wants before it continues. An earlier build leaves the call in its state,
 * and that ends the call.
 */
export function askInput(live: LiveRun, flight: Dispatched, asked: Extract<DispatchResult, { kind: 'input' }>): void {
  if (!patched('pauses')) return;
  const pausing = { ...whoAnswers(live, flight), at: Date.now() };
  live.commit(askedForInput(live.run, flight.call.callId, asked, pausing, live.ids));
}

/** Gives the answers so far and the point at which the server resumes the call, if the run can wait for input. */
export function inputTo(live: LiveRun, { input }: InFlight): Pick<DispatchInput, 'input'> {
  if (!asksAbout(live, 'input')) return {};
  if (input === undefined) return { input: { provided: [] } };
  return { input: { provided: provisionProofs(input.provided), leg: input.leg } };
}

/** Asks the same question again after a dispatch found its answer no longer valid. */
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

/** How long people have, in seconds, if no rule of a call says so. */
export function deadlineOfAnswers({ prepared }: LiveRun): number {
  return prepared.answerers?.deadlineSeconds ?? DEFAULT_DEADLINE_SECONDS;
}

/** Names who answers: the people asked for consent, or those whom policy names if nobody was asked. */
export function whoAnswers({ prepared }: LiveRun, { consent, judgement }: Dispatched): Answerers {
  const { verdict } = judgement;
  const { approvers, deadlineSeconds } = prepared.answerers ?? {
    approvers: initiatorRule(prepared.initiator.id),
    deadlineSeconds: DEFAULT_DEADLINE_SECONDS,
  };
  return {
    approvers: consent?.request.approvers ?? approvers,
    deadlineSeconds: verdict.kind === 'ask' ? verdict.deadlineSeconds : deadlineSeconds,
  };
}

// A dispatch gets each answer together with what its author was shown.

export function authorizationProofs(live: LiveRun, state: InFlight): Pick<DispatchInput, 'authorizations'> {
  return proofsOf(authorizationsOf(live.run, state));
}

/** Gives a listing the grant that replaced the run's own, and the Temporal runs in which it may have been given. */
export function grantProofs(live: LiveRun, server: string): Pick<DiscoverInput, 'authorizations' | 'decidedIn'> {
  const given = grantsFor(live.run, server);
  return given.length === 0 ? {} : { ...proofsOf(given), decidedIn: live.decidedIn };
}

function proofsOf(given: readonly Authorized[]): Pick<DispatchInput, 'authorizations'> {
  if (given.length === 0) return {};
  return {
    authorizations: given.map(({ answer, further, ...shown }) => ({
      answer,
      ...shownThen(shown),
      ...(further === undefined
        ? {}
        : { further: further.map((each) => ({ answer: each.answer, decidedAt: instant(each.decidedAt) })) }),
    })),
  };
}

/** Proof of the decision to send a call again, with what its author was shown. */
export function retryProof({ resolution, ...shown }: Retry): RetryProof {
  return { resolution, ...shownThen(shown) };
}

function shownThen({ decidedAt, request, definitionHash }: Omit<Retry, 'resolution'>): Omit<RetryProof, 'resolution'> {
  const { about, generation, approvers, openedAt, deadline } = request;
  const times = { openedAt: instant(openedAt), deadline: instant(deadline), decidedAt: instant(decidedAt) };
  return { about, generation, approvers, definitionHash, ...times };
}

function instant(ms: number): string {
  return new Date(ms).toISOString();
}
