/**
 * A statement is one thing that one person has said about one request of a call. Every proof in a dispatch is read as
 * statements, and `isSaid` checks each of them in the same way.
 *
 * It owns what a statement is, and when it was made, about what, and whether it still counts. It does not own whose
 * statements are enough for what: `consent.ts` (the call itself) and `domain/shapes/inputs.ts` (everything else). Signatures are
 * checked in `activities/trust/dispatch-proof.ts`.
 * 1. The run, its tenant, the tool and the call come from the dispatch; a proof says only what else was shown. Nothing
 *    more is read from the proof, whatever it holds. Otherwise a decision on one tool would be proof for another
 *    (INV-G2).
 * 2. Times are compared so that an invalid time proves nothing.
 * 3. A statement counts as the call leaves, because a call may wait for weeks while policy, tool and people change. It
 *    counts for the tool that is called and by people who would be asked now. It lapses as an approval does, by the
 *    rules of then and now.
 */
import { defined } from '../../contracts/defined.ts';
import type { Verdict } from '../../contracts/schemas/call.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import type { ApproverRule } from '../../contracts/schemas/policy.ts';
import type { RetryProof, ShownRequest } from '../../contracts/wire/proofs.ts';
import type { DispatchInput } from '../../contracts/wire/tools.ts';
import { type Answerers, answerersOf, type Voter } from '../../domain/policy/approvers.ts';
import { lapsedSince } from '../../domain/request/deadline.ts';
import { requestDigest, type Shown } from '../../domain/request/digest.ts';
import type { Answerable } from '../../domain/state/call.ts';

export interface Statement {
  readonly answer: Answerable;
  readonly shown: Shown;
  /** Epoch ms, as all times here. Absent where neither the rule nor an extension depends on it. */
  readonly openedAt?: number;
  readonly deadline: number;
  /** Time at which the run took the answer. Absent for a vote that others followed, if time decides nothing. */
  readonly decidedAt?: number;
}

type Place = Pick<DispatchInput, 'run' | 'callId' | 'target' | 'arguments'>;

/** Returns what was shown of a request for consent. @param callId the call that was asked about, if it was another */
export function shownForConsent(
  { callId: own, target }: Place,
  { generation, arguments: args, approvers }: ShownRequest,
  callId = own,
): Shown {
  return { callId, target, generation, arguments: args, approvers };
}

/** The fields that every proof of an answer to a pause has. */
export type PauseProof = Omit<RetryProof, 'resolution'>;

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

/** Digest under which a request was shown in the Temporal run `runId`. */
export function digestShown({ run }: Pick<DispatchInput, 'run'>, shown: Shown, runId: string): string {
  const { namespace, workflowId, initiator } = run;
  return requestDigest({ ...shown, namespace, tenant: initiator.tenant, workflowId, runId });
}

/** Checks that the answer is to exactly what was shown, and came in time. */
export function isSaid(input: Pick<DispatchInput, 'run'>, statement: Statement): boolean {
  const { answer, shown } = statement;
  return (
    answer.callId === shown.callId && answer.digest === digestShown(input, shown, answer.runId) && isInTime(statement)
  );
}

/** Checks that the answer came after the request opened, and before its deadline. */
export function isInTime({
  openedAt = Number.NEGATIVE_INFINITY,
  decidedAt = openedAt,
  deadline,
}: Pick<Statement, 'openedAt' | 'decidedAt' | 'deadline'>): boolean {
  return openedAt <= decidedAt && decidedAt < deadline;
}

/** Gives the author of the answer, and how long after the question they answered, if that is known. */
export function voterOf({ answer, openedAt, decidedAt = Number.NaN }: Statement): Voter {
  return { ...answer.approver, ...defined({ after: openedAt === undefined ? undefined : decidedAt - openedAt }) };
}

/** True if each answer was given in a Temporal run that counts (INV-D4). */
export function isOfThisRun({ decidedIn }: Pick<DispatchInput, 'decidedIn'>, answers: readonly Answerable[]): boolean {
  return answers.every(({ runId }) => decidedIn.includes(runId));
}

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
  verdict: Exclude<Verdict, { kind: 'deny' }>,
): Answerers {
  const { approvers, deadlineSeconds } =
    verdict.kind === 'ask' ? verdict : answerersOf({ organisation: policy, run: runPolicy }, run.initiator.id);
  return { approvers, deadlineSeconds };
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
export function spentNow(
  { shown, decidedAt = Number.NaN }: Statement,
  now: Leaving,
  isEnough: (rule: ApproverRule) => boolean,
): Spent | undefined {
  if (shown.target.definitionHash !== now.definitionHash) return { kind: 'redefined' };
  if (!isEnough(now.approvers)) return { kind: 'others-asked' };
  const end = lapsedSince(decidedAt, now.at, shown.approvers, now.approvers);
  return end === undefined ? undefined : { kind: 'lapsed', end };
}
