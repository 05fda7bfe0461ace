/**
 * A signature counts if it covers the message, and if its key may assert what the message says (INV-G2).
 *
 * 1. A signature is for one purpose, namespace, tenant, run, Temporal run and message, and for nothing else.
 * 2. A key asserts only what the operator lists: people, tenants, groups. Anything else is refused (INV-G4).
 * 3. One key counts once for a request, unless the operator says that it speaks for many.
 * 4. Validity in time is checked on arrival. At dispatch, weeks later, a signature is as good as its key.
 */
import { SIGNING } from '../../contracts/crypto.ts';
import type { ErrorCode, ErrorFacts } from '../../contracts/errors.ts';
import type { SignedClaims, TrustedKey, TrustSet } from '../../contracts/schemas/trust.ts';
import { isFields, isIdentifier, parseClaims } from '../shapes/inputs.ts';
import type { Refusal } from '../text/refusal.ts';
import { isSignedBy, readJws } from './jws.ts';

/** The message and its sender; every part is compared with the signed claims. */
export interface SignedFor extends Readonly<
  Pick<SignedClaims, 'purpose' | 'namespace' | 'tenant' | 'workflowId' | 'runId' | 'payload'>
> {
  readonly jti?: string;
  /** `issuer|subject`. */
  readonly person: string;
  /** Groups that the message names; if absent, the signed ones count. */
  readonly groups?: readonly string[];
}

export interface Signer extends Readonly<Pick<SignedClaims, 'jti' | 'iss' | 'groups'>> {
  readonly kind: 'signed';
  readonly key: TrustedKey;
}

export const UNSIGNED = 'This run takes signed messages only; sign it with a trusted key. Nothing was changed.';

/** @param now epoch ms; undefined at dispatch, where the message was taken long ago */
export function checkSignature(
  signature: string | undefined,
  about: SignedFor,
  trust: Pick<TrustSet, 'keys'>,
  now: number | undefined,
): Signer | Refusal {
  if (signature === undefined) return { kind: 'refuse', code: 'SIGNATURE_MISSING', message: UNSIGNED, facts: {} };
  const read = readJws(signature);
  if (read.kind === 'bad') return refuse('SIGNATURE_INVALID', `The signature ${read.reason}.`);
  const { jws } = read;
  const key = trust.keys.find(({ kid }) => kid === jws.kid);
  if (key === undefined)
    return refuse(
      'TRUST_KEY_UNKNOWN',
      'The message is signed with a key that is not trusted here. If the key is new, let the run or catalog read its keys again (refreshTrust) and send it again.',
      // Only a short printable key id is repeated, since the sender chose it.
      isIdentifier(jws.kid) ? { kid: jws.kid } : {},
    );
  if (!isSignedBy(jws, key.x))
    return refuse('SIGNATURE_INVALID', `The signature is not one of key ${key.kid}.`, { kid: key.kid });
  const claims = parseClaims(jws.claims);
  if (claims.kind === 'bad')
    return refuse('SIGNATURE_INVALID', `The claim ${claims.path} ${claims.reason}.`, {
      kid: key.kid,
      path: claims.path,
    });
  return judgeClaims(claims.value, key, about, now);
}

function judgeClaims(
  claims: SignedClaims,
  key: TrustedKey,
  about: SignedFor,
  now: number | undefined,
): Signer | Refusal {
  const { kid } = key;
  const invalid = (path: string, message: string): Refusal => refuse('SIGNATURE_INVALID', message, { kid, path });
  const other = (['purpose', 'namespace', 'tenant', 'workflowId', 'runId', 'payload'] as const).find(
    (name) => claims[name] !== about[name],
  );
  if (other !== undefined) return invalid(other, `The message was signed for another ${other}; sign this one.`);
  if (about.jti !== undefined && claims.jti !== about.jti)
    return invalid('jti', 'The id that was signed (jti) is not that of the message.');
  if (about.person !== `${claims.iss}|${claims.sub}`)
    return invalid('sub', 'The message names another person than its signature (iss|sub).');
  if (about.groups !== undefined && !isSameList(about.groups, claims.groups))
    return invalid('groups', 'The message names other groups than its signature.');
  const wrongTime = judgeTime(claims, key, now);
  if (wrongTime !== undefined) return wrongTime;
  const beyond = beyondKey(claims, key);
  if (beyond !== undefined) return refuse('SIGNER_NOT_ENTITLED', `Key ${kid} may not speak for ${beyond}.`, { kid });
  return { kind: 'signed', key, jti: claims.jti, iss: claims.iss, groups: claims.groups };
}

function judgeTime(
  { iat, exp }: SignedClaims,
  { kid, retired }: TrustedKey,
  now: number | undefined,
): Refusal | undefined {
  if (exp <= iat || exp - iat > SIGNING.longestLife)
    return refuse('SIGNATURE_INVALID', `A signature lasts at most ${SIGNING.longestLife} s (exp - iat).`, {
      kid,
      path: 'exp',
    });
  if (retired !== undefined && iat >= retired)
    return refuse('SIGNER_NOT_ENTITLED', `Key ${kid} was replaced, and signs nothing any more.`, { kid });
  if (now === undefined) return undefined;
  if (iat * 1_000 > now + SIGNING.skew * 1_000)
    return refuse('SIGNATURE_EXPIRED', 'The signature is of the future (iat); set the clock of the signer.', {
      kid,
      path: 'iat',
    });
  if (exp * 1_000 <= now)
    return refuse('SIGNATURE_EXPIRED', 'The signature has expired (exp); sign the message again.', {
      kid,
      path: 'exp',
    });
  return undefined;
}

/** Returns the first claim that the key may not assert. Tenants need no check: the set has no keys of other tenants. */
function beyondKey({ iss, sub, groups }: SignedClaims, key: TrustedKey): string | undefined {
  if (iss !== key.iss || (key.sub !== undefined && sub !== key.sub)) return `${iss}|${sub}`;
  const group = groups.find((name) => !key.groups.includes(name));
  return group === undefined ? undefined : `group ${group}`;
}

export function maySend(
  purpose: 'say' | 'stop',
  { may }: Pick<TrustSet, 'may'>,
  initiator: string,
  person: string,
  groups: readonly string[],
): boolean {
  const senders = may[purpose];
  return (
    (senders.initiator && person === initiator) ||
    senders.ids.includes(person) ||
    senders.groups.some((group) => groups.includes(group))
  );
}

/** True if the last signature comes from a key, or a holder of keys, that has agreed before. */
export function isSameVoice(trust: Pick<TrustSet, 'keys'>, earlier: readonly string[], last: string): boolean {
  const own = voiceOf(trust, last);
  return earlier.some((signature) => {
    const { holder, isMany } = voiceOf(trust, signature);
    return holder === own.holder && !(isMany && own.isMany);
  });
}

/** A missing signature, or one of a removed key, counts under the key id that it names. */
function voiceOf(
  { keys }: Pick<TrustSet, 'keys'>,
  signature: string,
): { readonly holder: string; readonly isMany: boolean } {
  const read = readJws(signature);
  const kid = read.kind === 'read' ? read.jws.kid : '';
  const key = keys.find((each) => each.kid === kid);
  return { holder: key?.holder ?? kid, isMany: key?.speaksForMany === true };
}

export interface Opened {
  /** The message without its signature. */
  readonly message: unknown;
  readonly signature?: string;
}

export function openMessage(input: unknown): Opened {
  if (!isFields(input)) return { message: input };
  const { signature, ...message } = input;
  return typeof signature === 'string' ? { message, signature } : { message: input };
}

function isSameList(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((item, index) => item === other[index]);
}

function refuse(code: ErrorCode, message: string, facts: ErrorFacts = {}): Refusal {
  return { kind: 'refuse', code, message: `${message} Nothing was changed.`, facts };
}
