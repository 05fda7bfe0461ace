/** A sealed grant opens for one run and one server, for a while (S1.1, S1.3, S1.6, H-1, H-2, H-3, INV-S1). */
import { beforeAll, describe, expect, test } from '@jest/globals';
import { decodeProtectedHeader } from 'jose';
import { sealedStrategy } from '../../../../activities/tokens/sealed.ts';
import { type Grant, SealedGrant } from '../../../../contracts/schemas/run-spec.ts';
import { NOW, open, runOf, seal, SERVER_URL, TOKEN } from '../../../support/signing/grants.ts';
import { codeOf, refusalOf } from '../../../support/refusal.ts';
import { privateKeysOf, type ZoneKey, zoneKey } from '../../../support/signing/keys.ts';

let zone: ZoneKey;
let other: ZoneKey;
beforeAll(async () => {
  zone = await zoneKey('zone-1');
  other = await zoneKey('zone-2');
});

describe('a sealed grant', () => {
  test('S1.1: opens for the run and the server it was sealed for, to the very token', async () => {
    const minted = await open(zone, await seal(zone));
    // Sealed for an hour; a request that waits longer says so.
    const grantExpiresAt = new Date(NOW + 3_600_000).toISOString();
    expect(minted).toEqual({ accessToken: TOKEN, evidence: { strategy: 'given' }, secrets: [TOKEN], grantExpiresAt });
  });

  test('S1.3: holds the token without the scheme', async () => {
    expect((await open(zone, await seal(zone, { authorization: `bEARER  ${TOKEN}` }))).accessToken).toBe(TOKEN);
  });

  test('is a flattened JWE with the agreed algorithms, the key id, and the binding as associated data', async () => {
    const jwe = SealedGrant.parse(await seal(zone));
    expect(decodeProtectedHeader(jwe)).toMatchObject({ alg: 'ECDH-ES+A256KW', enc: 'A256GCM', kid: 'zone-1' });
    expect(Buffer.from(jwe.aad, 'base64url').toString()).toBe(
      `{"exp":${NOW / 1_000 + 3_600},"namespace":"default","serverUrl":"https://mcp.example.com/mcp","specHash":"${'a'.repeat(64)}","workflowId":"refund-1"}`,
    );
  });

  test('INV-S1: shows the token in no form, and is another text each time', async () => {
    const [one, two] = [await seal(zone), await seal(zone)];
    expect(JSON.stringify(one)).not.toContain(Buffer.from(TOKEN).toString('base64url').slice(0, 12));
    expect(one.ciphertext).not.toBe(two.ciphertext);
    expect(one.encrypted_key).not.toBe(two.encrypted_key);
  });

  test('is bound to the canonical form of the server URL', async () => {
    const jwe = await seal(zone, { serverUrl: 'HTTPS://MCP.example.com:443/mcp#part' });
    expect((await open(zone, jwe)).accessToken).toBe(TOKEN);
  });

  test('opens with the old key after a new one was added, so that keys rotate while runs wait', async () => {
    const sealedBefore = await seal(zone);
    const sealedAfter = await seal(zone, { key: other.publicJwk });
    const keys = privateKeysOf(other, zone);
    expect((await open(zone, sealedBefore, { keys })).accessToken).toBe(TOKEN);
    expect((await open(zone, sealedAfter, { keys })).accessToken).toBe(TOKEN);
    const error = await refusalOf(open(zone, sealedBefore, { keys: privateKeysOf(other) }));
    expect(error).toMatchObject({ code: 'GRANT_INVALID', message: expect.stringContaining('grants.keys') });
  });

  test('does not open with another private key under the same key id', async () => {
    expect(await codeOf(open(zone, await seal(zone), { keys: privateKeysOf({ ...other, kid: 'zone-1' }) }))).toBe(
      'GRANT_INVALID',
    );
  });

  test('S1.6: expires at its second, and says when', async () => {
    const jwe = await seal(zone, { expiresInSeconds: 60 });
    expect((await open(zone, jwe, { now: NOW + 59_999 })).accessToken).toBe(TOKEN);
    const error = await refusalOf(open(zone, jwe, { now: NOW + 60_000 }));
    expect(error).toMatchObject({
      code: 'GRANT_EXPIRED',
      facts: { server: 'notes', expiredAt: '2026-03-01T12:01:00.000Z' },
    });
  });

  test('S1.6: a missing one is named as missing', async () => {
    const strategy = sealedStrategy({ keys: privateKeysOf(zone), givenTokens: 'allow', now: () => NOW });
    const run = runOf();
    expect(await codeOf(strategy.mint({ run, server: 'notes', serverUrl: SERVER_URL }))).toBe('GRANT_MISSING');
  });

  test('is not opened at all where organisation policy forbids given tokens', async () => {
    const error = await refusalOf(open(zone, await seal(zone), { givenTokens: 'deny' }));
    expect(error).toMatchObject({ code: 'GRANT_FORBIDDEN', message: expect.stringContaining('policy.givenTokens') });
  });

  test('H-2: is not handed out again after the server refused its token', async () => {
    expect(await codeOf(open(zone, await seal(zone), { request: { refused: TOKEN } }))).toBe('TOKEN_REFUSED');
  });

  test('a vault reference is refused by name while there is no vault', async () => {
    const grant: Grant = { server: 'notes', ref: 'vault-1' };
    expect(await codeOf(open(zone, await seal(zone), { request: { grant } }))).toBe('GRANT_INVALID');
  });

  test('records who issued a JWT and how long it lives, unverified, and never the token', async () => {
    const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
    const token = `${part({ alg: 'none' })}.${part({ iss: 'https://idp.example.com', jti: 'id-1', exp: 1_800_000_000, scope: 'all' })}.c2ln`;
    const { evidence } = await open(zone, await seal(zone, { authorization: token }));
    expect(evidence).toEqual({
      strategy: 'given',
      issuer: 'https://idp.example.com',
      jti: 'id-1',
      expiresAt: '2027-01-15T08:00:00.000Z',
    });
  });
});

describe('the key that a client seals with', () => {
  test.each([
    ['no kid', async () => ({ ...zone.publicJwk, kid: '' })],
    ['another curve', async () => ({ ...zone.publicJwk, crv: 'P-384' })],
    ['another kind of key', async () => ({ kty: 'RSA', kid: 'r', n: 'AQAB', e: 'AQAB' })],
    ['a private part', async () => ({ ...zone.publicJwk, d: 'canary' })],
    ['a point that is not on the curve', async () => ({ ...zone.publicJwk, x: 'AAAA' })],
  ])('is refused with %s', async (_what, key) => {
    const error = await refusalOf(seal(zone, { key: await key() }));
    expect(error.code).toBe('SEALING_KEY_MISSING');
    expect(error.message).not.toContain('canary');
  });

  test.each([0, -1, 1.5, Number.NaN, 40_000_000])('a grant cannot last %p seconds', async (expiresInSeconds) => {
    expect(await codeOf(seal(zone, { expiresInSeconds }))).toBe('USAGE');
  });
});
