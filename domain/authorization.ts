/**
 * What a person says where a server wants another authorization than it got, and what the call may do then.
 *
 * 1. Consent to scopes is for the one call that was shown, and for the scopes that were named (INV-S2).
 * 2. A grant takes the place of the run's own for that server. Only the subject whose grant it replaces may give it.
 * 3. A call is asked about so often and not more: a server that is never content does not keep a run.
 */
import type { AuthorizationNeed } from '../contracts/dispatch-proof.ts';
import type { LedgerFact } from '../contracts/schemas/ledger.ts';
import type { AuthorizationPause, PauseAck } from '../contracts/schemas/pause.ts';
import type { ApproverRule } from '../contracts/schemas/policy.ts';
import type { Grant } from '../contracts/schemas/run-spec.ts';
import type { SignedAuthorization } from '../contracts/schemas/authorization.ts';
import type { TrustSet } from '../contracts/schemas/trust.ts';
import { answerFact } from './answer-fact.ts';
import { isMet, isWanted, type Voter } from './approver.ts';
import type { InFlight } from './call-state.ts';
import type { Authorized } from './pause-answers.ts';
import { initiatorRule } from './clause.ts';
import { byteLength, canonicalJson, hashOf } from './canonical.ts';
import { namedIn } from './decision.ts';
import { outcomeFact } from './facts.ts';
import { isSameVoice } from './signed-message.ts';
import { answererOf, type Paused, remembering, resumed } from './pause.ts';
import { type Refusal, refuse } from './refusal.ts';
import { type Change, replaceCall, type Run } from './run.ts';
import { settled } from './settlement.ts';
import { tellDue } from './steps.ts';

/** Times that one call is asked about. */
export const MOST_AUTHORIZATIONS = 3;
const LONGEST_MESSAGE = 1_000;
/** As canonical JSON: the run keeps it, and sends it with each call to the server. */
const MOST_GRANT_BYTES = 16_384;

/** Undefined where the call was asked about as often as it is. */
export function authorizationPause(
  { judgement, authorized = [] }: InFlight,
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

/** Whose grant it replaces. */
export function grantorOf(initiatorId: string): ApproverRule {
  return initiatorRule(initiatorId);
}

/** Of an answer that is otherwise taken. @param at epoch ms */
export function refuseAuthorization(
  state: Paused,
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
  return refuseConsent(state, answer, at) ?? refuseVoice(state, answer, trust);
}

/** Of several who must consent, each counts once, and only as long as somebody like them is needed: as for approvals. */
function refuseConsent(state: Paused, answer: SignedAuthorization, at: number): Refusal | undefined {
  const { callId, approver } = answer;
  const own = state.agreed?.find((each) => each.answer.approver.id === approver.id);
  if (own !== undefined) {
    const decidedAt = new Date(own.decidedAt).toISOString();
    const message = `${approver.id} consented for call ${callId} at ${decidedAt}; others must consent, too.`;
    return refuse('ALREADY_DECIDED', message, { callId, decidedBy: approver.id, decidedAt });
  }
  if (isWanted(state.request.approvers, votersOf(state), answererOf(state, answer, at))) return undefined;
  const message = `Enough of those like ${approver.id} have consented for call ${callId}; others are needed.`;
  return refuse('APPROVER_NOT_ENTITLED', message, { callId });
}

/** In trust mode `signed`, one key is one voice: as for approvals. */
function refuseVoice(
  { agreed = [] }: Paused,
  { callId, signature = '' }: SignedAuthorization,
  trust: Pick<TrustSet, 'keys'> | undefined,
): Refusal | undefined {
  const earlier = agreed.map(({ answer }) => answer.signature ?? '');
  if (trust === undefined || !isSameVoice(trust, earlier, signature)) return undefined;
  const message = `Somebody has consented for call ${callId} with the same key; one key is one voice, and another one is needed.`;
  return refuse('APPROVER_NOT_ENTITLED', message, { callId });
}

function votersOf(state: Paused): Voter[] {
  return (state.agreed ?? []).map(({ answer, decidedAt }) => answererOf(state, answer, decidedAt));
}

/** Records an admitted answer. @param at epoch ms */
export function authorize(
  run: Run,
  asked: Paused,
  answer: SignedAuthorization,
  at: number,
): Change & { readonly ack: PauseAck } {
  const due = tellDue(asked, at);
  // Sound: telling changes nothing but what was told.
  const state = due.state as Paused;
  const isPartial =
    answer.kind === 'consent' && !isMet(state.request.approvers, [...votersOf(state), answererOf(state, answer, at)]);
  const facts = [...due.facts, authorizedFact(state, answer, isPartial)];
  if (isPartial) {
    const asking = { ...state, agreed: [...(state.agreed ?? []), { answer, decidedAt: at }] };
    return { ...remembering(replaceCall(run, asking), 'authorization', answer, at), facts };
  }
  if (answer.kind === 'decline') {
    const by = namedIn([state.request.approvers], answer.approver);
    const outcome = { kind: 'rejected', by: answer.approver.id, reason: answer.reason } as const;
    const ended = settled(state, outcome, undefined, { status: 'resolved', by, at });
    return {
      ...remembering(replaceCall(run, ended), 'authorization', answer, at),
      facts: [...facts, outcomeFact(answer.callId, ended.outcome)],
    };
  }
  const { definitionHash } = state.judgement.target;
  // Sound: the answer was admitted to a request of this kind.
  const request = state.request as Authorized['request'];
  const further = answer.kind === 'consent' && state.agreed !== undefined ? { further: state.agreed } : {};
  const given: Authorized = { answer, decidedAt: at, request, definitionHash, ...further };
  const next = { ...resumed(state, state.retry), authorized: [...(state.authorized ?? []), given] };
  const resumedRun = replaceCall(run, next);
  return {
    ...remembering(answer.kind === 'grant' ? regranted(resumedRun, given) : resumedRun, 'authorization', answer, at),
    facts,
  };
}

/** From now on, for every call to that server. What is in flight there is asked about with the one that it was sent with. */
function regranted(run: Run, given: Authorized): Run {
  const { server } = given.request.about;
  const former = newestGrant(run, server);
  const calls = run.calls.map((state) =>
    former !== undefined && state.status === 'in-flight' && state.judgement.target.server === server
      ? { grant: former, ...state }
      : state,
  );
  return {
    ...run,
    calls,
    grants: [...(run.grants ?? []).filter(({ request }) => request.about.server !== server), given],
  };
}

/** The newest grant that was given for a server. */
export function grantsFor({ grants = [] }: Run, server: string): readonly Authorized[] {
  return grants.filter(({ request }) => request.about.server === server);
}

/** The one that was given to the run, with which a call in flight was sent; where none was, the newest. */
export function givenGrant(run: Run, { judgement, grant }: InFlight): Grant | undefined {
  return grant ?? newestGrant(run, judgement.target.server);
}

function newestGrant(run: Run, server: string): Grant | undefined {
  const answer = grantsFor(run, server)[0]?.answer;
  return answer?.kind === 'grant' ? answer.grant : undefined;
}

/** What a dispatch is given: the consents to this call, and the newest grant for its server. */
export function authorizationsOf(run: Run, { judgement, authorized = [] }: InFlight): readonly Authorized[] {
  return [...authorized.filter(({ answer }) => answer.kind === 'consent'), ...grantsFor(run, judgement.target.server)];
}

function authorizedFact(state: Paused, answer: SignedAuthorization, isPartial: boolean): LedgerFact {
  const comment = answer.kind === 'decline' ? answer.reason : answer.comment;
  return {
    kind: 'authorization.given',
    ...answerFact(state, { ...answer, comment }),
    ...(isPartial ? { counted: true as const } : {}),
    ...(answer.kind === 'grant' ? { grantHash: hashOf(answer.grant) } : {}),
  };
}
