/**
 * Takes what people say of a waiting call. Each kind of answer is a row of `DECIDE` and its likes, and all go one way:
 * opened, proven, admitted, recorded. Handlers record and return (INV-D3); only an edit waits (`edits.ts`).
 *
 * 1. Only a validator compares what depends on the Temporal run, never the handler behind it (INV-D4).
 * 2. A refused update never enters history (INV-G2).
 * 3. In trust mode `signed` the handler proves again who said it: an answer can come into history without a validator.
 */
import { type ApplicationFailure, HandlerUnfinishedPolicy } from '@temporalio/common';
import { defineSignal, setHandler, workflowInfo } from '@temporalio/workflow';
import type { ErrorCode } from '../../contracts/errors.ts';
import { failureOf } from '../../contracts/failure.ts';
import { SIGNALS, UPDATES } from '../../contracts/names.ts';
import type {
  DecisionAck,
  InputPause,
  OutcomePause,
  PauseAck,
  PauseKind,
  SignedAuthorization,
  SignedDecision,
  SignedProvision,
  SignedResolution,
} from '../../contracts/schemas/request.ts';
import { authorize, refuseAuthorization } from '../../domain/request/authorization.ts';
import {
  accept,
  type Admission,
  type AdmissionOf,
  admit,
  madeInTime,
  refuseLong,
} from '../../domain/request/decision.ts';
import { refuseEdit } from '../../domain/request/edit.ts';
import { refuseLongResult, resolve } from '../../domain/request/outcome.ts';
import { admitAnswer, type PauseAnswer, type Paused } from '../../domain/request/pause.ts';
import { provide, refuseProvision } from '../../domain/request/provision.ts';
import { admitSigned, type AnswerPurpose } from '../../domain/request/signed-answer.ts';
import { remembered } from '../../domain/request/standing.ts';
import {
  parseAuthorization,
  type Parsed,
  parseDecision,
  parseProvision,
  parseResolution,
} from '../../domain/shapes/inputs.ts';
import {
  type Change,
  type EditDecision,
  isEdit,
  type Run,
  type WaitingForAnswer,
  type WaitingForConsent,
} from '../../domain/state/run.ts';
import { hashOf } from '../../domain/text/canonical.ts';
import { isRefusal, type Refusal, refuse } from '../../domain/text/refusal.ts';
import { onUpdate, parsed, refuseWith } from '../entity/entity.ts';
import { seenAs } from '../entity/unread.ts';
import { editCall, refuseFlood } from './edits.ts';
import type { LiveRun } from './live-run.ts';
import { assertSignedAnswer, openedAnswer, refuseUnproven, refuseUnsigned } from './trust.ts';

export function serveAnswers(live: LiveRun): void {
  serve(live, AUTHORIZE);
  serve(live, RESOLVE);
  serve(live, PROVIDE);
  serve(live, DECIDE);
  setHandler(defineSignal(SIGNALS.decide), (input?: unknown) => decideBySignal(live, input), {
    description: 'Decide one waiting call, without an answer; a refusal is a ledger entry',
  });
}

interface Answering<Answer extends PauseAnswer, State, Ack> {
  readonly update: keyof typeof UPDATES;
  readonly description: string;
  readonly purpose: AnswerPurpose;
  readonly parse: (message: unknown) => Parsed<Answer>;
  /** @param now epoch ms */
  readonly admit: (live: LiveRun, answer: Answer, now: number) => AdmissionOf<State, Ack>;
  readonly refuse?: (live: LiveRun, state: State, answer: Answer) => Refusal | undefined;
  /** Refuses an answer that was taken before. Without it, a repeat always gets its first answer. */
  readonly refuseRepeat?: (live: LiveRun, answer: Answer) => Refusal | undefined;
  /** @param at epoch ms */
  readonly record: (live: LiveRun, state: State, answer: Answer, at: number) => Ack | Promise<Ack>;
  readonly unfinishedPolicy?: HandlerUnfinishedPolicy;
}

function serve<Answer extends PauseAnswer, State, Ack>(live: LiveRun, kind: Answering<Answer, State, Ack>): void {
  const { update, purpose, parse } = kind;
  onUpdate(live, UPDATES[update], {
    ...kind,
    read: (input) => parsed(live.isSigned ? openedAnswer(input, parse) : parse(input), 'DECISION_INVALID'),
    check: (answer) => {
      if (live.isSigned) assertSignedAnswer(live, purpose, answer);
      const admission = kind.admit(live, answer, Date.now());
      if (admission.kind === 'repeat') return refuseWith(kind.refuseRepeat?.(live, answer));
      if (admission.kind === 'refuse') return refuseWith(endingOr(live, admission));
      if (live.closing) throw closed();
      refuseWith(madeInTime(answer, live.decidedIn) ?? kind.refuse?.(live, admission.state, answer));
    },
    act: (answer) => {
      if (live.isSigned) refuseWith(refuseUnproven(live, purpose, answer));
      const now = Date.now();
      const admission = kind.admit(live, answer, now);
      if (admission.kind === 'repeat') return admission.ack;
      // Refused here only if it raced another in the same task: its validator ran before the other's handler.
      refuseWith(admission);
      return kind.record(live, admission.state, answer, now);
    },
  });
}

const DECIDE: Answering<SignedDecision, WaitingForConsent, DecisionAck> = {
  update: 'decide',
  description: 'Decide one waiting call',
  purpose: 'decide',
  parse: parseDecision,
  admit: admitted,
  refuse: (live, _, decision) => (isEdit(decision) ? refuseFlood(live, decision) : undefined),
  // After a reset the gate takes no consent from the discarded run, so nobody is told that it counts.
  refuseRepeat: (live, decision) => madeInTime(decision, live.decidedIn),
  record: decide,
  // A run that ends first answers the senders whose edits are being judged.
  unfinishedPolicy: HandlerUnfinishedPolicy.ABANDON,
};

const RESOLVE: Answering<SignedResolution, Paused, PauseAck> = {
  update: 'resolveOutcome',
  description: 'Say what became of a call whose outcome is not known, or that it is sent again',
  purpose: 'resolveOutcome',
  parse: parseResolution,
  admit: admittedFor('outcome'),
  refuse: (live, _, resolution) => refuseLongResult(resolution, live.prepared.limits),
  // Sound: the answer was admitted for a request about this kind. The same holds for the casts below.
  record: (live, state, resolution, at) =>
    recorded(live, resolve(live.run, state as WaitingForAnswer<OutcomePause>, resolution, live.ids, at)),
};

const PROVIDE: Answering<SignedProvision, Paused, PauseAck> = {
  update: 'provideInput',
  description: 'Answer what a server asks for in the middle of a call',
  purpose: 'provideInput',
  parse: parseProvision,
  admit: admittedFor('input'),
  refuse: (live, state, provision) => refuseProvision(live.run, state as Paused<InputPause>, provision),
  record: (live, state, provision, at) => recorded(live, provide(live.run, state as Paused<InputPause>, provision, at)),
};

const AUTHORIZE: Answering<SignedAuthorization, Paused, PauseAck> = {
  update: 'authorize',
  description: 'Consent to scopes for a call, or give another grant, where its server wants another authorization',
  purpose: 'authorize',
  parse: parseAuthorization,
  admit: admittedFor('authorization'),
  refuse: (live, state, answer) =>
    refuseAuthorization(state as WaitingForAnswer, answer, live.prepared.initiator.id, Date.now(), live.trust),
  record: (live, state, answer, at) => recorded(live, authorize(live.run, state as WaitingForAnswer, answer, at)),
};

function admittedFor(asked: PauseKind): Answering<PauseAnswer, Paused, PauseAck>['admit'] {
  return (live, answer, now) => admitAnswer(live.run, asked, answer, live.ids, now);
}

function recorded<Ack>(live: LiveRun, { ack, ...change }: Change & { readonly ack: Ack }): Ack {
  live.commit(change);
  return ack;
}

/** Admits a decision within the limits of the run. @param now epoch ms */
function admitted(live: LiveRun, decision: SignedDecision, now: number): Admission {
  const { run, ids, endsAt, trust } = live;
  const admission =
    trust === undefined
      ? admit(run, decision, ids, now, endsAt)
      : admitSigned(run, decision, ids, now, { endsAt, trust });
  if (admission.kind !== 'accept') return admission;
  const { limits } = live.prepared;
  const refusal =
    decision.kind === 'respond'
      ? refuseLong(decision, 'answer', decision.answer, limits)
      : isEdit(decision)
        ? refuseEdit(live.run, admission.state, decision, limits)
        : undefined;
  return refusal ?? admission;
}

/** @param at epoch ms */
function decide(
  live: LiveRun,
  state: WaitingForConsent,
  decision: SignedDecision,
  at: number,
): DecisionAck | Promise<DecisionAck> {
  if (isEdit(decision)) return decideEdited(live, state, decision);
  return acceptDecision(live, state, decision, at);
}

/** Records an admitted decision. If it stands, also releases the waiting calls that it covers. @param at epoch ms */
function acceptDecision(live: LiveRun, state: WaitingForConsent, decision: SignedDecision, at: number): DecisionAck {
  const { ack, ...change } = accept(live.run, state, decision, at);
  const mayStand = decision.kind === 'approve' && (decision.remember !== undefined || live.run.standing !== undefined);
  const after = mayStand ? standingAfter(live, change.run, state, at) : { run: change.run, facts: [] };
  live.commit({ run: after.run, facts: [...change.facts, ...after.facts] });
  return ack;
}

function standingAfter(live: LiveRun, run: Run, { call, judgement }: WaitingForConsent, at: number): Change {
  const grant = live.spec.grants?.find(({ server }) => server === judgement.target.server);
  return remembered(run, call.callId, at, grant === undefined ? undefined : hashOf(grant));
}

async function decideEdited(live: LiveRun, state: WaitingForConsent, decision: EditDecision): Promise<DecisionAck> {
  const answer = await editCall(live, state, decision, admitted);
  if (!isRefusal(answer)) return answer;
  // The message is in history, so the ledger says what became of it.
  refuseInLedger(live, decision, answer.code);
  throw failureOf(answer.code, answer.message, answer.facts);
}

/**
 * Takes a decision by signal. Only the dispatch, which is live code, checks that it was made in a run that counts: a
 * late reject, made before a reset, still rejects (docs/adr/0017).
 */
function decideBySignal(live: LiveRun, input: unknown): void | Promise<void> {
  const seen = seenAs(live, input);
  const shape = live.isSigned ? openedAnswer(seen, parseDecision) : parseDecision(seen);
  if (shape.kind === 'bad') return refuseInLedger(live, UNREAD, 'DECISION_INVALID');
  const decision = shape.value;
  const now = Date.now();
  const admission = (live.isSigned ? refuseUnsigned(live, decision) : undefined) ?? admitted(live, decision, now);
  const refusal =
    admission.kind === 'refuse'
      ? admission
      : (refuseUntold(decision) ?? (isEdit(decision) ? refuseFlood(live, decision) : undefined));
  if (refusal !== undefined) return refuseInLedger(live, decision, refusal.code);
  if (admission.kind !== 'accept') return undefined;
  if (isEdit(decision)) return editBySignal(live, admission.state, decision);
  return void acceptDecision(live, admission.state, decision, now);
}

/**
 * Refuses a `respond` by signal: its answer is never proven at a dispatch, and after a reset, when Temporal delivers
 * signals again, nothing would show whether it was given before.
 */
function refuseUntold({ kind, callId }: SignedDecision): Refusal | undefined {
  if (kind !== 'respond') return undefined;
  return refuse('DECISION_NOT_PERMITTED', `An answer to call ${callId} is taken by update only.`, { callId });
}

async function editBySignal(live: LiveRun, state: WaitingForConsent, decision: EditDecision): Promise<void> {
  const answer = await editCall(live, state, decision, admitted);
  if (isRefusal(answer)) refuseInLedger(live, decision, answer.code);
}

type Sender = Pick<SignedDecision, 'callId' | 'decisionId' | 'approver'>;

const UNREAD: Sender = { callId: 'unknown', decisionId: 'unknown', approver: { id: 'unknown', groups: [] } };

/** Records the refusal, unless the ledger already has its last entry. */
function refuseInLedger(live: LiveRun, { callId, decisionId, approver }: Sender, code: ErrorCode): void {
  if (live.closing) return;
  live.record({ kind: 'decision.refused', callId, decisionId, approver: approver.id, code });
}

export function closed(): ApplicationFailure {
  return failureOf('RUN_CLOSED', 'The run is ending; start another one.', { runId: workflowInfo().workflowId });
}

/** Replaces `CALL_UNKNOWN` while the run is ending: such a run makes no further calls. */
function endingOr(live: LiveRun, refusal: Refusal): Refusal {
  if (refusal.code !== 'CALL_UNKNOWN' || !(live.closing || live.work.consideredCancelled)) return refusal;
  const { callId = '' } = refusal.facts;
  return refuse('RUN_CLOSED', `The run is ending: call ${callId} waits for nobody any more. Nothing was changed.`, {
    callId,
    runId: workflowInfo().workflowId,
  });
}
