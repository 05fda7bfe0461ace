/**
 * In trust mode `signed` this file proves everything that people have said of a call from what they signed, before the
 * call leaves this worker (INV-G1). `deedsIn` lists what was said; `doubtOf` proves each of them in the same way.
 *
 * 1. The proof uses this worker's own keys as they are now: a signature by a key that was revoked since does not count.
 * 2. An answer was given in the Temporal run that schedules the call, or in one before it in the same chain, by
 *    Temporal's report.
 * 3. Whatever is no longer proven is asked for again. Whatever was never true is refused, and so is consent that may be
 *    meant for another server. An answer for a server is asked for again in both cases: the call can begin without it.
 * 4. Answers to a call's authorization that are not proven count as not given; the call itself is not refused.
 */
import { defined } from '../../contracts/defined.ts';
import { SIGNING } from '../../contracts/crypto.ts';
import { CountersignError, type ErrorCode } from '../../contracts/errors.ts';
import type { SignedAuthorization, SignedDecision, SignedProvision } from '../../contracts/schemas/request.ts';
import type { RunSpec } from '../../contracts/schemas/run-spec.ts';
import type { TrustSet } from '../../contracts/schemas/trust.ts';
import type { AuthorizationProof, RetryProof } from '../../contracts/wire/proofs.ts';
import type { DispatchInput } from '../../contracts/wire/tools.ts';
import { type AnswerPurpose, checkSignedAnswer } from '../../domain/request/signed-answer.ts';
import { wasGoodAt } from '../../domain/signing/jws.ts';
import { isSameVoice } from '../../domain/signing/message.ts';
import type { RunIds } from '../../domain/state/run.ts';
import { forbidden, type Refused, type Scheduler } from '../kit/activity.ts';
import { isOfChain, type Namesakes } from './executions.ts';
import { checkedByKeys } from './keys.ts';
import { proveRun, type StartProofParts } from './start-proof.ts';

/** Returns undefined if the call is proven. @throws CountersignError if something cannot be read now */
export type CheckSignatures = (input: DispatchInput, scheduler: Scheduler) => Promise<Refused | undefined>;

export function createSignatureCheck(parts: StartProofParts, namesakes: Namesakes): CheckSignatures {
  return async (input, scheduler) => {
    let spec: RunSpec;
    try {
      spec = await proveRun(parts, input.signedSpec, input, scheduler);
    } catch (error) {
      if (!(error instanceof CountersignError) || error.traits.retryable) throw error;
      return { kind: 'refused', code: error.code, message: error.message };
    }
    const mistakable = await checkNamesakes(input, spec, namesakes);
    if (mistakable !== undefined) return mistakable;
    for (const deed of deedsIn(input)) {
      const doubt = await doubtOf(parts, deed, input, scheduler);
      if (doubt !== undefined) return refusalOf(deed, doubt);
    }
    return undefined;
  };
}

/** The address by which people consented must name one server only: policy allows calls by the server's name. */
async function checkNamesakes(
  { proof, retry, server, authorizations = [] }: DispatchInput,
  spec: RunSpec,
  namesakes: Namesakes,
): Promise<Refused | undefined> {
  if (proof.kind === 'policy' && retry === undefined) return undefined;
  const regranted = authorizations.some(({ answer }) => answer.kind === 'grant');
  const other = await namesakes(spec, { ...server, regranted });
  if (other === undefined) return undefined;
  return forbidden(
    `Servers ${server.name} and ${other} of this run have one address and other credentials: what people have signed may be meant for either. Start a run with one of them, or give each an address of its own.`,
  );
}

interface Said {
  readonly answer: SignedDecision | SignedProvision | SignedAuthorization | RetryProof['resolution'];
  /** Claimed, if anything depends on it. */
  readonly decidedAt?: string | undefined;
}

/** Statements of one or several people to one effect. */
interface Deed {
  readonly purpose: AnswerPurpose;
  /** Answers that count by key: one key is one voice, whatever names it may sign for. */
  readonly voices: readonly Said[];
  readonly others?: readonly Said[];
  readonly describe: (person: string) => string;
  /** Question that is asked again; absent: the one for consent. */
  readonly asks?: 'outcome' | 'input';
}

function deedsIn({ proof, retry, input }: DispatchInput): readonly Deed[] {
  const deeds: Deed[] = [];
  if (retry !== undefined)
    deeds.push({
      purpose: 'resolveOutcome',
      voices: [{ answer: retry.resolution, decidedAt: timeOf(retry) }],
      describe: (person) => `The word of ${person} that the call is sent again`,
      asks: 'outcome',
    });
  if (proof.kind !== 'policy') deeds.push(consentIn(proof));
  deeds.push({
    purpose: 'provideInput',
    voices: [],
    others: (input?.provided ?? []).map((said) => ({ answer: said.provision, decidedAt: timeOf(said) })),
    describe: (person) => `The answer of ${person} to what the server asked`,
    asks: 'input',
  });
  return deeds;
}

/** Lists the votes, the last one first, and what postponed the deadline. */
function consentIn(proof: Exclude<DispatchInput['proof'], { kind: 'policy' }>): Deed {
  const consent = { purpose: 'decide', describe: (person: string) => `The decision of ${person}` } as const;
  const decidedAt = timeOf(proof);
  if (proof.kind === 'standing') {
    const voices = proof.decisions.map((answer, index) => (index === 0 ? { answer, decidedAt } : { answer }));
    return { ...consent, voices };
  }
  const { decision, further = [], voted, extended } = proof;
  const others = further.map((answer, at) => ({ answer, decidedAt: voted && (voted.further[at] ?? '') }));
  return {
    ...consent,
    voices: [{ answer: decision, decidedAt }, ...others],
    others: (extended?.by ?? []).map((each) => ({ answer: each.decision, decidedAt: timeOf(each) })),
  };
}

/** A time that is missing, though it belongs there, is one at which no signature was good. */
function timeOf({ decidedAt = '' }: { readonly decidedAt?: string }): string {
  return decidedAt;
}

interface Doubt {
  /** A statement that was true may count no longer: its key was revoked, or it belongs to another Temporal run. */
  readonly kind: 'never' | 'no-longer';
  readonly code: ErrorCode;
  readonly message: string;
}

function refusalOf({ asks }: Deed, { kind, code, message }: Doubt): Refused {
  if (kind === 'never' && asks !== 'input') return forbidden(message);
  const again = `${message} It needs a fresh one.`;
  return { kind: 'reopen', code, message: again, ...defined({ asks }) };
}

async function doubtOf(
  parts: Pick<StartProofParts, 'keys' | 'readExecution'>,
  deed: Deed,
  { run }: Pick<DispatchInput, 'run'>,
  scheduler: Scheduler,
): Promise<Doubt | undefined> {
  const all = [...deed.voices, ...(deed.others ?? [])];
  if (all.length === 0) return undefined;
  const { tenant } = run.initiator;
  const ids = { namespace: run.namespace, workflowId: run.workflowId, tenant };
  const { checked } = await checkedByKeys(parts.keys, tenant, (trust) => doubtIn(deed, all, ids, trust));
  return checked ?? (await doubtWhere(parts, deed, all, scheduler));
}

function doubtIn(
  { purpose, voices, describe }: Deed,
  all: readonly Said[],
  ids: Omit<RunIds, 'runId'>,
  trust: TrustSet,
): Doubt | undefined {
  for (const { answer } of all) {
    const checked = checkSignedAnswer(purpose, answer, ids, trust, undefined);
    if (checked.kind === 'signed') continue;
    const { code, message } = checked;
    const who = describe(answer.approver.id);
    // Somebody else has to decide, or the same person with another key.
    if (code === 'TRUST_KEY_UNKNOWN' || code === 'SIGNER_NOT_ENTITLED')
      return { kind: 'no-longer', code, message: `${who} no longer counts: its key was revoked, or may say less now.` };
    return { kind: 'never', code: 'SIGNATURE_INVALID', message: `${who}: ${message}` };
  }
  const late = all.find(({ answer, decidedAt }) => decidedAt !== undefined && !wasGood(answer.signature, decidedAt));
  if (late !== undefined) {
    const message = `${describe(late.answer.approver.id)} was not taken while its signature was good.`;
    return { kind: 'never', code: 'SIGNATURE_INVALID', message };
  }
  const signatures = voices.map(({ answer }) => answer.signature ?? '');
  if (!signatures.some((signature, index) => isSameVoice(trust, signatures.slice(0, index), signature)))
    return undefined;
  const message = 'Several decisions are signed with one key; one key is one voice.';
  return { kind: 'no-longer', code: 'APPROVER_NOT_ENTITLED', message };
}

/** Limits a forged time of decision to the validity of the signature. */
function wasGood(signature: string | undefined, decidedAt: string): boolean {
  return wasGoodAt(signature ?? '', Date.parse(decidedAt) / 1_000, SIGNING.recordedWithin);
}

/** Doubts what was said in a Temporal run that is not of this chain. */
async function doubtWhere(
  { readExecution }: Pick<StartProofParts, 'readExecution'>,
  { describe }: Deed,
  all: readonly Said[],
  { workflowId, runId }: Scheduler,
): Promise<Doubt | undefined> {
  const elsewhere = all.filter(({ answer }) => answer.runId !== runId);
  for (const [earlier, { answer }] of new Map(elsewhere.map((each) => [each.answer.runId, each]))) {
    if (await isOfChain(readExecution, workflowId, runId, earlier)) continue;
    const message = `${describe(answer.approver.id)} was given in a Temporal run that is not of this chain, or is no longer known.`;
    return { kind: 'no-longer', code: 'DECISION_STALE_RUN', message };
  }
  return undefined;
}

/** Returns those answers to a call's authorization that are proven. */
export type SaidAuthorizations = (
  input: Pick<DispatchInput, 'run' | 'authorizations'>,
  scheduler: Scheduler,
) => Promise<readonly AuthorizationProof[]>;

export function createAuthorizationProof(parts: StartProofParts): SaidAuthorizations {
  return async (input, scheduler) => {
    const said: AuthorizationProof[] = [];
    for (const proof of input.authorizations ?? []) {
      const all = [...(proof.further ?? []), proof];
      const voices = all.map((each) => ({ answer: each.answer, decidedAt: timeOf(each) }));
      const deed: Deed = { purpose: 'authorize', voices, describe: (person) => `The authorization by ${person}` };
      if ((await doubtOf(parts, deed, input, scheduler)) === undefined) said.push(proof);
    }
    return said;
  };
}
