/**
 * Checks the consent to a call that leaves: policy alone, people's decision on this call, or a standing decision on an
 * earlier one; and names it for the call's token.
 *
 * The workflow's verdict is not believed (INV-G1). Each decision is proven as a statement (`statement.ts`).
 * 1. Only a stricter result of judging again matters; a looser one changes nothing.
 * 2. The digest of what would be sent is computed again, and must be the one to which a person consented (INV-G2). The
 *    author of an edit was shown other arguments, was allowed to change them, and names what would be sent.
 * 3. A standing decision is proven on the request on which it was made. Its extent is read from the decisions and from
 *    nothing else. The rules of then and now must both let it be remembered so far, and the same people must meet both.
 *    This file cannot know whether it was taken back; the run sends no call by a decision that was (docs/adr/0024).
 * 4. A token names a call only after all checks here, in `dispatch-check.ts` and in `domain/shapes/inputs.ts`, and `provenCall`
 *    serves nothing else (INV-G1).
 */
import { defined } from '../../contracts/defined.ts';
import type { Verdict } from '../../contracts/schemas/call.ts';
import type { CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import type { IssuedCall, IssuedConsent } from '../../contracts/schemas/credentials.ts';
import type { Decision } from '../../contracts/schemas/request.ts';
import type { DispatchProof } from '../../contracts/wire/proofs.ts';
import type { DispatchInput, DispatchResult } from '../../contracts/wire/tools.ts';
import { isMet, isStaged, mayDecide } from '../../domain/policy/approvers.ts';
import { describeLapse, lapsedSince, provenDeadline } from '../../domain/request/deadline.ts';
import { permits } from '../../domain/request/decision.ts';
import { covers, extentOf, mayRemember } from '../../domain/request/standing.ts';
import type { OfferedTool } from '../../domain/run/toolset.ts';
import { canonicalJson, hashOf } from '../../domain/text/canonical.ts';
import { visible } from '../../domain/text/escape.ts';
import { connectionHash } from '../catalog/reader.ts';
import { forbidden, type Refused } from '../kit/activity.ts';
import { isOfThisRun, isSaid, shownForConsent, type Statement, voterOf } from './statement.ts';
import { isEdit } from '../../domain/state/call.ts';

type DecisionProof = Extract<DispatchProof, { kind: 'decision' }>;
type StandingProof = Extract<DispatchProof, { kind: 'standing' }>;
type Allowing = Extract<Verdict, { kind: 'allow' | 'ask' }>;
type Reopened = Extract<DispatchResult, { kind: 'reopen' }>;

/**
 * Checks that the call has the consent that the verdict of this worker wants.
 * @param now epoch ms
 */
export function checkConsent(
  input: DispatchInput,
  verdict: Verdict,
  catalog: CatalogSnapshot | undefined,
  now: number,
): Refused | undefined {
  if (verdict.kind === 'deny') return { kind: 'refused', code: verdict.code, message: verdict.message };
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
  const isConsent =
    votes.every((vote) => vote.answer.kind === 'approve' && isOfItsKind(input, proof, vote)) &&
    [...votes, ...extensions].every((each) => isSaid(input, each)) &&
    areTimed(proof, votes) &&
    isMet(proof.approvers, people);
  if (!isConsent) return forbidden('The decision does not cover this call.');
  const decisions = votes.map(({ answer }) => answer);
  if (!isOfThisRun(input, [...decisions, ...extensions.map(({ answer }) => answer)]))
    return {
      kind: 'reopen',
      code: 'DECISION_STALE_RUN',
      message: 'The decision was made before the run was reset; it needs a fresh one.',
    };
  if (verdict.kind === 'ask') {
    const editor = decisions.find(isEdit)?.approver.id;
    if (editor !== undefined && !permits(verdict.approvers, 'edit'))
      return {
        kind: 'refused',
        code: 'DECISION_NOT_PERMITTED',
        message: `Policy no longer lets arguments be edited, as ${editor} did.`,
      };
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

/** Returns the deadline after all extensions that the rule permits. An invalid one is no time to be before. */
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
    return gone('DECISION_STALE_RUN', 'The decision that stands was made before the run was reset.', verdict);
  if (extent.until !== undefined && !(now < extent.until))
    return gone('STANDING_LOST', `The decision stood until ${new Date(extent.until).toISOString()}.`, verdict);
  const grant = input.grant === undefined ? undefined : hashOf(input.grant);
  if (proof.connection !== connectionHash(catalog) || proof.grant !== grant)
    return gone('STANDING_LOST', 'The server is no longer reached as it was when the decision was made.', verdict);
  if (verdict.kind === 'ask' && !(mayRemember(verdict.approvers, extent.scope) && isMet(verdict.approvers, people)))
    return stricter(verdict, 'Policy no longer lets a decision that stands answer this call.');
  return lapse(proof.decidedAt, now, shown.approvers, verdict);
}

/** @param now epoch ms */
function lapse(
  decidedAt: string,
  now: number,
  then: DecisionProof['approvers'],
  verdict: Allowing,
): Refused | undefined {
  const rules = verdict.kind === 'ask' ? [then, verdict.approvers] : [then];
  const end = lapsedSince(Date.parse(decidedAt), now, ...rules);
  return end === undefined ? undefined : gone('APPROVAL_LAPSED', describeLapse(end), verdict);
}

/** Asks for a fresh decision by the people whom policy names now. */
function gone(code: string, message: string, verdict: Allowing): Reopened {
  return { kind: 'reopen', code, message, ...askedOf(verdict) };
}

function stricter(verdict: Extract<Verdict, { kind: 'ask' }>, message: string): Reopened {
  return gone('VERDICT_STRICTER', message, verdict);
}

/** Puts the new question once, to the people whom policy names now and to nobody else. */
export function askedOf(verdict: Verdict): Pick<Reopened, 'approvers' | 'deadlineSeconds'> {
  if (verdict.kind !== 'ask') return {};
  return { approvers: verdict.approvers, deadlineSeconds: verdict.deadlineSeconds };
}

function saidBy({ explain = [] }: Extract<Verdict, { kind: 'ask' }>): string {
  return explain.map(({ text }) => ` ${visible(text)}`).join('');
}

/** True if a person chose the arguments, which the judge of the model's turn has not seen. */
export function hasEditedArguments({ proof }: DispatchInput): boolean {
  return proof.kind === 'decision' && proof.edit !== undefined;
}

/** @param verdict the verdict that this worker reached */
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
