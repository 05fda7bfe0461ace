/**
 * Signs a JWT by which this worker identifies itself to one authorization server (RFC 7523 §3, RFC 8693
 * §1.1).
 */
import { randomUUID } from 'node:crypto';
import { type CryptoKey, SignJWT } from 'jose';
import type { SigningKey } from '../../contracts/schemas/credentials.ts';

/** An assertion is used at once; the clocks of two machines may differ. */
const LIFETIME_SECONDS = 60;

/**
 * @param audience the issuer, and nothing else: an assertion that is good at two places can be carried from one to the
 * other.
 * @param now milliseconds since the epoch
 */
export async function signAssertion(
  { kid, alg }: SigningKey,
  key: CryptoKey,
  clientId: string,
  audience: string,
  now: number,
): Promise<string> {
  const seconds = Math.floor(now / 1_000);
  return await new SignJWT()
    .setProtectedHeader({ alg, kid, typ: 'JWT' })
    .setIssuer(clientId)
    .setSubject(clientId)
    .setAudience(audience)
    .setJti(randomUUID())
    .setIssuedAt(seconds)
    .setExpirationTime(seconds + LIFETIME_SECONDS)
    .sign(key);
}
