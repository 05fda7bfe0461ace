/**
 * Makes keys of people and services. Signatures come from a library that is not ours (jose), so that tests
 * can forge freely.
 */
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { rename, writeFile } from 'node:fs/promises';
import { CompactSign, importJWK, type JWK } from 'jose';
import type { z } from 'zod';
import { createSigner, type Signer } from '../../../client/index.ts';
import { type Assertion, TrustedJwk } from '../../../contracts/schemas/trust.ts';
import { hashOf } from '../../../domain/text/canonical.ts';

export interface TestKey {
  readonly kid: string;
  readonly privateJwk: JWK;
  readonly entry: TrustedJwk;
  readonly signer: Signer;
}

export function testKey(kid: string, asserts: z.input<typeof Assertion>): TestKey {
  const { privateKey } = generateKeyPairSync('ed25519');
  // Sound: a JWK of an Ed25519 private key has these members (RFC 8037 §2).
  const { kty, crv, x, d } = privateKey.export({ format: 'jwk' }) as {
    kty: 'OKP';
    crv: 'Ed25519';
    x: string;
    d: string;
  };
  const entry = TrustedJwk.parse({ kty, crv, x, kid, countersign: asserts });
  const { countersign } = entry;
  return {
    kid,
    privateJwk: { kty, crv, x, d },
    entry,
    signer: createSigner(kid, { kty, crv, x, d }, countersign.kind === 'person' ? countersign.groups : undefined),
  };
}

export function person(kid: string, sub: string, groups: string[] = [], over: object = {}): TestKey {
  return testKey(kid, { kind: 'person', iss: 'acme', sub, groups, ...over });
}

export function service(kid: string, groups: string[] = [], over: object = {}): TestKey {
  return testKey(kid, { kind: 'service', iss: 'acme', groups, ...over });
}

/** Replaces the file in one step, as an operator should. */
export async function writeTrust(path: string, ...keys: readonly (TestKey | TrustedJwk)[]): Promise<void> {
  const entries = keys.map((key) => ('entry' in key ? key.entry : key));
  const draft = `${path}.${randomUUID()}`;
  await writeFile(draft, JSON.stringify({ keys: entries }));
  await rename(draft, path);
}

export interface TestClaims {
  readonly [claim: string]: unknown;
}

/** Makes the claims of an honest signer for this message; a test's forgery overrides them. */
export function claimsFor(message: object, about: TestClaims, over: TestClaims = {}): TestClaims {
  const iat = Math.floor(Date.now() / 1_000);
  return { groups: [], ...about, payload: hashOf(message), iat, exp: iat + 300, jti: randomUUID(), ...over };
}

export async function signedWith(key: TestKey, claims: TestClaims, header: object = {}): Promise<string> {
  const protectedHeader = { alg: 'EdDSA', kid: key.kid, typ: 'countersign+jws', ...header };
  return await new CompactSign(new TextEncoder().encode(JSON.stringify(claims)))
    .setProtectedHeader(protectedHeader)
    .sign(await importJWK(key.privateJwk, 'EdDSA'));
}

/** The zone key that all workers of a test share. */
export const ZONE_KEY = { id: 'zone', key: Buffer.alloc(32, 7).toString('base64') };

/** Adds a zone key to a configuration whose trust mode needs one and that has none. */
export function withZone<T extends { trust?: unknown }>(config: T): T {
  const { trust } = config;
  if (typeof trust !== 'object' || trust === null || !('mode' in trust) || trust.mode !== 'signed' || 'zone' in trust)
    return config;
  return { ...config, trust: { ...trust, zone: { keys: [ZONE_KEY] } } };
}
