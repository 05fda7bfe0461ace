/**
 * What people said of a call's authorization, as far as it is proven: what is not grants nothing, and is asked again where the
 * server still wants it.
 *
 * 1. Consent is proven on what was shown of this very call, by whoever may give it; so it widens no other call (INV-S2).
 * 2. It counts as the call leaves: of the tool that is called, by whoever policy asks now, as long as an approval holds.
 * 3. A grant is taken from the run's initiator alone, for the server that it was asked for.
 */
import type { DispatchInput } from '../../contracts/dispatch.ts';
import type { AuthorizationProof } from '../../contracts/dispatch-proof.ts';
import type { Grant } from '../../contracts/schemas/run-spec.ts';
import { isMet, type Voter } from '../../domain/approver.ts';
import { digestOfPause } from './shown-digest.ts';
import { type Leaving, spentNow, voterOf } from './word-now.ts';

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
