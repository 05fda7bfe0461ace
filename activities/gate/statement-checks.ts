/**
 * Whether a call that may have run is sent again by somebody's word (INV-X1). As little is believed as of consent.
 *
 * 1. The word is proven on what was shown of the call: what was known of it, who was asked, until when.
 * 2. It counts only by whoever would be asked now, and in a Temporal run that counts; else the same is asked again.
 * 3. Where one person does not meet the rule, consent to the call was given after they spoke.
 */
import type { Verdict } from '../../contracts/schemas/call.ts';
import type { CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import type { InputRequests } from '../../contracts/schemas/input.ts';
import type { ApproverRule } from '../../contracts/schemas/policy.ts';
import type { Grant } from '../../contracts/schemas/run-spec.ts';
import type { AuthorizationProof, DispatchProof, ProvisionProof } from '../../contracts/wire/proofs.ts';
import type { DispatchInput } from '../../contracts/wire/tools.ts';
import { type Answerers, answerersOf, isMet, mayDecide, type Voter } from '../../domain/policy/approvers.ts';
import { describeLapse, lapsedSince } from '../../domain/request/deadline.ts';
import { answersTo, problemInResponses } from '../../domain/request/input.ts';
import { answersOf } from '../../domain/request/provision.ts';
import { covers, extentOf, mayRemember } from '../../domain/request/standing.ts';
import { canonicalJson, hashOf } from '../../domain/text/canonical.ts';
import { connectionHash } from '../catalog/connection.ts';
import { forbidden, forbidden as forbiddenInput, type Refused } from '../kit/refused.ts';
import { stricter } from './dispatch-check.ts';
import { digestOfConsent, digestOfPause } from './shown-digest.ts';

export function checkRetry(
  input: DispatchInput,
  config: Pick<Config, 'policy'>,
  verdict: Exclude<Verdict, { kind: 'deny' }>,
): Refused | undefined {
  const { retry } = input;
  if (retry === undefined) return undefined;
  const { resolution, about, approvers } = retry;
  const [opened, decided, deadline] = [retry.openedAt, retry.decidedAt, retry.deadline].map((at) => Date.parse(at));
  const voter = { ...resolution.approver, after: Number(decided) - Number(opened) };
  const isWord =
    resolution.kind === 'retry' &&
    resolution.callId === input.callId &&
    resolution.digest === digestOfPause(input, retry, resolution.runId) &&
    about.kind === 'outcome' &&
    about.attempt < input.attempt &&
    // Written so that a time that is none proves nothing.
    Number(opened) <= Number(decided) &&
    Number(decided) < Number(deadline) &&
    mayDecide(approvers, voter) &&
    (isMet(approvers, [voter]) || isConsentedSince(input, Number(decided)));
  if (!isWord) return forbidden('Nobody whose word counts has said that this call is sent again.');
  if (!input.decidedIn.includes(resolution.runId))
    return again('DECISION_STALE_RUN', 'That the call is sent again was said before the run was reset.');
  const now = answerersNow(input, config, verdict);
  if (mayDecide(now.approvers, voter)) return undefined;
  const { id } = resolution.approver;
  return {
    ...again('VERDICT_STRICTER', `Policy now asks others than ${id} what became of the call.`),
    approvers: now.approvers,
    deadlineSeconds: now.deadlineSeconds,
  };
}

function isConsentedSince({ proof }: DispatchInput, decided: number): boolean {
  return proof.kind === 'decision' && Date.parse(proof.decidedAt) >= decided;
}

function again(code: string, message: string): Extract<Refused, { kind: 'reopen' }> {
  return { kind: 'reopen', code, message, asks: 'outcome' };
}

// Whether decisions on an earlier call let this one be sent, too (INV-G1). As little is believed as of a decision on the call itself.
//
// 1. Each decision is proven on the request it was made on; what it covers is read from the decisions, and from nothing else.
// 2. The rule of then and that of now must let it be remembered so far, and the same people must meet both.
// 3. Not known here: whether it was taken back. The run does not send what was (docs/adr/0024).

type StandingProof = Extract<DispatchProof, { kind: 'standing' }>;

/** @param now epoch ms */
export function checkStanding(
  input: DispatchInput,
  proof: StandingProof,
  verdict: Extract<Verdict, { kind: 'allow' | 'ask' }>,
  catalog: CatalogSnapshot | undefined,
  now: number,
): Refused | undefined {
  const { decisions, shown, callId } = proof;
  const people = decisions.map(({ approver }) => approver);
  const extent = extentOf(decisions);
  const isCovered =
    extent !== undefined &&
    decisions.every(
      (decision) =>
        decision.callId === callId && decision.digest === digestOfConsent({ ...input, callId }, shown, decision.runId),
    ) &&
    Date.parse(proof.decidedAt) < Date.parse(proof.deadline) &&
    isMet(shown.approvers, people) &&
    mayRemember(shown.approvers, extent.scope) &&
    covers(extent, shown.arguments, input.arguments);
  if (!isCovered) return forbidden('The decision that stands does not cover this call.');
  if (decisions.some(({ runId }) => !input.decidedIn.includes(runId)))
    return gone('DECISION_STALE_RUN', 'The decision that stands was made before the run was reset.', verdict);
  if (extent.until !== undefined && !(now < extent.until))
    return gone('STANDING_LOST', `The decision stood until ${new Date(extent.until).toISOString()}.`, verdict);
  const grant = input.grant === undefined ? undefined : hashOf(input.grant);
  if (proof.connection !== connectionHash(catalog) || proof.grant !== grant)
    return gone('STANDING_LOST', 'The server is no longer reached as it was when the decision was made.', verdict);
  if (verdict.kind === 'ask' && !(mayRemember(verdict.approvers, extent.scope) && isMet(verdict.approvers, people)))
    return { ...stricter(verdict), message: 'Policy no longer lets a decision that stands answer this call.' };
  const rules = verdict.kind === 'ask' ? [shown.approvers, verdict.approvers] : [shown.approvers];
  const end = lapsedSince(Date.parse(proof.decidedAt), now, ...rules);
  return end === undefined ? undefined : gone('APPROVAL_LAPSED', describeLapse(end), verdict);
}

/** It needs a fresh one, of those whom policy names now. */
function gone(code: string, message: string, verdict: Extract<Verdict, { kind: 'allow' | 'ask' }>): Refused {
  return {
    kind: 'reopen',
    code,
    message,
    ...(verdict.kind === 'ask' ? { approvers: verdict.approvers, deadlineSeconds: verdict.deadlineSeconds } : {}),
  };
}

// Whether what would be given to a server as people's answers was answered by somebody who may, to what they read.
//
// Does not own signatures (`activities/trust/`), nor the consent to the call (`dispatch-check.ts`).
// 1. Answers are no consent: what does not hold is not asked of the server, and the call begins anew without it.
// 2. They are to what a worker was asked: whatever else people were shown, their answer goes to no server (`activities/gate/legacy-2025/open-question.ts`).
// 3. Nor does one hold of somebody whom policy does not ask any more, of another tool, or of longer ago than an approval holds. Whoever
//    is asked then is whoever is asked for consent: where that was another, consent is asked for first.

/** @param areAsked whether it is known that the server has asked these questions in this call */
export function checkProvided(
  input: DispatchInput,
  now: Leaving,
  areAsked: (requests: InputRequests) => boolean,
): Refused | undefined {
  if (input.input === undefined) return undefined;
  const { provided, leg } = input.input;
  if (!provided.every((proof) => isAnswer(input, proof))) return forbiddenInput('An answer is not to what was asked.');
  // Or by an earlier release, or the key is gone.
  if (!provided.every(({ about }) => areAsked(about.requests)))
    return anew('SIGNATURE_INVALID', 'What people have answered was not asked by a worker with a key of the zone.');
  if (leg !== undefined && answersTo(leg.requests, answersOf(provided)).missing.length > 0)
    return forbiddenInput('The server has asked for input that nobody gave.');
  if (provided.some(({ provision }) => !input.decidedIn.includes(provision.runId)))
    return anew('DECISION_STALE_RUN', 'What the server asked was answered before the run was reset.');
  return spent(input, provided, now);
}

function spent({ proof }: DispatchInput, provided: readonly ProvisionProof[], now: Leaving): Refused | undefined {
  for (const each of provided) {
    const { approver } = each.provision;
    const why = spentNow(each, now, (rule) => mayDecide(rule, voterOf(approver, each)));
    if (why?.kind === 'redefined')
      return anew('DEFINITION_CHANGED', 'The tool has changed since what its server asked was answered.');
    if (why?.kind === 'lapsed')
      return anew('APPROVAL_LAPSED', `What ${approver.id} answered held until ${new Date(why.end).toISOString()}.`);
    if (why === undefined) continue;
    const message = `Policy now asks others than ${approver.id} what the server wants to know.`;
    const asked = proof.kind === 'decision' ? proof.approvers : each.approvers;
    if (canonicalJson(asked) === canonicalJson(now.approvers)) return anew('VERDICT_STRICTER', message);
    const { approvers, deadlineSeconds } = now;
    return { kind: 'reopen', code: 'VERDICT_STRICTER', message, approvers, deadlineSeconds };
  }
  return undefined;
}

/** Without what was answered. */
function anew(code: string, message: string): Refused {
  return { kind: 'reopen', code, message, asks: 'input' };
}

/** As it was shown, in time, by one of those who were asked. */
function isAnswer(input: DispatchInput, proof: ProvisionProof): boolean {
  const { provision, about, approvers, deadline, decidedAt } = proof;
  return (
    provision.callId === input.callId &&
    provision.digest === digestOfPause(input, proof, provision.runId) &&
    Date.parse(decidedAt) < Date.parse(deadline) &&
    mayDecide(approvers, voterOf(provision.approver, proof)) &&
    (provision.kind !== 'provide' || problemInResponses(about.requests, provision.responses) === undefined)
  );
}

// What people said of a call's authorization, as far as it is proven: what is not grants nothing, and is asked again where the
// server still wants it.
//
// 1. Consent is proven on what was shown of this very call, by whoever may give it; so it widens no other call (INV-S2).
// 2. It counts as the call leaves: of the tool that is called, by whoever policy asks now, as long as an approval holds.
// 3. A grant is taken from the run's initiator alone, for the server that it was asked for.

type GrantPlace = Pick<DispatchInput, 'run' | 'server' | 'decidedIn'>;

export interface ProvenAuthorization {
  /** In place of the run's own. */
  readonly grant?: Grant;
  readonly consented: readonly string[];
}

/**
 * @param proofs in trust mode `signed`, those whose signature is good
 * @param now undefined where the call may not leave as it is: then no consent counts
 */
export function provenAuthorization(
  input: DispatchInput,
  proofs: readonly AuthorizationProof[],
  now: Leaving | undefined,
): ProvenAuthorization {
  const proven = proofs.filter((proof) => isOfThisRun(input, proof));
  const consented = proven.flatMap((proof) =>
    now !== undefined && isConsent(input, proof) && isStill(proof, now) ? scopesOf(proof) : [],
  );
  const grant = provenGrant(input, proofs);
  return { consented: [...new Set(consented)], ...(grant === undefined ? {} : { grant }) };
}

/** The newest grant that took the place of the run's own. */
export function provenGrant(place: GrantPlace, proofs: readonly AuthorizationProof[]): Grant | undefined {
  return proofs.flatMap((proof) => (isOfThisRun(place, proof) ? grantIn(place, proof) : [])).at(-1);
}

function isOfThisRun({ decidedIn, server }: GrantPlace, { answer, about, ...at }: AuthorizationProof): boolean {
  return (
    about.kind === 'authorization' &&
    about.server === server.name &&
    about.wants === answer.kind &&
    decidedIn.includes(answer.runId) &&
    isInTime(at, at.decidedAt)
  );
}

function isInTime(at: Pick<AuthorizationProof, 'openedAt' | 'deadline'>, decidedAt: string): boolean {
  const [opened, decided, deadline] = [at.openedAt, decidedAt, at.deadline].map((each) => Date.parse(each));
  // Written so that a time that is none proves nothing.
  return Number(opened) <= Number(decided) && Number(decided) < Number(deadline);
}

/** By as many people as the rule of the request wants, each with what was shown of this very call. */
function isConsent(input: DispatchInput, proof: AuthorizationProof): boolean {
  const { callId, decidedIn } = input;
  const isOne = ({ answer: each, decidedAt }: Consented): boolean => {
    if (each.kind !== 'consent' || each.callId !== callId || !decidedIn.includes(each.runId)) return false;
    return each.digest === digestOfPause(input, proof, each.runId) && isInTime(proof, decidedAt);
  };
  return consentsIn(proof).every(isOne) && isMet(proof.approvers, votersOf(proof));
}

/** Half a consent is none. */
function isStill(proof: AuthorizationProof, now: Leaving): boolean {
  return spentNow(proof, now, (rule) => isMet(rule, votersOf(proof))) === undefined;
}

type Consented = Pick<AuthorizationProof, 'answer' | 'decidedAt'>;

function consentsIn({ answer, decidedAt, further = [] }: AuthorizationProof): readonly Consented[] {
  return [...further, { answer, decidedAt }];
}

function votersOf(proof: AuthorizationProof): readonly Voter[] {
  const { openedAt } = proof;
  return consentsIn(proof).map(({ answer, decidedAt }) => voterOf(answer.approver, { openedAt, decidedAt }));
}

function scopesOf({ about }: AuthorizationProof): readonly string[] {
  return about.kind === 'authorization' ? (about.scopes ?? []) : [];
}

function grantIn({ run, server }: GrantPlace, { answer }: AuthorizationProof): Grant[] {
  const isTheirs = answer.kind === 'grant' && answer.approver.id === run.initiator.id;
  return isTheirs && answer.grant.server === server.name ? [answer.grant] : [];
}

// Whether what somebody said of a call still counts as the call leaves. That they said it, and of what, is proven apart.
//
// Pure. What was shown then says who was asked then; a call may wait for weeks, and policy, tool and people change.
// 1. It counts of the tool that is called, by whoever would be asked now, as long as the rules of then and now let an approval hold.

type Judged = Exclude<Verdict, { kind: 'deny' }>;

/** As the call leaves. */
export interface Leaving extends Answerers {
  /** Of the tool that is called. */
  readonly definitionHash: string;
  /** Epoch ms. */
  readonly at: number;
}

/** Who would be asked of this call now. */
export function answerersNow(
  { run, runPolicy }: Pick<DispatchInput, 'run' | 'runPolicy'>,
  { policy }: Pick<Config, 'policy'>,
  verdict: Judged,
): Answerers {
  const { approvers, deadlineSeconds } =
    verdict.kind === 'ask' ? verdict : answerersOf({ organisation: policy, run: runPolicy }, run.initiator.id);
  return { approvers, deadlineSeconds };
}

/** What was shown, and when the run took the answer. */
export interface WordThen {
  readonly approvers: ApproverRule;
  readonly definitionHash: string;
  readonly openedAt: string;
  readonly decidedAt: string;
}

/** Who said it, and how long after they were asked. */
function voterOf(voter: Voter, { openedAt, decidedAt }: Pick<WordThen, 'openedAt' | 'decidedAt'>): Voter {
  return { ...voter, after: Date.parse(decidedAt) - Date.parse(openedAt) };
}

export type Spent =
  | { readonly kind: 'redefined' }
  | { readonly kind: 'others-asked' }
  /** Epoch ms. */
  | { readonly kind: 'lapsed'; readonly end: number };

/** Why it does not count any more; undefined where it does. @param isEnough whether those who said it meet a rule */
function spentNow(then: WordThen, now: Leaving, isEnough: (rule: ApproverRule) => boolean): Spent | undefined {
  if (then.definitionHash !== now.definitionHash) return { kind: 'redefined' };
  if (!isEnough(now.approvers)) return { kind: 'others-asked' };
  const end = lapsedSince(Date.parse(then.decidedAt), now.at, then.approvers, now.approvers);
  return end === undefined ? undefined : { kind: 'lapsed', end };
}
