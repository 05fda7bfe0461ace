/**
 * A decision is admitted or refused here, and recorded (INV-G2). The update validator and the signal handler both call
 * `admit`, which is pure and synchronous.
 *
 * 1. A decision settles exactly the request whose digest it echoes, once. If several must agree, the last of them
 *    settles it.
 * 2. The same decision id with the same content gets its first answer, also after continue-as-new (INV-D3).
 * 3. Nothing here depends on the current Temporal run. The digest is recomputed for the run that the decision names;
 *    `madeInTime` checks apart, in live code only, that this run counts (INV-D4).
 */
import { defined } from '../../contracts/defined.ts';
import type { Approver, Decision, DecisionAck, SignedDecision } from '../../contracts/schemas/request.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { ApproverRule } from '../../contracts/schemas/policy.ts';
import { groupsOf, isMet, isWanted, mayDecide, type Voter } from '../policy/approvers.ts';
import { callOf, type Change, MOST_ANSWERED, replaceCall, type Run, type RunIds } from '../state/run.ts';
import { signatureEvidence } from '../signing/jws.ts';
import { hashOf, sha256Hex } from '../text/canonical.ts';
import { type Refusal, refuse } from '../text/refusal.ts';
import { type Asking, type CallState, decided, isAsking, voted, type WaitingForConsent } from '../state/call.ts';
import { isUsed, refuseClosed, refuseUntimely, refuseUpdate, refuseUsed } from './closed-or-expired.ts';
import { extended, refuseExtension, tellDue } from './deadline.ts';
import { outcomeFact } from './digest.ts';
import { isEdit, refuseRight } from './rights.ts';
import { refuseRemember } from './standing.ts';
import type { Answered } from '../../contracts/wire/carry.ts';

/** Characters kept of the hash of each accepted decision. */
const HASH_CHARACTERS = 32;

export type Admission =
  | { readonly kind: 'accept'; readonly state: WaitingForConsent }
  | { readonly kind: 'repeat'; readonly ack: DecisionAck }
  | Refusal;

/**
 * Admits a decision, recognises a repeat, or says why the decision does not count.
 * @param now epoch ms
 * @param endsAt end of the run by `limits.wallClockSeconds`, epoch ms
 */
export function admit(
  run: Run,
  decision: Decision,
  ids: Omit<RunIds, 'runId'>,
  now: number,
  endsAt = Number.POSITIVE_INFINITY,
): Admission {
  const { callId } = decision;
  const before = run.answered.find(({ ack }) => ack.decisionId === decision.decisionId);
  if (before !== undefined && isSame(before, decision)) return { kind: 'repeat', ack: before.ack };
  if (before !== undefined || isUsed(run, decision.decisionId)) return refuseUsed(decision);
  const state = callOf(run, callId);
  if (!isAsking(state)) return refuseClosed(run, state, callId);
  if (state.status !== 'waiting-for-consent') return refuseUpdate(state.request.about.kind, callId);
  const untimely = refuseUntimely(state, decision, ids, now);
  if (untimely !== undefined) return untimely;
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
  return refusal ?? refuseRemember(run, state, decision, now) ?? { kind: 'accept', state };
}

/** If several must agree, each person counts once, and only while one more of their group is needed. */
function refuseVote(
  state: WaitingForConsent,
  decision: Exclude<Decision, { kind: 'extend' }>,
  now: number,
): Refusal | undefined {
  const { votes = [], request } = state;
  const { kind, callId, approver } = decision;
  const own = votes.find((vote) => vote.decision.approver.id === approver.id);
  if (kind === 'withdraw')
    return own === undefined
      ? refuse('REQUEST_NOT_OPEN', `${approver.id} has not agreed to call ${callId}; there is nothing to take back.`, {
          callId,
        })
      : undefined;
  // An edit is another proposal, on which nobody has voted yet.
  if (kind === 'reject' || kind === 'respond' || isEdit(decision)) return undefined;
  if (own !== undefined) {
    const decidedAt = new Date(own.decidedAt).toISOString();
    return refuse(
      'ALREADY_DECIDED',
      `${approver.id} agreed to call ${callId} at ${decidedAt}; others must agree too. To agree anew, take it back first (withdraw).`,
      { callId, decidedBy: approver.id, decidedAt },
    );
  }
  const agreed = votes.map((vote) => voterOf(state, vote.decision, vote.decidedAt));
  if (isWanted(request.approvers, agreed, voterOf(state, decision, now))) return undefined;
  return refuse(
    'APPROVER_NOT_ENTITLED',
    `Enough of those like ${approver.id} have agreed to call ${callId}; others are needed.`,
    { callId },
  );
}

/**
 * Returns the approver and the time since the request opened; both decide for which list of the rule the vote counts.
 * @param at epoch ms
 */
function voterOf({ request }: Asking, { approver }: Decision, at: number): Voter {
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

/**
 * Records an admitted decision.
 * @param at epoch ms
 */
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
      acceptedFact(run, state, { ...decision, approver }, status),
      ...(next.status === 'settled' ? [outcomeFact(decision.callId, next.outcome)] : []),
    ],
  };
}

/**
 * Remembers the acknowledgement, so that the same decision gets it again.
 * @param at epoch ms
 */
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
  const known = { ack, ...rememberedOf(run, decision) };
  return { ack, run: { ...run, answered: [...run.answered, known].slice(-MOST_ANSWERED) } };
}

function rememberedOf(
  { decisionIds }: Run,
  decision: Decision,
): { readonly message: string } | { readonly digest: string; readonly content?: string } {
  if (decisionIds === 'compared') return { message: messageOf(decision) };
  const content = contentOf(decision);
  return { digest: decision.digest, ...defined({ content }) };
}

/** Makes the run compare whole decisions of one id from now on, comments and reasons included. */
export function comparingDecisions(run: Run): Run {
  return { ...run, decisionIds: 'compared' };
}

/** The signature is left out: the same decision signed anew counts as the same. */
function messageOf({ signature: _, ...decision }: SignedDecision): string {
  return hashOf(decision).slice(0, HASH_CHARACTERS);
}

export function acceptedFact(
  { refusals }: Run,
  { request, call }: Asking,
  decision: SignedDecision,
  status: DecisionAck['status'],
): Extract<LedgerFact, { kind: 'decision.accepted' }> {
  const comment = decision.kind === 'reject' ? decision.reason : decision.comment;
  // Runs prepared before repeats were answered replay with ledger entries that do not mark partial votes (INV-D1).
  const isPartial = status === 'edited' || (status === 'counted' && refusals !== undefined);
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
      const left = votes.filter((vote) => vote.decision.approver.id !== decision.approver.id);
      return { next: voted(state, left), status: 'withdrawn' };
    }
    case 'extend':
      return { next: extended(state, decision, decidedAt), status: 'extended' };
    case 'approve': {
      const agreed = [...votes, { decision, decidedAt }].map((vote) => voterOf(state, vote.decision, vote.decidedAt));
      if (isMet(request.approvers, agreed))
        return { next: decided(state, { decision, decidedAt }), status: 'approved' };
      // The ledger has the comment, so an unsigned vote drops it: votes travel with the request.
      const { comment: _, ...unsigned } = decision;
      const vote = decision.signature === undefined ? unsigned : decision;
      return { next: voted(state, [...votes, { decision: vote, decidedAt }]), status: 'counted' };
    }
  }
}

/** Keeps only the groups that some rule names, since the result is carried through continue-as-new. */
export function namedIn(rules: readonly ApproverRule[], { id, groups }: Approver): Approver {
  const named = new Set(rules.flatMap(groupsOf));
  return { id, groups: groups.filter((group) => named.has(group)) };
}

const KIND_OF: Readonly<Record<DecisionAck['status'], Decision['kind']>> = {
  approved: 'approve',
  counted: 'approve',
  rejected: 'reject',
  withdrawn: 'withdraw',
  extended: 'extend',
  answered: 'respond',
  edited: 'approve',
};

/**
 * Hashes what makes two decisions of one kind on one request differ in effect; used by runs that do not compare them
 * whole.
 */
function contentOf(decision: Decision): string | undefined {
  if (decision.kind === 'approve') {
    const { arguments: args, remember } = decision;
    if (remember !== undefined) return hashOf({ arguments: args, remember });
    return args === undefined ? undefined : hashOf(args);
  }
  return decision.kind === 'respond' ? sha256Hex(decision.answer) : undefined;
}

function isSame(known: Answered, decision: Decision): boolean {
  if ('message' in known) return known.message === messageOf(decision);
  const { ack, digest, content } = known;
  return (
    ack.callId === decision.callId &&
    ack.decidedBy === decision.approver.id &&
    KIND_OF[ack.status] === decision.kind &&
    ack.until === untilOf(decision).until &&
    digest === decision.digest &&
    content === contentOf(decision)
  );
}
