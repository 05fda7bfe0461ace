/**
 * Checks what people have said of a call beyond consent to it: to send it again, answers for its server, and
 * authorizations.
 *
 * None of it is believed before it is proven (INV-G1), as statements (`statement.ts`). Signatures are checked before
 * (`activities/trust/dispatch-proof.ts`).
 * 1. A decision to send again a call that may have run (INV-X1) is proven on the facts that were shown, the people
 *    asked and the deadline. It counts only by people who would be asked now, and in a Temporal run that counts;
 *    otherwise the same question is asked again. If one person does not meet the rule, consent to the call must have
 *    been given after that person spoke.
 * 2. An answer for a server is no consent. If it does not hold, it is not given to the server, and the call begins anew
 *    without it.
 * 3. An answer for a server answers a question that a worker was asked. An answer to anything else that people were
 *    shown goes to no server (`activities/gate/legacy-2025/open-question.ts`). It holds only for the same tool, by
 *    people whom policy still asks, and for as long as an approval holds. The people asked then are those asked for
 *    consent; if those differ, consent comes first.
 * 4. Consent to scopes is proven on what was shown of this very call, by people who may give it, so it widens no other
 *    call (INV-S2). An authorization that is not proven grants nothing, and is asked for again if the server still
 *    wants it.
 * 5. A grant is taken from the run's initiator alone, for the server for which it was asked.
 */
import { defined } from '../../contracts/defined.ts';
import type { Verdict } from '../../contracts/schemas/call.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import type { InputRequests } from '../../contracts/schemas/input.ts';
import type { Grant } from '../../contracts/schemas/run-spec.ts';
import type { AuthorizationProof, ProvisionProof } from '../../contracts/wire/proofs.ts';
import type { DispatchInput } from '../../contracts/wire/tools.ts';
import { isMet, mayDecide } from '../../domain/policy/approvers.ts';
import { answersTo, problemInResponses } from '../../domain/request/input.ts';
import { answersOf } from '../../domain/request/provision.ts';
import { canonicalJson } from '../../domain/text/canonical.ts';
import { forbidden, type Refused } from '../kit/activity.ts';
import {
  answerersNow,
  isInTime,
  isOfThisRun,
  isSaid,
  type Leaving,
  spentNow,
  type Statement,
  statementOf,
  voterOf,
} from './statement.ts';

/** Asks the same again: what became of the call, or what its server wants to know. */
function again(asks: 'outcome' | 'input', code: string, message: string): Extract<Refused, { kind: 'reopen' }> {
  return { kind: 'reopen', code, message, asks };
}

// The decision to send a call again that may have run.

export function checkRetry(
  input: DispatchInput,
  config: Pick<Config, 'policy'>,
  verdict: Exclude<Verdict, { kind: 'deny' }>,
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

// Answers for a server.

/** @param areAsked tells whether the server is known to have asked these questions in this call */
export function checkProvided(
  input: DispatchInput,
  now: Leaving,
  areAsked: (requests: InputRequests) => boolean,
): Refused | undefined {
  if (input.input === undefined) return undefined;
  const { provided, leg } = input.input;
  if (!provided.every((proof) => isAnswer(input, proof))) return forbidden('An answer is not to what was asked.');
  // An earlier release may have asked it, or the key may be gone.
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

/** Checks that the answer is to what was shown, came in time, and is by one of the people asked. */
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
    if (why?.kind === 'redefined')
      return again('input', 'DEFINITION_CHANGED', 'The tool has changed since what its server asked was answered.');
    if (why?.kind === 'lapsed') {
      const message = `What ${id} answered held until ${new Date(why.end).toISOString()}.`;
      return again('input', 'APPROVAL_LAPSED', message);
    }
    if (why === undefined) continue;
    const message = `Policy now asks others than ${id} what the server wants to know.`;
    const asked = input.proof.kind === 'decision' ? input.proof.approvers : each.approvers;
    if (canonicalJson(asked) === canonicalJson(now.approvers)) return again('input', 'VERDICT_STRICTER', message);
    const { approvers, deadlineSeconds } = now;
    return { kind: 'reopen', code: 'VERDICT_STRICTER', message, approvers, deadlineSeconds };
  }
  return undefined;
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
  const consented = proofs.flatMap((proof) =>
    now !== undefined && isWanted(input, proof) && isConsent(input, proof, now) ? scopesOf(proof) : [],
  );
  return { consented: [...new Set(consented)], ...defined({ grant: provenGrant(input, proofs) }) };
}

/** Returns the newest grant that replaced the run's own. */
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
  return (
    last !== undefined &&
    all.every((each) => each.answer.kind === 'consent') &&
    statements.every((each) => isSaid(input, each)) &&
    isOfThisRun(
      input,
      all.map((each) => each.answer),
    ) &&
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
