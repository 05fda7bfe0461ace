/** Checks that a known key signed a ledger head, and that the head belongs to the run beside which it stands. */
import { compactVerify, type CryptoKey, decodeProtectedHeader, importJWK, importSPKI } from 'jose';
import { z } from 'zod';
import { HEAD_ALG, HEAD_TYPE } from '../../contracts/crypto.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { LedgerHead } from '../../contracts/schemas/ledger.ts';
import { fromBase64url } from '../../domain/text/canonical.ts';
import type { CheckedHead, LedgerFault } from './check.ts';

/** Public keys by key id; those under `*` stand for every id, since PEM has none. */
export type HeadKeys = ReadonlyMap<string, readonly (CryptoKey | Uint8Array)[]>;

const PEM = /-----BEGIN PUBLIC KEY-----[^-]*-----END PUBLIC KEY-----/g;

const PublicJwk = z.looseObject({
  kty: z.literal('OKP'),
  crv: z.literal('Ed25519'),
  x: z.string(),
  kid: z.string().optional(),
  /** The private half is refused: it can only be there by mistake. */
  d: z.undefined().optional(),
});
const JwkSet = z.object({ keys: z.array(PublicJwk).min(1) });

/**
 * Reads public keys.
 * @param text a JWK, a JWK set, or public keys in PEM, one after the other: workers get a new key now and then
 * @throws CountersignError `USAGE`
 */
export async function readHeadKeys(text: string): Promise<HeadKeys> {
  try {
    const blocks = text.match(PEM) ?? [];
    if (blocks.length > 0 && text.replaceAll(PEM, '').trim() === '')
      return new Map([['*', await Promise.all(blocks.map((block) => importSPKI(block, HEAD_ALG)))]]);
    const value: unknown = JSON.parse(text);
    const set = JwkSet.safeParse(value);
    const keys = set.success ? set.data.keys : [PublicJwk.parse(value)];
    const read = new Map<string, (CryptoKey | Uint8Array)[]>();
    for (const { kty, crv, x, kid = '*' } of keys)
      read.set(kid, [...(read.get(kid) ?? []), await importJWK({ kty, crv, x }, HEAD_ALG)]);
    return read;
  } catch {
    // The cause is left out: it may quote a private key that was given by mistake.
    const message =
      'The key file holds no public Ed25519 keys: it must be a JWK set, a JWK, or PEM as openssl pkey -pubout writes it.';
    throw new CountersignError('USAGE', message);
  }
}

export interface HeadPlace {
  readonly namespace?: string | undefined;
  readonly workflowId: string;
  readonly firstRunId?: string | undefined;
}

type HeadCheck =
  | { readonly kind: 'head'; readonly head: CheckedHead }
  | { readonly kind: 'foreign'; readonly fault: LedgerFault };

/** Checks one signed head. @param keys if absent, only the content of the head is compared */
export async function checkHead(signed: string, place: HeadPlace, keys?: HeadKeys): Promise<HeadCheck> {
  const foreign = (reason: string, seq = 0): HeadCheck => ({
    kind: 'foreign',
    fault: { kind: 'foreign-head', seq, reason },
  });
  const read = headIn(signed);
  if (read === undefined) return foreign('stands beside a signed head that cannot be read');
  const { head, typ, alg, kid = '' } = read;
  if (typ !== HEAD_TYPE || alg !== HEAD_ALG) return foreign('stands beside a signature of another kind');
  const seq = head.to - 1;
  for (const field of ['namespace', 'workflowId', 'firstRunId'] as const)
    if (place[field] !== undefined && place[field] !== head[field])
      return foreign(`stands beside a signed head of another run: its ${field} is ${head[field]}`, seq);
  if (keys === undefined) return { kind: 'head', head: { ...head, kid, verified: false } };
  const known = keys.get(kid) ?? keys.get('*');
  if (known === undefined)
    return foreign(`stands beside a head that is signed by ${kid}, whose key was not given`, seq);
  for (const key of known)
    if (await isSignedBy(signed, key)) return { kind: 'head', head: { ...head, kid, verified: true } };
  const named = keys.has(kid) ? '' : ' with any key that was given: is its own among them?';
  return foreign(`stands beside a head whose signature by ${kid} does not hold${named}`, seq);
}

function headIn(signed: string) {
  const parts = signed.split('.').map(fromBase64url);
  // Unused bits of base64url may not differ either: a signed text has exactly one spelling.
  if (parts.includes(undefined)) return undefined;
  try {
    const head = LedgerHead.parse(JSON.parse(Buffer.from(parts[1] ?? []).toString()));
    return { ...decodeProtectedHeader(signed), head };
  } catch {
    return undefined;
  }
}

async function isSignedBy(signed: string, key: CryptoKey | Uint8Array): Promise<boolean> {
  return await compactVerify(signed, key, { algorithms: [HEAD_ALG] }).then(
    () => true,
    () => false,
  );
}
