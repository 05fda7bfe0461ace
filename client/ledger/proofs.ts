/**
 * Checks that the start of a run and its decisions were signed by people who may make them. Each entry is matched with
 * its message in history, whose signature is verified (`domain/signing/message.ts` says what that proves).
 *
 * 1. A missing signature is a fault: otherwise leaving signatures out would hide everything.
 * 2. A signature that cannot be verified here counts as unchecked, never as good.
 */
import { SIGNING } from '../../contracts/crypto.ts';
import type { AnyEntry } from '../../contracts/schemas/ledger.ts';
import { RunSpec } from '../../contracts/schemas/run-spec.ts';
import type { TrustedJwk, TrustedKey } from '../../contracts/schemas/trust.ts';
import { specHash } from '../../domain/request/digest.ts';
import { checkSignedAnswer } from '../../domain/request/signed-answer.ts';
import { signatureEvidence, trustedKeysFor, wasGoodAt } from '../../domain/signing/jws.ts';
import { checkSignature, openMessage } from '../../domain/signing/message.ts';
import { canonicalJson, hashOf } from '../../domain/text/canonical.ts';
import type { Refusal } from '../../domain/text/refusal.ts';
import type { LedgerFault } from './check.ts';
import { fieldOf, textAt } from './files.ts';
import { isAnswerFact, isSignedAs, type RecordedDeeds, signedAnswer, type SignedAnswer } from './history.ts';

export interface ProofReport {
  readonly faults: readonly LedgerFault[];
  /** Number of signatures of people and services that were looked for, whether or not they were good. */
  readonly checked: number;
  /** Number of signatures that were not verified, for want of the message or the keys. */
  readonly unchecked: number;
}

interface ProofParts {
  readonly namespace: string;
  readonly workflowId: string;
  readonly trusted: readonly TrustedJwk[];
  readonly deeds: Pick<RecordedDeeds, 'from' | 'start' | 'messages'>;
}

type Doubt = Pick<LedgerFault, 'kind' | 'reason'> | undefined;

interface Place {
  readonly namespace: string;
  readonly workflowId: string;
  readonly tenant: string;
  readonly keys: readonly TrustedKey[];
}

export function checkProofs(entries: readonly AnyEntry[], parts: ProofParts): ProofReport {
  const { deeds, namespace, workflowId } = parts;
  const place = { namespace, workflowId, ...believed(entries, parts.trusted) };
  const faults = [...startlessFaults(entries)];
  let [checked, unchecked] = [0, 0];
  for (const entry of entries.filter(isProvable)) {
    const { seq, fact } = entry;
    const isStart = fact.kind === 'run.started';
    // The messages of forgotten executions are gone, and so is the input that the signature of the spec covers.
    const isForgotten = isStart ? deeds.start.at === undefined : seq < deeds.from;
    let doubt: Doubt;
    if (!isForgotten) doubt = isStart ? startDoubt(fact, deeds.start, place) : decisionDoubt(entry, deeds, place);
    // The ledger names no key for the start, so nothing of that is left to check.
    else if (!isStart) doubt = namedDoubt(fact, place);
    if (doubt !== undefined) faults.push({ ...doubt, seq });
    if (isForgotten) unchecked += 1;
    else checked += 1;
  }
  return { faults, checked, unchecked };
}

/**
 * Checks a copy alone: its entries must name keys that may sign such decisions. No signature is verified.
 * @param whole the entries among which the start stands, if `entries` are only a part
 */
export function checkNamedKeys(
  entries: readonly AnyEntry[],
  trusted: readonly TrustedJwk[],
  whole: readonly AnyEntry[] = entries,
): ProofReport {
  const place = believed(whole, trusted);
  const decisions = entries.filter(isAnswer);
  const faults = decisions.flatMap(({ seq, fact }): LedgerFault[] => {
    const doubt = namedDoubt(fact, place);
    return doubt === undefined ? [] : [{ ...doubt, seq }];
  });
  const startless = startlessFaults(whole).filter(({ seq }) => entries.some((entry) => entry.seq === seq));
  return { faults: [...startless, ...faults], checked: 0, unchecked: entries.filter(isProvable).length };
}

/** A chain without a start names nobody who must have signed, so that nothing of it would be looked for. */
function startlessFaults([first]: readonly AnyEntry[]): readonly LedgerFault[] {
  if (first === undefined || first.fact.kind === 'run.started') return [];
  return [{ kind: 'proof-unsigned', seq: first.seq, reason: 'does not say who started the run' }];
}

/** Counts the signatures that the ledger names; for callers without keys. */
export function namedSignatures(entries: readonly AnyEntry[]): number {
  return entries.filter(({ fact }) => textAt(fact['signature'], 'sha256') !== undefined).length;
}

function isProvable(entry: AnyEntry): boolean {
  return entry.fact.kind === 'run.started' || isAnswer(entry);
}

/** True for an answer to a request of any kind: each is signed for its own update. */
function isAnswer({ fact }: AnyEntry): boolean {
  return isAnswerFact(fact.kind);
}

function believed(entries: readonly AnyEntry[], trusted: readonly TrustedJwk[]): Pick<Place, 'tenant' | 'keys'> {
  const tenant = textAt(entries.find(({ fact }) => fact.kind === 'run.started')?.fact, 'tenant') ?? '';
  return { tenant, keys: trustedKeysFor(trusted, tenant) };
}

function startDoubt(fact: AnyEntry['fact'], { spec, at }: RecordedDeeds['start'], place: Place): Doubt {
  const { message, signature } = openMessage(spec);
  const parsed = RunSpec.safeParse(message);
  if (!parsed.success) return altered('names a spec that history does not have');
  const { id, groups, tenant } = parsed.data.initiator;
  const started = { initiator: id, tenant, specHash: specHash(parsed.data) };
  const other = Object.entries(started).find(([name, value]) => fact[name] !== value)?.[0];
  if (other !== undefined) return altered(`says another ${other} than the spec that the run was started with`);
  const { namespace, workflowId } = place;
  const what = { purpose: 'start', payload: hashOf(message) } as const;
  const about = { ...what, namespace, tenant, workflowId, person: id, groups };
  const checked = checkSignature(signature, about, place, undefined);
  if (checked.kind === 'refuse') return doubtOf(checked, `the start by ${id}`);
  if (at === undefined || wasGoodAt(signature ?? '', at / 1_000)) return undefined;
  return { kind: 'proof-expired', reason: `is of a start by ${id} whose signature was not good when the run began` };
}

function decisionDoubt({ at, fact }: AnyEntry, { messages }: ProofParts['deeds'], place: Place): Doubt {
  const id = textAt(fact, 'decisionId') ?? '';
  const what = `the decision ${id} of ${textAt(fact['approver'], 'id')}`;
  const named = textAt(fact['signature'], 'sha256');
  if (named === undefined) return unsigned(what);
  const sent = (messages.get(id) ?? []).find(({ message }) => isSignedAs(message, named));
  if (sent === undefined) return altered(`names a signature for ${what} that history does not have`);
  const answer = signedAnswer(fact.kind, sent);
  if (answer === undefined) return altered(`is of ${what}, which is no decision as it was sent`);
  const { signature, purpose, isJudged } = answer;
  if (!isSame(fact['signature'], signatureEvidence(signature)))
    return altered(`names another key, id or issuer for ${what} than its signature has`);
  const checked = checkSignedAnswer(purpose, { ...answer.message, signature }, place, place, undefined);
  if (checked.kind === 'refuse') return doubtOf(checked, what);
  const other = otherThanSigned(fact, answer);
  if (other !== undefined) return altered(`says another ${other} for ${what} than was signed`);
  // Temporal's time is that of its event. A workflow task begins before that event, and an edit is judged after it.
  const isInTime =
    wasGoodAt(signature, Date.parse(at) / 1_000, isJudged ? SIGNING.recordedWithin : 0) &&
    wasGoodAt(signature, sent.at / 1_000, SIGNING.recordedWithin);
  return isInTime ? undefined : { kind: 'proof-expired', reason: `took ${what} when its signature was not good` };
}

function otherThanSigned(
  fact: AnyEntry['fact'],
  { message: { approver, callId, digest, runId }, said }: SignedAnswer,
): string | undefined {
  const groups = fieldOf(fact['approver'], 'groups');
  // The ledger keeps only the groups that the request's rule names.
  const areSigned = Array.isArray(groups) && groups.every((group) => approver.groups.includes(String(group)));
  const pairs: readonly (readonly [string, unknown, unknown])[] = [
    ['call', fact['callId'], callId],
    ['approver', textAt(fact['approver'], 'id'), approver.id],
    ['list of groups', areSigned, true],
    ['digest', fact['digest'], digest],
    ['Temporal run', fact['runId'], runId],
    ...said.map(([name, [field = '', inner], signed]) => {
      const told = fact[field];
      return [name, inner === undefined ? told : textAt(told, inner), signed] as const;
    }),
  ];
  return pairs.find(([, told, signed]) => !isSame(told, signed))?.[0];
}

function namedDoubt(fact: AnyEntry['fact'], { tenant, keys }: Pick<Place, 'tenant' | 'keys'>): Doubt {
  const person = textAt(fact['approver'], 'id') ?? '';
  const what = `the decision ${textAt(fact, 'decisionId')} of ${person}`;
  const kid = textAt(fact['signature'], 'kid');
  if (kid === undefined) return unsigned(what);
  const key = keys.find((each) => each.kid === kid);
  if (key === undefined) return foreign(what, kid, tenant);
  const groups = fieldOf(fact['approver'], 'groups');
  const isEntitled =
    (key.sub === undefined ? person.startsWith(`${key.iss}|`) : person === `${key.iss}|${key.sub}`) &&
    Array.isArray(groups) &&
    groups.every((group) => key.groups.includes(String(group)));
  return isEntitled ? undefined : notEntitled(what, kid);
}

function doubtOf({ code, facts }: Refusal, what: string): Doubt {
  const kid = String(facts['kid'] ?? 'of no readable name');
  if (code === 'SIGNATURE_MISSING') return unsigned(what);
  if (code === 'TRUST_KEY_UNKNOWN') return foreign(what, kid);
  if (code === 'SIGNER_NOT_ENTITLED') return notEntitled(what, kid);
  const part = facts['path'] === undefined ? '' : ` (its ${String(facts['path'])})`;
  return altered(`is of ${what}, whose signature does not hold${part}`);
}

function altered(reason: string): Doubt {
  return { kind: 'proof-altered', reason };
}

function unsigned(what: string): Doubt {
  return { kind: 'proof-unsigned', reason: `is of ${what}, which nobody has signed` };
}

function foreign(what: string, kid: string, tenant?: string): Doubt {
  const where = tenant === undefined ? "the run's tenant" : `tenant ${tenant}`;
  const reason = `is of ${what}, signed with key ${kid}, which is not trusted for ${where}`;
  return { kind: 'proof-foreign-key', reason };
}

function notEntitled(what: string, kid: string): Doubt {
  const reason = `is of ${what}, signed with key ${kid}, which may not speak for them and their groups, or had been replaced by then`;
  return { kind: 'proof-not-entitled', reason };
}

function isSame(one: unknown, other: unknown): boolean {
  return canonicalJson({ value: one }) === canonicalJson({ value: other });
}
