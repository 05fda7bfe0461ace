/**
 * In trust mode `signed` this file proves every part of a call's consent from what was signed, before the call leaves
 * this worker (INV-G1).
 *
 * 1. The proof uses this worker's own keys as they are now: a signature by a key that was revoked since does not count.
 * 2. A vote was made in the Temporal run that schedules the call, or in one before it in the same chain. Temporal's
 *    report decides that; the workflow's claim is not believed.
 * 3. Consent that is no longer proven is asked for again. Consent that was never true is refused, and so is consent
 *    that may be meant for another server.
 */
import { SIGNING } from '../../contracts/crypto.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { SignedAuthorization, SignedDecision } from '../../contracts/schemas/request.ts';
import type { RunSpec } from '../../contracts/schemas/run-spec.ts';
import type { TrustSet } from '../../contracts/schemas/trust.ts';
import type { AuthorizationProof, DispatchProof, RetryProof } from '../../contracts/wire/proofs.ts';
import type { DispatchInput } from '../../contracts/wire/tools.ts';
import { checkSignedAnswer, checkSignedDecision } from '../../domain/request/signed-answer.ts';
import { wasGoodAt } from '../../domain/signing/jws.ts';
import { isSameVoice } from '../../domain/signing/message.ts';
import type { Refused, Scheduler } from '../kit/activity.ts';
import type { Namesakes } from './executions.ts';
import { proveRun, type StartProofParts } from './start-proof.ts';

type DecisionProof = Extract<DispatchProof, { kind: 'decision' | 'standing' }>;

/** Returns undefined if the call is proven. @throws CountersignError if something cannot be read now */
export type CheckSignatures = (input: DispatchInput, scheduler: Scheduler) => Promise<Refused | undefined>;

export function createSignatureCheck(parts: StartProofParts, namesakes: Namesakes): CheckSignatures {
  return async (input, scheduler) => {
    const { run, proof } = input;
    let kept: TrustSet;
    let spec: RunSpec;
    try {
      ({ trust: kept, spec } = await proveRun(parts, input.signedSpec, input, scheduler));
    } catch (error) {
      if (!(error instanceof CountersignError) || error.traits.retryable) throw error;
      return { kind: 'refused', code: error.code, message: error.message };
    }
    const mistakable = await checkNamesakes(input, spec, namesakes);
    if (mistakable !== undefined) return mistakable;
    const unsaid = input.retry && (await checkRetrySignature(parts, input.retry, input, scheduler, kept));
    if (unsaid !== undefined) return unsaid;
    const unprovided = await proveProvided(parts, input, kept, scheduler);
    if (proof.kind === 'policy') return unprovided;
    const doubt = doubtIn(proof, input, kept);
    // A key may be newer than the last read.
    const lasting = doubt && doubtIn(proof, input, await parts.keys.setFor(run.initiator.tenant, 'new'));
    return lasting ?? (await checkWhere(parts, messagesIn(proof), scheduler)) ?? unprovided;
  };
}

/**
 * Checks that the address by which people consented names one server only: policy allows calls by the server's name.
 */
async function checkNamesakes(
  { proof, retry, server, authorizations = [] }: DispatchInput,
  spec: RunSpec,
  namesakes: Namesakes,
): Promise<Refused | undefined> {
  if (proof.kind === 'policy' && retry === undefined) return undefined;
  const regranted = authorizations.some(({ answer }) => answer.kind === 'grant');
  const other = await namesakes(spec, { ...server, regranted });
  if (other === undefined) return undefined;
  return {
    kind: 'refused',
    code: 'DISPATCH_FORBIDDEN',
    message: `Servers ${server.name} and ${other} of this run have one address and other credentials: what people have signed may be meant for either. Start a run with one of them, or give each an address of its own.`,
  };
}

/** Checks people's answers to the server's questions: signed by them, and in this chain. */
async function proveProvided(
  parts: StartProofParts,
  { run, input }: DispatchInput,
  kept: TrustSet,
  scheduler: Scheduler,
): Promise<Refused | undefined> {
  const provided = input?.provided ?? [];
  if (provided.length === 0) return undefined;
  const ids = { namespace: run.namespace, workflowId: run.workflowId, tenant: run.initiator.tenant };
  const isDoubted = (trust: TrustSet): boolean =>
    !provided.every(
      ({ provision, decidedAt }) =>
        checkSignedAnswer('provideInput', provision, ids, trust, undefined).kind === 'signed' &&
        wasGood(provision, Date.parse(decidedAt) / 1_000),
    );
  if (isDoubted(kept) && isDoubted(await parts.keys.setFor(run.initiator.tenant, 'new')))
    return { ...reopen('SIGNATURE_INVALID', 'An answer to what the server asked is not proven.'), asks: 'input' };
  const elsewhere = await checkWhere(
    parts,
    provided.map(({ provision }) => provision),
    scheduler,
  );
  return elsewhere?.kind === 'reopen' ? { ...elsewhere, asks: 'input' } : elsewhere;
}

/**
 * Checks that the person named for sending a possibly executed call again said so, while the signature was good, in
 * this chain.
 */
async function checkRetrySignature(
  parts: StartProofParts,
  { resolution, decidedAt }: RetryProof,
  { run }: DispatchInput,
  scheduler: Scheduler,
  kept: TrustSet,
): Promise<Refused | undefined> {
  const ids = { namespace: run.namespace, workflowId: run.workflowId, tenant: run.initiator.tenant };
  const checkedBy = (trust: TrustSet) => checkSignedAnswer('resolveOutcome', resolution, ids, trust, undefined);
  let checked = checkedBy(kept);
  // A key may be newer than the last read.
  if (checked.kind === 'refuse') checked = checkedBy(await parts.keys.setFor(run.initiator.tenant, 'new'));
  const who = `The word of ${resolution.approver.id} that the call is sent again`;
  if (checked.kind === 'refuse') {
    const { code, message } = checked;
    if (code === 'TRUST_KEY_UNKNOWN' || code === 'SIGNER_NOT_ENTITLED')
      return { ...reopen(code, `${who} no longer counts: its key was revoked, or may say less now.`), asks: 'outcome' };
    return { kind: 'refused', code: 'DISPATCH_FORBIDDEN', message: `${who}: ${message}` };
  }
  if (!wasGood(resolution, Date.parse(decidedAt) / 1_000))
    return {
      kind: 'refused',
      code: 'DISPATCH_FORBIDDEN',
      message: `${who} was not taken while its signature was good.`,
    };
  const elsewhere = await checkWhere(parts, [resolution], scheduler);
  return elsewhere && { ...elsewhere, asks: 'outcome' };
}

/** Returns the last vote first, then the others, then what postponed the deadline. */
function messagesIn(proof: DecisionProof): readonly SignedDecision[] {
  return [...votesIn(proof), ...extensionsIn(proof).map(({ decision }) => decision)];
}

function votesIn(proof: DecisionProof): readonly SignedDecision[] {
  return proof.kind === 'standing' ? proof.decisions : [proof.decision, ...(proof.further ?? [])];
}

/** Returns the votes whose time is claimed: the last one, and all of them if the right to decide depends on time. */
function timedVotes(proof: DecisionProof): readonly { decision: SignedDecision; decidedAt: string }[] {
  const { decidedAt } = proof;
  if (proof.kind === 'standing') return proof.decisions.slice(0, 1).map((decision) => ({ decision, decidedAt }));
  const { further = [], voted } = proof;
  const others =
    voted === undefined ? [] : further.map((decision, at) => ({ decision, decidedAt: voted.further[at] ?? '' }));
  return [{ decision: proof.decision, decidedAt }, ...others];
}

function extensionsIn(proof: DecisionProof): readonly { decision: SignedDecision; decidedAt: string }[] {
  return proof.kind === 'standing' ? [] : (proof.extended?.by ?? []);
}

function doubtIn(proof: DecisionProof, { run }: DispatchInput, trust: TrustSet): Refused | undefined {
  const ids = { namespace: run.namespace, workflowId: run.workflowId, tenant: run.initiator.tenant };
  for (const vote of messagesIn(proof)) {
    const checked = checkSignedDecision(vote, ids, trust, undefined);
    if (checked.kind === 'signed') continue;
    const { code, message } = checked;
    // The signature was good when it was made, but its key is no longer trusted. Somebody else has to decide, or the
    // same person with another key.
    if (code === 'TRUST_KEY_UNKNOWN' || code === 'SIGNER_NOT_ENTITLED')
      return reopen(
        code,
        `The decision of ${vote.approver.id} no longer counts: its key was revoked, or may say less now.`,
      );
    return { kind: 'refused', code: 'DISPATCH_FORBIDDEN', message: `The decision of ${vote.approver.id}: ${message}` };
  }
  const timed = [...timedVotes(proof), ...extensionsIn(proof)];
  if (!timed.every(({ decision, decidedAt }) => wasGood(decision, Date.parse(decidedAt) / 1_000)))
    return {
      kind: 'refused',
      code: 'DISPATCH_FORBIDDEN',
      message: 'A decision was not taken while its signature was good.',
    };
  const signatures = votesIn(proof).map(({ signature = '' }) => signature);
  if (signatures.some((signature, index) => isSameVoice(trust, signatures.slice(0, index), signature)))
    return reopen('APPROVER_NOT_ENTITLED', 'Several decisions are signed with one key; one key is one voice.');
  return undefined;
}

/** Limits a forged time of decision to the validity of the signature. @param seconds since the epoch */
function wasGood({ signature = '' }: Pick<SignedDecision, 'signature'>, seconds: number): boolean {
  return wasGoodAt(signature, seconds, SIGNING.recordedWithin);
}

async function checkWhere(
  { readExecution }: Pick<StartProofParts, 'readExecution'>,
  votes: readonly Pick<SignedDecision, 'runId'>[],
  { workflowId = '', runId = '' }: Scheduler,
): Promise<Extract<Refused, { kind: 'reopen' }> | undefined> {
  const elsewhere = new Set(votes.map((vote) => vote.runId).filter((id) => id !== runId));
  if (elsewhere.size === 0) return undefined;
  const own = await readExecution(workflowId, runId, 'living');
  for (const earlier of elsewhere) {
    const made = await readExecution(workflowId, earlier, 'past');
    if (made?.continued === true && made.firstRunId === own?.firstRunId) continue;
    return reopen(
      'DECISION_STALE_RUN',
      'A decision was made in a Temporal run that is not of this chain, or is no longer known.',
    );
  }
  return undefined;
}

function reopen(code: string, message: string): Extract<Refused, { kind: 'reopen' }> {
  return { kind: 'reopen', code, message: `${message} It needs a fresh one.` };
}

// In trust mode `signed` this file proves the answers to a call's authorization. An answer counts if the person it
// names signed it, while the signature was good, in a Temporal run of this chain. Other answers count as not given.

interface Said {
  readonly answer: SignedAuthorization;
  readonly decidedAt: string;
}

export type SaidAuthorizations = (
  input: Pick<DispatchInput, 'run' | 'authorizations'>,
  scheduler: Scheduler,
) => Promise<readonly AuthorizationProof[]>;

export function createAuthorizationProof(parts: StartProofParts): SaidAuthorizations {
  return async ({ run, authorizations = [] }, scheduler) => {
    const ids = { namespace: run.namespace, workflowId: run.workflowId, tenant: run.initiator.tenant };
    const isSigned = async (answer: SignedAuthorization): Promise<boolean> => {
      for (const age of ['kept', 'new'] as const) {
        const trust = await parts.keys.setFor(ids.tenant, age);
        if (checkSignedAnswer('authorize', answer, ids, trust, undefined).kind === 'signed') return true;
      }
      return false;
    };
    const isSaid = async ({ answer, decidedAt }: Said): Promise<boolean> => {
      const inTime = wasGoodAt(answer.signature ?? '', Date.parse(decidedAt) / 1_000, SIGNING.recordedWithin);
      return inTime && (await isSigned(answer)) && (await checkWhere(parts, [answer], scheduler)) === undefined;
    };
    const said: AuthorizationProof[] = [];
    for (const proof of authorizations) {
      const all: readonly Said[] = [...(proof.further ?? []), proof];
      const signatures = all.map(({ answer }) => answer.signature ?? '');
      const trust = await parts.keys.setFor(ids.tenant, 'kept');
      // One key is one voice, whatever names it may sign for.
      const areDistinct = signatures.every((each, index) => !isSameVoice(trust, signatures.slice(0, index), each));
      let isWhole = areDistinct;
      for (const each of all) isWhole &&= await isSaid(each);
      if (isWhole) said.push(proof);
    }
    return said;
  };
}
