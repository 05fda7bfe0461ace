/**
 * A person answers here if a server requires another authorization than it got: consent to scopes, or another grant.
 *
 * 1. Consent covers the one call that was shown, and the scopes that were named (INV-S2).
 * 2. A grant replaces the run's own for that server. Only the subject whose grant it replaces may give it.
 * 3. The number of such requests per call is bounded: a server that is never content does not keep a run.
 */
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { AuthorizationPause, PauseAck, SignedAuthorization } from '../../contracts/schemas/request.ts';
import type { Grant } from '../../contracts/schemas/run-spec.ts';
import type { TrustSet } from '../../contracts/schemas/trust.ts';
import type { Authorized } from '../../contracts/wire/carry.ts';
import type { AuthorizationNeed } from '../../contracts/wire/proofs.ts';
import { isMet } from '../policy/approvers.ts';
import {
  type Change,
  type Dispatched,
  grantsFor,
  isDispatched,
  replaceCall,
  type Run,
  settled,
  type WaitingForAnswer,
} from '../state/run.ts';
import { byteLength, canonicalJson, hashOf } from '../text/canonical.ts';
import { type Refusal, refuse } from '../text/refusal.ts';
import { tellDue } from './deadline.ts';
import { namedIn, refuseSurplus, voterOf } from './decision.ts';
import { outcomeFact } from './digest.ts';
import { answerFact, remembering, resumed } from './pause.ts';
import { refuseSameKey } from './signed-answer.ts';

export const MOST_AUTHORIZATIONS = 3;
const LONGEST_MESSAGE = 1_000;
/** Bytes of a grant as canonical JSON. The run keeps the grant, and sends it with each call to the server. */
const MOST_GRANT_BYTES = 16_384;

/** Returns the pause that a call needs; undefined once the call caused `MOST_AUTHORIZATIONS` requests. */
export function authorizationPause(
  { judgement, authorized = [] }: Dispatched,
  { reason, message, wants, scopes }: AuthorizationNeed,
): AuthorizationPause | undefined {
  if (authorized.length >= MOST_AUTHORIZATIONS) return undefined;
  return {
    kind: 'authorization',
    server: judgement.target.server,
    reason,
    message: message.slice(0, LONGEST_MESSAGE),
    wants,
    ...(scopes === undefined ? {} : { scopes: [...scopes] }),
    round: authorized.length + 1,
  };
}

/** Refuses an answer that gives something other than what the server requires. @param at epoch ms */
export function refuseAuthorization(
  state: WaitingForAnswer,
  answer: SignedAuthorization,
  initiatorId: string,
  at: number,
  trust?: Pick<TrustSet, 'keys'>,
): Refusal | undefined {
  const { about } = state.request;
  const { callId, approver } = answer;
  if (about.kind !== 'authorization' || answer.kind === 'decline') return undefined;
  if (answer.kind !== about.wants)
    return refuse(
      'DECISION_NOT_PERMITTED',
      about.wants === 'grant'
        ? `Call ${callId} needs a fresh grant for ${about.server}; consent does not give it one.`
        : `Call ${callId} waits for consent to what its request names; a grant is not asked for.`,
      { callId },
    );
  if (answer.kind === 'grant') {
    if (approver.id !== initiatorId)
      return refuse('APPROVER_NOT_ENTITLED', `Only ${initiatorId} may replace the grant of this run.`, { callId });
    if (answer.grant.server !== about.server)
      return refuse('DECISION_INVALID', `The grant must be for ${about.server}.`, { callId, path: 'grant.server' });
    const bytes = byteLength(canonicalJson(answer.grant));
    if (bytes <= MOST_GRANT_BYTES) return undefined;
    return refuse(
      'DECISION_INVALID',
      `The grant has ${bytes} bytes; ${MOST_GRANT_BYTES} are allowed. It goes with each call to ${about.server}: seal a shorter token, or put it into the vault.`,
      { callId, path: 'grant.jwe' },
    );
  }
  const earlier = (state.agreed ?? []).map((each) => each.answer);
  const agreed = (state.agreed ?? []).map(({ answer: { approver: by }, decidedAt }) => ({ approver: by, decidedAt }));
  return (
    refuseSurplus(state, agreed, answer, at, 'consented for') ??
    (trust && refuseSameKey(trust, earlier, answer, 'consented for'))
  );
}

/** Records an admitted answer. @param at epoch ms */
export function authorize(
  run: Run,
  asked: WaitingForAnswer,
  answer: SignedAuthorization,
  at: number,
): Change & { readonly ack: PauseAck } {
  const due = tellDue(asked, at);
  const { state } = due;
  const { agreed = [] } = state;
  const voters = [...agreed, { answer, decidedAt: at }].map((each) => voterOf(state, each.answer, each.decidedAt));
  const isPartial = answer.kind === 'consent' && !isMet(state.request.approvers, voters);
  const recorded = (after: Run, ...more: readonly LedgerFact[]): Change & { readonly ack: PauseAck } => ({
    ...remembering(after, 'authorization', answer, at),
    facts: [...due.facts, authorizedFact(state, answer, isPartial), ...more],
  });
  if (isPartial) return recorded(replaceCall(run, { ...state, agreed: [...agreed, { answer, decidedAt: at }] }));
  if (answer.kind === 'decline') {
    const by = namedIn([state.request.approvers], answer.approver);
    const outcome = { kind: 'rejected', by: answer.approver.id, reason: answer.reason } as const;
    const ended = settled(state, outcome, undefined, { status: 'resolved', by, at });
    return recorded(replaceCall(run, ended), outcomeFact(answer.callId, ended.outcome));
  }
  const { definitionHash } = state.judgement.target;
  // Sound: the answer was admitted to a request of this kind.
  const request = state.request as Authorized['request'];
  const further = answer.kind === 'consent' && state.agreed !== undefined ? { further: state.agreed } : {};
  const given: Authorized = { answer, decidedAt: at, request, definitionHash, ...further };
  const next = { ...resumed(state, state.retry), authorized: [...(state.authorized ?? []), given] };
  const resumedRun = replaceCall(run, next);
  return recorded(answer.kind === 'grant' ? regranted(resumedRun, given) : resumedRun);
}

/** Applies a new grant to later calls to that server. A call in flight there keeps the one that it was sent with. */
function regranted(run: Run, given: Authorized): Run {
  const { server } = given.request.about;
  const former = newestGrant(run, server);
  const calls = run.calls.map((state) =>
    former !== undefined &&
    (isDispatched(state) || state.status === 'asking-on-connection') &&
    state.judgement.target.server === server
      ? { grant: former, ...state }
      : state,
  );
  return {
    ...run,
    calls,
    grants: [...(run.grants ?? []).filter(({ request }) => request.about.server !== server), given],
  };
}

/** Returns the given grant with which a call in flight was sent, or the newest one given for its server. */
export function givenGrant(run: Run, { judgement, grant }: Dispatched): Grant | undefined {
  return grant ?? newestGrant(run, judgement.target.server);
}

function newestGrant(run: Run, server: string): Grant | undefined {
  const answer = grantsFor(run, server)[0]?.answer;
  return answer?.kind === 'grant' ? answer.grant : undefined;
}

export function authorizationsOf(run: Run, { judgement, authorized = [] }: Dispatched): readonly Authorized[] {
  return [...authorized.filter(({ answer }) => answer.kind === 'consent'), ...grantsFor(run, judgement.target.server)];
}

function authorizedFact(state: WaitingForAnswer, answer: SignedAuthorization, isPartial: boolean): LedgerFact {
  const comment = answer.kind === 'decline' ? answer.reason : answer.comment;
  return {
    kind: 'authorization.given',
    ...answerFact(state, { ...answer, comment }),
    ...(isPartial ? { counted: true as const } : {}),
    ...(answer.kind === 'grant' ? { grantHash: hashOf(answer.grant) } : {}),
  };
}
