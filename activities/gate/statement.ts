/**
 * Proves what people have said of a call as it leaves: consent, the word to send it again, answers for its server, and
 * authorizations.
 *
 * None of it is believed before it is proven (INV-G1). A statement is one thing that one person has said about one
 * request of a call. Every proof in a dispatch is read as statements, and `isSaid` checks each of them in the same way.
 * Signatures are checked before, in `activities/trust/dispatch-proof.ts`.
 * 1. The run, its tenant, the tool and the call come from the dispatch; a proof says only what else was shown.
 *    Otherwise a decision on one tool would be proof for another (INV-G2).
 * 2. Times are compared so that an invalid time proves nothing.
 * 3. A call may wait for weeks while policy, tool and people change. So a statement counts as the call leaves: for the
 *    tool that is called, by people who would be asked now, until it lapses by the rules of then and now.
 *
 * One file, because the digest, the people and the times of every proof are read in one way.
 */
import { defined } from '../../contracts/defined.ts';
import type { Verdict } from '../../contracts/schemas/call.ts';
import type { CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import type { IssuedCall, IssuedConsent } from '../../contracts/schemas/credentials.ts';
import type { InputRequests } from '../../contracts/schemas/input.ts';
import type { ApproverRule } from '../../contracts/schemas/policy.ts';
import type { Decision } from '../../contracts/schemas/request.ts';
import type { Grant } from '../../contracts/schemas/run-spec.ts';
import type {
  AuthorizationProof,
  DispatchProof,
  PauseProof,
  ProvisionProof,
  ShownRequest,
} from '../../contracts/wire/proofs.ts';
import type { DispatchInput, DispatchResult } from '../../contracts/wire/tools.ts';
import { type Answerers, answerersOf, isMet, isStaged, mayDecide, type Voter } from '../../domain/policy/approvers.ts';
import { describeLapse, lapsedSince, provenDeadline } from '../../domain/request/deadline.ts';
import { requestDigest, type Shown } from '../../domain/request/digest.ts';
import { answersTo, problemInResponses } from '../../domain/request/input.ts';
import { answersOf } from '../../domain/request/provision.ts';
import { permits } from '../../domain/request/decision.ts';
import { covers, extentOf, mayRemember } from '../../domain/request/standing.ts';
import type { OfferedTool } from '../../domain/run/toolset.ts';
import { type Answerable, isEdit } from '../../domain/state/run.ts';
import { canonicalJson, hashOf } from '../../domain/text/canonical.ts';
import { visible } from '../../domain/text/escape.ts';
import { connectionHash } from '../catalog/reader.ts';
import { forbidden, type Refused, refused } from '../kit/activity.ts';

interface Statement {
  readonly answer: Answerable;
  readonly shown: Shown;
  /** Epoch ms, as all times here. Absent where neither the rule nor an extension depends on it. */
  readonly openedAt?: number;
  readonly deadline: number;
  /** Time at which the run took the answer. Absent for a vote that others followed, if time decides nothing. */
  readonly decidedAt?: number;
}

type Place = Pick<DispatchInput, 'run' | 'callId' | 'target' | 'arguments'>;

/** @param callId the call that was asked about, if it was another */
export function shownForConsent(
  { callId: own, target }: Place,
  { generation, arguments: args, approvers }: ShownRequest,
  callId = own,
): Shown {
  return { callId, target, generation, arguments: args, approvers };
}

/** Reads an answer to a request that is not for consent; the tool may have had another definition then. */
export function statementOf(
  { callId, target, arguments: args }: Place,
  { generation, approvers, about, definitionHash, openedAt, deadline, decidedAt }: PauseProof,
  answer: Answerable,
): Statement {
  return {
    answer,
    shown: { callId, target: { ...target, definitionHash }, generation, arguments: args, approvers, about },
    openedAt: Date.parse(openedAt),
    deadline: Date.parse(deadline),
    decidedAt: Date.parse(decidedAt),
  };
}

export function digestShown({ run }: Pick<DispatchInput, 'run'>, shown: Shown, runId: string): string {
  const { namespace, workflowId, initiator } = run;
  return requestDigest({ ...shown, namespace, tenant: initiator.tenant, workflowId, runId });
}

/** Checks that the answer is to exactly what was shown, and came in time. */
function isSaid(input: Pick<DispatchInput, 'run'>, statement: Statement): boolean {
  const { answer, shown } = statement;
  return (
    answer.callId === shown.callId && answer.digest === digestShown(input, shown, answer.runId) && isInTime(statement)
  );
}

function isInTime({
  openedAt = Number.NEGATIVE_INFINITY,
  decidedAt = openedAt,
  deadline,
}: Pick<Statement, 'openedAt' | 'decidedAt' | 'deadline'>): boolean {
  return openedAt <= decidedAt && decidedAt < deadline;
}

/** Gives the author of the answer, and how long after the question they answered, if that is known. */
function voterOf({ answer, openedAt, decidedAt = Number.NaN }: Statement): Voter {
  return { ...answer.approver, ...defined({ after: openedAt === undefined ? undefined : decidedAt - openedAt }) };
}

/** True if each answer was given in a Temporal run that counts (INV-D4). */
function isOfThisRun({ decidedIn }: Pick<DispatchInput, 'decidedIn'>, answers: readonly Answerable[]): boolean {
  return answers.every(({ runId }) => decidedIn.includes(runId));
}

/** The verdict on a call that may leave. */
export type Allowing = Exclude<Verdict, { kind: 'deny' }>;

export interface Leaving extends Answerers {
  readonly definitionHash: string;
  /** Epoch ms. */
  readonly at: number;
}

export function answerersNow(
  { run, runPolicy }: Pick<DispatchInput, 'run' | 'runPolicy'>,
  { policy }: Pick<Config, 'policy'>,
  verdict: Allowing,
): Answerers {
  const { approvers, deadlineSeconds } =
    verdict.kind === 'ask' ? verdict : answerersOf({ organisation: policy, run: runPolicy }, run.initiator.id);
  return { approvers, deadlineSeconds };
}

/**
 * Says why a statement no longer counts; a number is the time at which it lapsed, in epoch ms.
 * @param isEnough tells whether its authors meet a rule
 */
function spentNow(
  { shown, decidedAt = Number.NaN }: Statement,
  now: Leaving,
  isEnough: (rule: ApproverRule) => boolean,
): 'redefined' | 'others-asked' | number | undefined {
  if (shown.target.definitionHash !== now.definitionHash) return 'redefined';
  if (!isEnough(now.approvers)) return 'others-asked';
  return lapsedSince(decidedAt, now.at, shown.approvers, now.approvers);
}

// Consent to the call: policy alone, people's decision on this call, or a standing decision on an earlier one.
//
// 1. Only a stricter result of judging again matters; a looser one changes nothing.
// 2. The digest of what would be sent is computed again, and must be the one to which a person consented (INV-G2). The
//    author of an edit was shown other arguments, was allowed to change them, and names what would be sent.
// 3. A standing decision is proven on the request on which it was made, and its extent is read from the decisions
//    alone. The rules of then and now must both let it be remembered so far, and the same people must meet both. Nobody
//    here can know whether it was taken back; the run sends no call by a decision that was (docs/adr/0024).
// 4. A token names a call only after all checks here and in `dispatch-check.ts` (INV-G1).

type DecisionProof = Extract<DispatchProof, { kind: 'decision' }>;
type StandingProof = Extract<DispatchProof, { kind: 'standing' }>;
type Reopened = Extract<DispatchResult, { kind: 'reopen' }>;

export function checkConsent(
  input: DispatchInput,
  verdict: Allowing,
  catalog: CatalogSnapshot | undefined,
  now: number,
): Refused | undefined {
  const { proof } = input;
  switch (proof.kind) {
    case 'policy':
      if (verdict.kind === 'allow') return undefined;
      return stricter(verdict, `Policy asks for a decision now (${verdict.rules.join(', ')}).${saidBy(verdict)}`);
    case 'decision':
      return checkDecision(input, proof, verdict, now);
    case 'standing':
      return checkStanding(input, proof, verdict, catalog, now);
  }
}

function checkDecision(
  input: DispatchInput,
  proof: DecisionProof,
  verdict: Allowing,
  now: number,
): Refused | undefined {
  const votes = votesIn(input, proof);
  const people = votes.map(voterOf);
  const extensions = extensionsIn(input, proof);
  const isGiven =
    votes.every((vote) => vote.answer.kind === 'approve' && isOfItsKind(input, proof, vote)) &&
    [...votes, ...extensions].every((each) => isSaid(input, each)) &&
    areTimed(proof, votes) &&
    isMet(proof.approvers, people);
  if (!isGiven) return forbidden('The decision does not cover this call.');
  const decisions = votes.map(({ answer }) => answer);
  if (!isOfThisRun(input, [...decisions, ...extensions.map(({ answer }) => answer)]))
    return reopen('DECISION_STALE_RUN', 'The decision was made before the run was reset; it needs a fresh one.');
  if (verdict.kind === 'ask') {
    const editor = decisions.find(isEdit)?.approver.id;
    if (editor !== undefined && !permits(verdict.approvers, 'edit'))
      return refused('DECISION_NOT_PERMITTED', `Policy no longer lets arguments be edited, as ${editor} did.`);
    if (!isMet(verdict.approvers, people)) {
      const names = people.map(({ id }) => id).join(', ');
      return stricter(verdict, `Policy now asks others to decide than ${names}.${saidBy(verdict)}`);
    }
  }
  return lapse(proof.decidedAt, now, proof.approvers, verdict);
}

interface Vote extends Statement {
  readonly answer: Decision;
}

/** Lists the approvals: the last one first, then the others. Their own times are known only if time decides. */
function votesIn(input: DispatchInput, proof: DecisionProof): readonly Vote[] {
  const { decision, further = [], decidedAt, voted } = proof;
  const openedAt = voted === undefined ? undefined : Date.parse(voted.openedAt);
  const deadline = deadlineIn(proof);
  return [decision, ...further].map((answer, index) => {
    // A missing time is no time that is in time.
    const at = index === 0 ? (decidedAt ?? '') : voted && (voted.further[index - 1] ?? '');
    const times = defined({ openedAt, decidedAt: at === undefined ? undefined : Date.parse(at) });
    return { answer, shown: shownTo(input, proof, answer), deadline, ...times };
  });
}

function extensionsIn(input: DispatchInput, proof: DecisionProof): readonly Vote[] {
  const { openedAt, by } = proof.extended ?? { openedAt: '', by: [] };
  return by.map(({ decision: answer, decidedAt }) => ({
    answer,
    shown: shownTo(input, proof, answer),
    openedAt: Date.parse(openedAt),
    deadline: deadlineIn(proof),
    decidedAt: Date.parse(decidedAt),
  }));
}

/** The deadline after all extensions that the rule permits; NaN is no time to be before. */
function deadlineIn({ approvers, deadline, extended }: DecisionProof): number {
  const times = {
    openedAt: Date.parse(extended?.openedAt ?? ''),
    deadline: Date.parse(deadline),
    extensions: (extended?.by ?? []).map((each) => ({ ...each, decidedAt: Date.parse(each.decidedAt) })),
  };
  return provenDeadline(approvers, times) ?? Number.NaN;
}

/** The author of a plain decision was shown what would be sent; the author of an edit, what it changes. */
function shownTo(input: DispatchInput, { generation, approvers, edit }: DecisionProof, answer: Decision) {
  const asSent = { generation, approvers, arguments: input.arguments };
  return shownForConsent(input, (isEdit(answer) ? edit : undefined) ?? asSent);
}

/** Checks an edit: allowed, by a person who may decide, and naming exactly what would be sent. */
function isOfItsKind(input: DispatchInput, { edit }: DecisionProof, vote: Vote): boolean {
  if (!isEdit(vote.answer)) return true;
  return (
    edit !== undefined &&
    permits(edit.approvers, 'edit') &&
    mayDecide(edit.approvers, voterOf(vote)) &&
    canonicalJson(vote.answer.arguments) === canonicalJson(input.arguments)
  );
}

/** Checks that each vote has its time, if the rule lets time decide who may vote, and that none is after the last. */
function areTimed({ approvers, voted, extended, edit }: DecisionProof, votes: readonly Vote[]): boolean {
  if (voted === undefined) return ![approvers, ...(edit === undefined ? [] : [edit.approvers])].some(isStaged);
  const last = votes[0]?.decidedAt ?? Number.NaN;
  return (
    votes.every(({ decidedAt = Number.NaN }) => decidedAt <= last) &&
    (extended === undefined || extended.openedAt === voted.openedAt)
  );
}

function checkStanding(
  input: DispatchInput,
  proof: StandingProof,
  verdict: Allowing,
  catalog: CatalogSnapshot | undefined,
  now: number,
): Refused | undefined {
  const { decisions, shown, callId } = proof;
  const people = decisions.map(({ approver }) => approver);
  const extent = extentOf(decisions);
  const [decidedAt, deadline] = [Date.parse(proof.decidedAt), Date.parse(proof.deadline)];
  const isSaidThen = (answer: Decision): boolean =>
    isSaid(input, { answer, shown: shownForConsent(input, shown, callId), decidedAt, deadline });
  const isCovered =
    extent !== undefined &&
    decisions.every(isSaidThen) &&
    isMet(shown.approvers, people) &&
    mayRemember(shown.approvers, extent.scope) &&
    covers(extent, shown.arguments, input.arguments);
  if (!isCovered) return forbidden('The decision that stands does not cover this call.');
  if (!isOfThisRun(input, decisions))
    return reopen('DECISION_STALE_RUN', 'The decision that stands was made before the run was reset.', verdict);
  if (extent.until !== undefined && !(now < extent.until))
    return reopen('STANDING_LOST', `The decision stood until ${new Date(extent.until).toISOString()}.`, verdict);
  const grant = input.grant === undefined ? undefined : hashOf(input.grant);
  if (proof.connection !== connectionHash(catalog) || proof.grant !== grant)
    return reopen('STANDING_LOST', 'The server is no longer reached as it was when the decision was made.', verdict);
  if (verdict.kind === 'ask' && !(mayRemember(verdict.approvers, extent.scope) && isMet(verdict.approvers, people)))
    return stricter(verdict, 'Policy no longer lets a decision that stands answer this call.');
  return lapse(proof.decidedAt, now, shown.approvers, verdict);
}

function lapse(
  decidedAt: string,
  now: number,
  then: DecisionProof['approvers'],
  verdict: Allowing,
): Refused | undefined {
  const rules = verdict.kind === 'ask' ? [then, verdict.approvers] : [then];
  const end = lapsedSince(Date.parse(decidedAt), now, ...rules);
  return end === undefined ? undefined : reopen('APPROVAL_LAPSED', describeLapse(end), verdict);
}

/** @param verdict puts the new question to the people whom policy names now and to nobody else */
export function reopen(code: string, message: string, verdict?: Allowing): Reopened {
  if (verdict?.kind !== 'ask') return { kind: 'reopen', code, message };
  return { kind: 'reopen', code, message, approvers: verdict.approvers, deadlineSeconds: verdict.deadlineSeconds };
}

function stricter(verdict: Extract<Verdict, { kind: 'ask' }>, message: string): Reopened {
  return reopen('VERDICT_STRICTER', message, verdict);
}

function saidBy({ explain = [] }: Extract<Verdict, { kind: 'ask' }>): string {
  return explain.map(({ text }) => ` ${visible(text)}`).join('');
}

export function hasEditedArguments({ proof }: DispatchInput): boolean {
  return proof.kind === 'decision' && proof.edit !== undefined;
}

export function provenCall(input: DispatchInput, tool: OfferedTool, verdict: Verdict): IssuedCall {
  return {
    callId: input.callId,
    executionId: input.runId,
    tool: tool.definition.name,
    definition: tool.hash,
    arguments: hashOf(input.arguments),
    consent: consentIn(input, verdict),
  };
}

function consentIn({ proof }: DispatchInput, verdict: Verdict): IssuedConsent {
  if (proof.kind === 'policy') return { kind: 'policy', rules: [...verdict.rules] };
  const decisions = proof.kind === 'standing' ? proof.decisions : [proof.decision, ...(proof.further ?? [])];
  const digest = decisions[0]?.digest ?? '';
  const approvers = [...new Set(decisions.map(({ approver }) => approver.id))];
  return proof.kind === 'standing'
    ? { kind: 'standing', digest, approvers, callId: proof.callId }
    : { kind: 'decision', digest, approvers };
}

// People also say that a call is sent again, answer its server, and authorize it.
//
// 1. A decision to send again a call that may have run (INV-X1) counts only by people who would be asked now, and in a
//    Temporal run that counts; otherwise the same question is asked again. If one person does not meet the rule,
//    consent to the call must have been given after that person spoke.
// 2. An answer for a server is no consent. If it does not hold, it is not given to the server, and the call begins anew
//    without it. It answers a question that a worker was asked (`activities/gate/legacy-2025/open-question.ts`), for
//    the same tool, and for as long as an approval holds. The people asked are those asked for consent; if those differ
//    now, consent comes first.
// 3. Consent to scopes is proven on what was shown of this very call, by people who may give it, so it widens no other
//    call (INV-S2). An authorization that is not proven grants nothing.
// 4. A grant is taken from the run's initiator alone, for the server for which it was asked.

function again(asks: 'outcome' | 'input', code: string, message: string): Reopened {
  return { ...reopen(code, message), asks };
}

export function checkRetry(
  input: DispatchInput,
  config: Pick<Config, 'policy'>,
  verdict: Allowing,
): Refused | undefined {
  const { retry } = input;
  if (retry === undefined) return undefined;
  const { resolution, about, approvers } = retry;
  const statement = statementOf(input, retry, resolution);
  const voter = voterOf(statement);
  const isProven =
    resolution.kind === 'retry' &&
    about.kind === 'outcome' &&
    about.attempt < input.attempt &&
    isSaid(input, statement) &&
    mayDecide(approvers, voter) &&
    (isMet(approvers, [voter]) || isConsentedSince(input, statement));
  if (!isProven) return forbidden('Nobody whose word counts has said that this call is sent again.');
  if (!isOfThisRun(input, [resolution]))
    return again('outcome', 'DECISION_STALE_RUN', 'That the call is sent again was said before the run was reset.');
  const now = answerersNow(input, config, verdict);
  if (mayDecide(now.approvers, voter)) return undefined;
  const message = `Policy now asks others than ${resolution.approver.id} what became of the call.`;
  return { ...again('outcome', 'VERDICT_STRICTER', message), ...now };
}

function isConsentedSince({ proof }: DispatchInput, { decidedAt = Number.NaN }: Statement): boolean {
  return proof.kind === 'decision' && Date.parse(proof.decidedAt) >= decidedAt;
}

/** @param areAsked tells whether the server is known to have asked these questions in this call */
export function checkProvided(
  input: DispatchInput,
  now: Leaving,
  areAsked: (requests: InputRequests) => boolean,
): Refused | undefined {
  if (input.input === undefined) return undefined;
  const { provided, leg } = input.input;
  if (!provided.every((proof) => isAnswer(input, proof))) return forbidden('An answer is not to what was asked.');
  // The key may be gone.
  if (!provided.every(({ about }) => areAsked(about.requests)))
    return again(
      'input',
      'SIGNATURE_INVALID',
      'What people have answered was not asked by a worker with a key of the zone.',
    );
  if (leg !== undefined && answersTo(leg.requests, answersOf(provided)).missing.length > 0)
    return forbidden('The server has asked for input that nobody gave.');
  const provisions = provided.map(({ provision }) => provision);
  if (!isOfThisRun(input, provisions))
    return again('input', 'DECISION_STALE_RUN', 'What the server asked was answered before the run was reset.');
  return spent(input, provided, now);
}

function isAnswer(input: DispatchInput, proof: ProvisionProof): boolean {
  const { provision, about, approvers } = proof;
  const statement = statementOf(input, proof, provision);
  return (
    isSaid(input, statement) &&
    mayDecide(approvers, voterOf(statement)) &&
    (provision.kind !== 'provide' || problemInResponses(about.requests, provision.responses) === undefined)
  );
}

function spent(input: DispatchInput, provided: readonly ProvisionProof[], now: Leaving): Refused | undefined {
  for (const each of provided) {
    const { id } = each.provision.approver;
    const statement = statementOf(input, each, each.provision);
    const why = spentNow(statement, now, (rule) => mayDecide(rule, voterOf(statement)));
    if (why === undefined) continue;
    if (why === 'redefined')
      return again('input', 'DEFINITION_CHANGED', 'The tool has changed since what its server asked was answered.');
    if (why !== 'others-asked')
      return again('input', 'APPROVAL_LAPSED', `What ${id} answered held until ${new Date(why).toISOString()}.`);
    const message = `Policy now asks others than ${id} what the server wants to know.`;
    const asked = input.proof.kind === 'decision' ? input.proof.approvers : each.approvers;
    if (canonicalJson(asked) === canonicalJson(now.approvers)) return again('input', 'VERDICT_STRICTER', message);
    const { approvers, deadlineSeconds } = now;
    return { ...reopen('VERDICT_STRICTER', message), approvers, deadlineSeconds };
  }
  return undefined;
}

type GrantPlace = Pick<DispatchInput, 'run' | 'server' | 'decidedIn'>;

/**
 * @param proofs in trust mode `signed`, only those whose signature is good
 * @param now undefined if the call may not leave as it is: then no consent counts
 * @returns the scopes that people consented to, and the grant that replaces the run's own
 */
export function provenAuthorization(
  input: DispatchInput,
  proofs: readonly AuthorizationProof[],
  now: Leaving | undefined,
): { readonly grant?: Grant; readonly consented: readonly string[] } {
  const consented = proofs.flatMap((proof) =>
    now !== undefined && isWanted(input, proof) && isConsent(input, proof, now) ? scopesOf(proof) : [],
  );
  return { consented: [...new Set(consented)], ...defined({ grant: provenGrant(input, proofs) }) };
}

export function provenGrant(place: GrantPlace, proofs: readonly AuthorizationProof[]): Grant | undefined {
  return proofs.flatMap((proof) => (isWanted(place, proof) ? grantIn(place, proof) : [])).at(-1);
}

/** Checks that the server's question wanted such an answer, and that it came in time, in a run that counts. */
function isWanted(place: GrantPlace, { answer, about, ...times }: AuthorizationProof): boolean {
  return (
    about.kind === 'authorization' &&
    about.server === place.server.name &&
    about.wants === answer.kind &&
    isOfThisRun(place, [answer]) &&
    isInTime({
      openedAt: Date.parse(times.openedAt),
      decidedAt: Date.parse(times.decidedAt),
      deadline: Date.parse(times.deadline),
    })
  );
}

/**
 * Checks that as many people agreed as the rule of the request wants, each shown this very call, and that the whole
 * consent still counts: half a consent is none.
 */
function isConsent(input: DispatchInput, proof: AuthorizationProof, now: Leaving): boolean {
  const { answer, decidedAt, further = [] } = proof;
  const all = [{ answer, decidedAt }, ...further];
  const statements = all.map((each) => statementOf(input, { ...proof, decidedAt: each.decidedAt }, each.answer));
  const [last] = statements;
  const areMet = (rule: AuthorizationProof['approvers']): boolean => isMet(rule, statements.map(voterOf));
  const answers = all.map((each) => each.answer);
  return (
    last !== undefined &&
    answers.every(({ kind }) => kind === 'consent') &&
    statements.every((each) => isSaid(input, each)) &&
    isOfThisRun(input, answers) &&
    areMet(proof.approvers) &&
    spentNow(last, now, areMet) === undefined
  );
}

function scopesOf({ about }: AuthorizationProof): readonly string[] {
  return about.kind === 'authorization' ? (about.scopes ?? []) : [];
}

function grantIn({ run, server }: GrantPlace, { answer }: AuthorizationProof): Grant[] {
  const isTheirs = answer.kind === 'grant' && answer.approver.id === run.initiator.id;
  return isTheirs && answer.grant.server === server.name ? [answer.grant] : [];
}
