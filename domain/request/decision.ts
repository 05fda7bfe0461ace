/**
 * A decision is admitted or refused here, and recorded (INV-G2). Other answers are admitted by the same rules
 * (`admitTo`); `domain/request/pause.ts` adds theirs.
 *
 * 1. A decision settles exactly the request whose digest it echoes, once. If several must agree, the last one does.
 * 2. The same decision id with the same content gets its first answer, also after continue-as-new (INV-D3).
 * 3. Nothing here depends on the current Temporal run: the digest is that of the run that the decision names.
 *    `madeInTime` checks apart, in live code only, that this run counts (INV-D4).
 * 4. Approvers may edit, or answer in the tool's place, only if each list of the rule says so (INV-G4).
 *
 * One file, because whether a decision counts is one question with one order of checks.
 */
import { defined } from '../../contracts/defined.ts';
import { turnOf } from '../../contracts/names.ts';
import type { Outcome } from '../../contracts/schemas/call.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { ApproverRule, DecisionRight } from '../../contracts/schemas/policy.ts';
import type { Approver, Decision, DecisionAck, PauseKind, SignedDecision } from '../../contracts/schemas/request.ts';
import type { Limits } from '../../contracts/schemas/run-spec.ts';
import type { Remembered } from '../../contracts/wire/carry.ts';
import { groupsOf, isMet, isSamePerson, isWanted, mayDecide, type Voter } from '../policy/approvers.ts';
import { signatureEvidence } from '../signing/jws.ts';
import {
  type Answerable,
  answeredWith,
  type Asking,
  callOf,
  type CallState,
  type Change,
  decided,
  isAsking,
  isDispatched,
  isEdit,
  isPauseAnswer,
  replaceCall,
  type Run,
  type RunIds,
  voted,
  type WaitingForConsent,
  withoutComment,
} from '../state/run.ts';
import { byteLength, hashOf, sha256Hex, shortHashOf } from '../text/canonical.ts';
import { type Refusal, refuse } from '../text/refusal.ts';
import { extended, refuseExtension, tellDue } from './deadline.ts';
import { digestOf, outcomeFact } from './digest.ts';
import { refuseRemember } from './standing.ts';

export type AdmissionOf<State, Ack> =
  | { readonly kind: 'accept'; readonly state: State }
  | { readonly kind: 'repeat'; readonly ack: Ack }
  | Refusal;
export type Admission = AdmissionOf<WaitingForConsent, DecisionAck>;

interface Expected<State extends Asking, Ack> {
  readonly isAsked: (state: Asking) => state is State;
  readonly repeated: (known: Remembered) => Ack | undefined;
}

/** Admits an answer of any kind, recognises a repeat, or refuses. Callers ask who may answer. @param now epoch ms */
export function admitTo<State extends Asking, Ack>(
  run: Run,
  answer: Answerable,
  { isAsked, repeated }: Expected<State, Ack>,
  ids: Omit<RunIds, 'runId'>,
  now: number,
): AdmissionOf<State, Ack> {
  const { callId, decisionId } = answer;
  // Temporal tells updates apart by this id, so all kinds of answers share it.
  const known = run.answered.find(({ ack }) => ack.decisionId === decisionId);
  const ack = known && repeated(known);
  if (ack !== undefined) return { kind: 'repeat', ack };
  if (known !== undefined)
    return refuse('DECISION_INVALID', `Decision id ${decisionId} was used for another decision; send a new id.`, {
      callId,
      path: 'decisionId',
    });
  const state = callOf(run, callId);
  if (!isAsking(state)) return refuseClosed(run, state, callId);
  if (!isAsked(state)) return refuseUpdate(state.request.about?.kind, callId);
  return refuseUntimely(state, answer, ids, now) ?? { kind: 'accept', state };
}

/**
 * Admits a decision, recognises a repeat, or says why it does not count; for validator and signal alike.
 * @param now epoch ms
 * @param endsAt end of the run, epoch ms
 */
export function admit(
  run: Run,
  decision: Decision,
  ids: Omit<RunIds, 'runId'>,
  now: number,
  endsAt = Number.POSITIVE_INFINITY,
): Admission {
  const consent: Expected<WaitingForConsent, DecisionAck> = {
    isAsked: (state) => state.status === 'waiting-for-consent',
    repeated: (known) => (isPauseAnswer(known) || known.message !== messageOf(decision) ? undefined : known.ack),
  };
  const admission = admitTo(run, decision, consent, ids, now);
  if (admission.kind !== 'accept') return admission;
  const { callId } = decision;
  const { state } = admission;
  // Approvers may always withdraw their approval, even after they have left the groups that the rule names.
  if (decision.kind !== 'withdraw' && !mayDecide(state.request.approvers, voterOf(state, decision, now))) {
    return refuse(
      'APPROVER_NOT_ENTITLED',
      `${decision.approver.id} may not decide call ${callId}; the request lists who may.`,
      { callId },
    );
  }
  const refusal =
    decision.kind === 'extend'
      ? refuseExtension(state, decision, endsAt)
      : (refuseRight(state, decision) ?? refuseVote(state, decision, now));
  if (refusal !== undefined) return refusal;
  if (decision.kind !== 'approve' || decision.remember === undefined) return admission;
  return refuseRemember(run, state, decision, decision.remember, now) ?? admission;
}

function refuseVote(
  state: WaitingForConsent,
  decision: Exclude<Decision, { kind: 'extend' }>,
  now: number,
): Refusal | undefined {
  const { votes = [], request } = state;
  const { kind, callId, approver } = decision;
  if (kind === 'withdraw') {
    if (votes.some((vote) => isSamePerson(request.approvers, vote.decision.approver.id, approver.id))) return undefined;
    const message = `${approver.id} has not agreed to call ${callId}; there is nothing to take back.`;
    return refuse('REQUEST_NOT_OPEN', message, { callId });
  }
  // An edit is another proposal, on which nobody has voted yet.
  if (kind === 'reject' || kind === 'respond' || isEdit(decision)) return undefined;
  const agreed = votes.map((vote) => ({ approver: vote.decision.approver, decidedAt: vote.decidedAt }));
  return refuseSurplus(state, agreed, decision, now, 'agreed to', ' To agree anew, take it back first (withdraw).');
}

/** If several must agree, each person counts once, and only while one more of their group is needed. */
export function refuseSurplus(
  state: Pick<Asking, 'request'>,
  agreed: readonly { readonly approver: Approver; readonly decidedAt: number }[],
  answer: Pick<Decision, 'callId' | 'approver'>,
  now: number,
  did: 'agreed to' | 'consented for',
  hint = '',
): Refusal | undefined {
  const { callId, approver } = answer;
  const { approvers } = state.request;
  const own = agreed.find((each) => isSamePerson(approvers, each.approver.id, approver.id));
  if (own !== undefined) {
    const decidedAt = new Date(own.decidedAt).toISOString();
    const message = `${approver.id} ${did} call ${callId} at ${decidedAt}; others must do so, too.${hint}`;
    return refuse('ALREADY_DECIDED', message, { callId, decidedBy: approver.id, decidedAt });
  }
  const voters = agreed.map((each) => voterOf(state, each, each.decidedAt));
  if (isWanted(approvers, voters, voterOf(state, answer, now))) return undefined;
  const message = `Enough of those like ${approver.id} have ${did} call ${callId}; others are needed.`;
  return refuse('APPROVER_NOT_ENTITLED', message, { callId });
}

/** Approver and time since the opening: both decide for which list of the rule the vote counts. @param at epoch ms */
export function voterOf(
  { request }: Pick<Asking, 'request'>,
  { approver }: Pick<Decision, 'approver'>,
  at: number,
): Voter {
  return { ...approver, after: at - request.openedAt };
}

/** Refuses a decision made in a Temporal run that does not count. For live code only: a reset changes the answer. */
export function madeInTime(
  decision: Pick<Decision, 'runId' | 'callId'>,
  executions: readonly string[],
): Refusal | undefined {
  if (executions.includes(decision.runId)) return undefined;
  return refuse(
    'DECISION_STALE_RUN',
    `The decision was made for Temporal run ${decision.runId}, which no longer counts; read the request again and decide anew.`,
    { callId: decision.callId },
  );
}

/** Records an admitted decision. @param at epoch ms */
export function accept(
  run: Run,
  state: WaitingForConsent,
  decision: SignedDecision,
  at: number,
): Change & { readonly ack: DecisionAck } {
  const approver = namedIn([state.request.approvers], decision.approver);
  // Due escalations come before the decision in the ledger, although their timer may fire after it.
  const due = tellDue(state, at);
  // A signed decision is kept whole: the dispatch compares it with its signature.
  const kept = decision.signature === undefined ? { ...decision, approver } : decision;
  const { next, status } = counted(due.state, kept, at);
  return {
    ...answeredBy(replaceCall(run, next), decision, status, at),
    facts: [
      ...due.facts,
      acceptedFact(state, { ...decision, approver }, status),
      ...(next.status === 'settled' ? [outcomeFact(decision.callId, next.outcome)] : []),
    ],
  };
}

/** Remembers the acknowledgement, so that the same decision gets it again. @param at epoch ms */
export function answeredBy(
  run: Run,
  decision: Decision,
  status: DecisionAck['status'],
  at: number,
): { readonly run: Run; readonly ack: DecisionAck } {
  const ack: DecisionAck = {
    callId: decision.callId,
    decisionId: decision.decisionId,
    status,
    decidedBy: decision.approver.id,
    decidedAt: new Date(at).toISOString(),
    ...untilOf(decision),
  };
  return { ack, run: answeredWith(run, { ack, message: messageOf(decision) }) };
}

/** The signature is left out: the same decision signed anew counts as the same. */
function messageOf({ signature: _, ...decision }: SignedDecision): string {
  return shortHashOf(decision);
}

export function acceptedFact(
  { request, call }: Asking,
  decision: SignedDecision,
  status: DecisionAck['status'],
): Extract<LedgerFact, { kind: 'decision.accepted' }> {
  const comment = decision.kind === 'reject' ? decision.reason : decision.comment;
  const isPartial = status === 'edited' || status === 'counted';
  return {
    kind: 'decision.accepted',
    callId: decision.callId,
    generation: request.generation,
    decisionId: decision.decisionId,
    decision: decision.kind,
    ...(isPartial ? { counted: true as const } : {}),
    ...untilOf(decision),
    approver: decision.approver,
    digest: decision.digest,
    runId: decision.runId,
    ...defined({ comment }),
    ...(isEdit(decision) ? { edited: { from: hashOf(call.arguments), to: hashOf(decision.arguments) } } : {}),
    ...(decision.kind === 'respond' ? { answerHash: sha256Hex(decision.answer) } : {}),
    ...(decision.signature === undefined ? {} : { signature: signatureEvidence(decision.signature) }),
    ...(decision.kind === 'approve' && decision.remember !== undefined ? { remember: decision.remember } : {}),
  };
}

function untilOf(decision: Decision): { until?: string } {
  return decision.kind === 'extend' ? { until: decision.until } : {};
}

/** Applies a decision to the request. One rejection or answer settles it; an approval does so if no other is needed. */
function counted(
  state: WaitingForConsent,
  decision: SignedDecision,
  decidedAt: number,
): { readonly next: CallState; readonly status: DecisionAck['status'] } {
  const { votes = [], request } = state;
  switch (decision.kind) {
    case 'reject':
      return { next: decided(state, { decision, decidedAt }), status: 'rejected' };
    case 'respond':
      return { next: decided(state, { decision, decidedAt }), status: 'answered' };
    case 'withdraw': {
      const left = votes.filter(
        (vote) => !isSamePerson(request.approvers, vote.decision.approver.id, decision.approver.id),
      );
      return { next: voted(state, left), status: 'withdrawn' };
    }
    case 'extend':
      return { next: extended(state, decision, decidedAt), status: 'extended' };
    case 'approve': {
      const agreed = [...votes, { decision, decidedAt }].map((vote) => voterOf(state, vote.decision, vote.decidedAt));
      if (isMet(request.approvers, agreed))
        return { next: decided(state, { decision, decidedAt }), status: 'approved' };
      // Votes travel with the request.
      const vote = { decision: withoutComment(decision), decidedAt };
      return { next: voted(state, [...votes, vote]), status: 'counted' };
    }
  }
}

/** Keeps only the groups that some rule names, since the result is carried through continue-as-new. */
export function namedIn(rules: readonly ApproverRule[], { id, groups }: Approver): Approver {
  const named = new Set(rules.flatMap(groupsOf));
  return { id, groups: groups.filter((group) => named.has(group)) };
}

const ANSWERED_BY: Readonly<Record<PauseKind, string>> = {
  outcome: 'resolveOutcome (countersign resolve)',
  input: 'provideInput (countersign answer)',
  authorization: 'authorize (countersign authorize)',
};

/** Refuses an answer sent by the wrong update. @param wanted what the request is about; undefined for consent */
function refuseUpdate(wanted: PauseKind | undefined, callId: string): Refusal {
  const update = wanted === undefined ? 'decide (countersign approve, reject)' : ANSWERED_BY[wanted];
  return refuse(
    'DECISION_NOT_PERMITTED',
    `Call ${callId} waits for something else than this: answer it by ${update}. Nothing was changed.`,
    { callId },
  );
}

/** Refuses another digest than the open request's, or an answer after the deadline. @param now epoch ms */
export function refuseUntimely(
  state: Asking,
  { callId, digest, runId }: Answerable,
  ids: Omit<RunIds, 'runId'>,
  now: number,
): Refusal | undefined {
  if (digestOf(state, { ...ids, runId }) !== digest)
    return refuse(
      'DIGEST_MISMATCH',
      `The digest is not that of call ${callId} as it waits now; read the request again before deciding.`,
      { callId },
    );
  if (now >= state.request.deadline) return refuseExpired(callId, new Date(state.request.deadline).toISOString());
  return undefined;
}

/** Decisions that leave nothing to decide; the others leave the request open. */
const SETTLING: ReadonlySet<DecisionAck['status']> = new Set(['approved', 'rejected', 'answered']);

/** Explains why a call that is not asking takes no decision, with the person who decided it, if any. */
function refuseClosed(run: Run, state: CallState | undefined, callId: string): Refusal {
  // Expiry comes first: a call that was approved, asked again and then not answered has expired.
  const expired = run.expired.findLast((entry) => entry.callId === callId);
  if (expired !== undefined) return refuseExpired(callId, expired.deadline);
  const held = isDispatched(state) ? state.questions?.last : undefined;
  if (held?.kind === 'expired') return refuseExpired(callId, new Date(held.deadline).toISOString());
  if (held?.kind === 'cancelled')
    return refuse('REQUEST_NOT_OPEN', `Nobody waits any more for what the server of call ${callId} asked.`, { callId });
  const last = run.answered.findLast(
    ({ ack }) => ack.callId === callId && ('answer' in ack || SETTLING.has(ack.status)),
  );
  if (last !== undefined) {
    const { ack } = last;
    const { decidedBy, decidedAt } = ack;
    const what = 'answer' in ack ? `resolved (${ack.answer})` : ack.status;
    const message = `Call ${callId} was ${what} by ${decidedBy} at ${decidedAt}; nothing was changed.`;
    return refuse('ALREADY_DECIDED', `${message}${becameOf(state, ack)}`, { callId, decidedBy, decidedAt });
  }
  // Calls of closed turns are no longer in the state; a call of a turn that never was is unknown.
  if (state === undefined && !isOver(run, turnOf(callId)))
    return refuse('CALL_UNKNOWN', `This run has no call ${callId}. Read its requests: they name the calls that wait.`, {
      callId,
    });
  return refuse('REQUEST_NOT_OPEN', `Call ${callId} does not wait for a decision.`, { callId });
}

/** Says what became of a decided call since; empty if the decision says it, or if the call goes on. */
function becameOf(state: CallState | undefined, ack: Remembered['ack']): string {
  if (state?.status === 'settled') return notRunSince(state.outcome.kind);
  const isFinal = 'status' in ack && ack.status !== 'approved';
  return state !== undefined || isFinal ? '' : ' Its turn is over: the ledger of the run says what became of it.';
}

/** Says that a call did not run although somebody had let it; empty after any other outcome. */
export function notRunSince(outcome: Outcome['kind']): string {
  if (outcome === 'cancelled') return ' It was withdrawn since, and did not run.';
  return outcome === 'denied' ? ' It was denied since, and did not run.' : '';
}

function refuseExpired(callId: string, deadline: string): Refusal {
  return refuse('DECISION_EXPIRED', `The request for call ${callId} expired at ${deadline}; nothing was changed.`, {
    callId,
  });
}

function isOver({ turn, calls }: Run, asked: number): boolean {
  return asked < turn || (asked === turn && turn > 0 && calls.length === 0);
}

export function permits({ allOf }: ApproverRule, right: DecisionRight): boolean {
  return allOf.length > 0 && allOf.every(({ may }) => may?.includes(right) === true);
}

/** True if the call has begun, may have run, or is hosted, so that it can only be approved or rejected as it is. */
export function isFixed({ unsure, input, judgement }: Asking): boolean {
  return unsure !== undefined || input !== undefined || judgement.target.hosted !== undefined;
}

export function refuseRight({ request, unsure, input, judgement }: Asking, decision: Decision): Refusal | undefined {
  const right = isEdit(decision) ? 'edit' : decision.kind === 'respond' ? 'respond' : undefined;
  if (right === undefined) return undefined;
  const { callId } = decision;
  if (!permits(request.approvers, right)) return notPermitted(right, callId);
  const fixed = (why: string): Refusal =>
    refuse('DECISION_NOT_PERMITTED', `${why}: approve or reject it as it is.`, { callId });
  const { hosted } = judgement.target;
  if (hosted !== undefined)
    return fixed(`The provider of model ${hosted} makes call ${callId} and takes yes or no only`);
  // An answer would claim that the call did not run, and an edit would make another call of it.
  if (input !== undefined) return fixed(`The server has begun call ${callId} and asked for input`);
  return unsure === undefined ? undefined : fixed(`An earlier attempt of call ${callId} may have run`);
}

/** Refuses words in a tool's place over `limits.resultBytes`: the transcript holds them like a tool's result. */
export function refuseLong(
  { callId }: Pick<Decision, 'callId'>,
  path: 'answer' | 'result',
  words: string,
  { resultBytes }: Pick<Limits, 'resultBytes'>,
): Refusal | undefined {
  const bytes = byteLength(words);
  if (bytes <= resultBytes) return undefined;
  const message = `The ${path} has ${bytes} bytes; limits.resultBytes allows ${resultBytes}.`;
  return refuse('DECISION_INVALID', message, { callId, path });
}

export function notPermitted(right: DecisionRight, callId: string): Refusal {
  const what =
    right === 'edit' ? `the arguments of call ${callId} be changed` : `call ${callId} be answered in place of its tool`;
  return refuse('DECISION_NOT_PERMITTED', `Policy does not let ${what}; approve or reject it as it is.`, { callId });
}
