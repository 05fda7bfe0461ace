/**
 * Checks what people have said of a call: to send it again, standing decisions, answers for a server, and
 * authorizations.
 *
 * None of it is believed before it is proven (INV-G1). The file does not own signatures (`activities/trust/`) or the
 * consent to the call itself (`dispatch-check.ts`). `spentNow` and its types are pure.
 * 1. A decision to send again a call that may have run (INV-X1) is proven on the facts that were shown, the people
 *    asked and the deadline. It counts only by people who would be asked now, and in a Temporal run that counts;
 *    otherwise the same question is asked again. If one person does not meet the rule, consent to the call must have
 *    been given after that person spoke.
 * 2. A standing decision is proven on the request on which it was made. Its extent is read from the decisions and from
 *    nothing else. The rules of then and now must both let it be remembered so far, and the same people must meet both.
 *    This file cannot know whether it was taken back; the run sends no call by a decision that was (docs/adr/0024).
 * 3. An answer for a server is no consent. If it does not hold, it is not given to the server, and the call begins anew
 *    without it.
 * 4. An answer for a server answers a question that a worker was asked. An answer to anything else that people were
 *    shown goes to no server (`activities/gate/legacy-2025/open-question.ts`). It holds only for the same tool, by
 *    people whom policy still asks, and for as long as an approval holds. The people asked then are those asked for
 *    consent; if those differ, consent comes first.
 * 5. Consent to scopes is proven on what was shown of this very call, by people who may give it, so it widens no other
 *    call (INV-S2). An authorization that is not proven grants nothing, and is asked for again if the server still
 *    wants it.
 * 6. A grant is taken from the run's initiator alone, for the server for which it was asked.
 * 7. A statement counts as the call leaves, because a call may wait for weeks while policy, tool and people change. It
 *    counts for the tool that is called and by people who would be asked now. It lapses as an approval does, by the
 *    rules of then and now.
 */
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { READ_RESOURCE } from '../../contracts/names.ts';
import type { ToolTarget, Verdict } from '../../contracts/schemas/call.ts';
import type { CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import type { InputRequests } from '../../contracts/schemas/input.ts';
import type { ApproverRule } from '../../contracts/schemas/policy.ts';
import type { Grant } from '../../contracts/schemas/run-spec.ts';
import type { Message } from '../../contracts/schemas/transcript.ts';
import type { AuthorizationProof, DispatchProof, ProvisionProof } from '../../contracts/wire/proofs.ts';
import type { DispatchInput } from '../../contracts/wire/tools.ts';
import { type Answerers, answerersOf, isMet, mayDecide, type Voter } from '../../domain/policy/approvers.ts';
import { describeLapse, lapsedSince } from '../../domain/request/deadline.ts';
import { answersTo, problemInResponses } from '../../domain/request/input.ts';
import { answersOf } from '../../domain/request/provision.ts';
import { covers, extentOf, mayRemember } from '../../domain/request/standing.ts';
import { namesLink, notLinked, readsLinks } from '../../domain/run/resource-link.ts';
import { canonicalJson, hashOf } from '../../domain/text/canonical.ts';
import { connectionHash, type LoadToolset } from '../catalog/reader.ts';
import { forbidden, forbidden as forbiddenInput, type Refused } from '../kit/activity.ts';
import type { ReadMessage } from '../run/read-transcript.ts';
import { digestOfConsent, digestOfPause, stricter } from './dispatch-check.ts';

/** Checks the decision to send a call again that may have run. */
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
    // The comparisons are written so that an invalid time proves nothing.
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

// Standing decisions.

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

/** The call needs a fresh decision by the people whom policy names now. */
function gone(code: string, message: string, verdict: Extract<Verdict, { kind: 'allow' | 'ask' }>): Refused {
  return {
    kind: 'reopen',
    code,
    message,
    ...(verdict.kind === 'ask' ? { approvers: verdict.approvers, deadlineSeconds: verdict.deadlineSeconds } : {}),
  };
}

// Answers for a server.

/** @param areAsked tells whether the server is known to have asked these questions in this call */
export function checkProvided(
  input: DispatchInput,
  now: Leaving,
  areAsked: (requests: InputRequests) => boolean,
): Refused | undefined {
  if (input.input === undefined) return undefined;
  const { provided, leg } = input.input;
  if (!provided.every((proof) => isAnswer(input, proof))) return forbiddenInput('An answer is not to what was asked.');
  // An earlier release may have asked it, or the key may be gone.
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

/** Begins the call anew, without the answers. */
function anew(code: string, message: string): Refused {
  return { kind: 'reopen', code, message, asks: 'input' };
}

/** Checks that the answer is to what was shown, came in time, and is by one of the people asked. */
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

// Authorizations.

type GrantPlace = Pick<DispatchInput, 'run' | 'server' | 'decidedIn'>;

export interface ProvenAuthorization {
  /** Replaces the run's own grant. */
  readonly grant?: Grant;
  readonly consented: readonly string[];
}

/**
 * @param proofs in trust mode `signed`, only those whose signature is good
 * @param now undefined if the call may not leave as it is: then no consent counts
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
  return { consented: [...new Set(consented)], ...defined({ grant }) };
}

/** Returns the newest grant that replaced the run's own. */
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
  // The comparisons are written so that an invalid time proves nothing.
  return Number(opened) <= Number(decided) && Number(decided) < Number(deadline);
}

/** Checks that as many people agreed as the rule of the request wants, each shown this very call. */
function isConsent(input: DispatchInput, proof: AuthorizationProof): boolean {
  const { callId, decidedIn } = input;
  const isOne = ({ answer: each, decidedAt }: Consented): boolean => {
    if (each.kind !== 'consent' || each.callId !== callId || !decidedIn.includes(each.runId)) return false;
    return each.digest === digestOfPause(input, proof, each.runId) && isInTime(proof, decidedAt);
  };
  return consentsIn(proof).every(isOne) && isMet(proof.approvers, votersOf(proof));
}

/** Checks that the whole consent still counts: half a consent is none. */
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

// A statement may have stopped counting by the time the call leaves. That it was made, and about what, is proven
// elsewhere.

type Judged = Exclude<Verdict, { kind: 'deny' }>;

/** The state of the call as it leaves. */
export interface Leaving extends Answerers {
  /** Hash of the definition of the tool that is called. */
  readonly definitionHash: string;
  /** Epoch ms. */
  readonly at: number;
}

/** Names the people who would be asked about this call now. */
export function answerersNow(
  { run, runPolicy }: Pick<DispatchInput, 'run' | 'runPolicy'>,
  { policy }: Pick<Config, 'policy'>,
  verdict: Judged,
): Answerers {
  const { approvers, deadlineSeconds } =
    verdict.kind === 'ask' ? verdict : answerersOf({ organisation: policy, run: runPolicy }, run.initiator.id);
  return { approvers, deadlineSeconds };
}

/** The question as it was shown, and when the run took the answer. */
export interface WordThen {
  readonly approvers: ApproverRule;
  readonly definitionHash: string;
  readonly openedAt: string;
  readonly decidedAt: string;
}

/** Gives the author of the answer, and how long after the question they answered. */
function voterOf(voter: Voter, { openedAt, decidedAt }: Pick<WordThen, 'openedAt' | 'decidedAt'>): Voter {
  return { ...voter, after: Date.parse(decidedAt) - Date.parse(openedAt) };
}

export type Spent =
  | { readonly kind: 'redefined' }
  | { readonly kind: 'others-asked' }
  /** Epoch ms. */
  | { readonly kind: 'lapsed'; readonly end: number };

/**
 * Says why a statement no longer counts; undefined if it does.
 * @param isEnough tells whether the authors of the statement meet a rule
 */
function spentNow(then: WordThen, now: Leaving, isEnough: (rule: ApproverRule) => boolean): Spent | undefined {
  if (then.definitionHash !== now.definitionHash) return { kind: 'redefined' };
  if (!isEnough(now.approvers)) return { kind: 'others-asked' };
  const end = lapsedSince(Date.parse(then.decidedAt), now.at, then.approvers, now.approvers);
  return end === undefined ? undefined : { kind: 'lapsed', end };
}

// Checks whether a read of a linked resource may leave (docs/adr/0042). The run's own judgement of the link is not
// believed.
//
// 1. The read leaves only if this worker's own configuration lets links in the results of this server be followed.
// 2. The link is looked up in the conversation of the run that Temporal says has scheduled this activity. It must be in
//    the result of a tool of the same server, with exactly this URI.

export interface LinkCheckParts {
  readonly config: Pick<Config, 'servers'>;
  readonly loadToolset: LoadToolset;
  /** Reads one message of a conversation. Without it nothing is read. */
  readonly readMessage?: ReadMessage;
}

/** Refuses a read that the operator no longer permits. */
export function checkReading(
  { server, tool }: Pick<ToolTarget, 'server' | 'tool'>,
  { servers }: Pick<Config, 'servers'>,
): Refused | undefined {
  if (tool !== READ_RESOURCE || readsLinks(servers, server)) return undefined;
  const message = `Resources that results of ${server} link to are not read by this worker (servers.${server}.resourceLinks).`;
  return { kind: 'refused', code: 'TOOL_DISABLED', message };
}

/** @throws CountersignError `TOOL_UNAVAILABLE` if the conversation cannot be read */
export async function checkLink(input: DispatchInput, parts: LinkCheckParts): Promise<Refused | undefined> {
  const { target, toolset, link } = input;
  const { server, tool } = target;
  if (tool !== READ_RESOURCE) return undefined;
  const disabled = checkReading(target, parts.config);
  if (disabled !== undefined) return disabled;
  const { uri } = input.arguments;
  const { readMessage: read } = parts;
  const message = link === undefined || read === undefined ? undefined : await messageAt(input, link.at, read);
  const offered = await parts.loadToolset(toolset);
  const serverOf = (name: string): string | undefined => offered.find(({ modelName }) => modelName === name)?.server;
  if (namesLink(message, { server, uri }, serverOf)) return undefined;
  return { kind: 'refused', code: 'RESOURCE_NOT_LINKED', message: notLinked(server) };
}

async function messageAt({ run, runId }: DispatchInput, at: number, read: ReadMessage): Promise<Message | undefined> {
  if (!Number.isSafeInteger(at) || at < 0) return undefined;
  try {
    // Both ids were compared with Temporal's word before (`dispatch-check.ts`).
    return await read(run.workflowId, runId, at);
  } catch {
    const text = 'The conversation of the run, which says what may be read, cannot be had; the call was not sent.';
    throw new CountersignError('TOOL_UNAVAILABLE', text);
  }
}
