/** A sealed grant opens for one run and one server, for a while; one that was moved, changed or made by hand opens nothing (S1.1, S1.3, S1.6, H-1, H-2, H-3, INV-S1). */
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { decodeProtectedHeader, exportPKCS8, FlattenedEncrypt, generateKeyPair, importJWK } from 'jose';
import type { TokenRequest } from '../../../../activities/tokens/port.ts';
import { loadPrivateKeys, sealedStrategy } from '../../../../activities/tokens/sealed.ts';
import { SEALING } from '../../../../contracts/crypto.ts';
import { type Grant, type GrantBinding, SealedGrant } from '../../../../contracts/schemas/run-spec.ts';
import { canonicalJson } from '../../../../domain/text/canonical.ts';
import { useConfigFolders } from '../../../support/config-folder.ts';
import { codeOf, refusalOf } from '../../../support/refusal.ts';
import { runOf, BINDING, NOW, open, type Opening, seal, SERVER_URL, TOKEN } from '../../../support/signing/grants.ts';
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
    // The run waits for a fresh one: nothing is started again for it.
    expect(error.message).toMatch(/put it back as the last on all workers.*this run is given a fresh grant/);
    expect(error.message).not.toMatch(/start/);
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
    expect(error.message).toContain('Give this run a fresh one');
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

/** A grant sealed correctly in every way but the given ones: what a hostile client could make. */
async function sealByHand(change: {
  plaintext?: string;
  header?: Record<string, unknown>;
  aad?: string | undefined;
}): Promise<SealedGrant> {
  const binding: GrantBinding = { ...BINDING, serverUrl: SERVER_URL, exp: NOW / 1_000 + 60 };
  const text = new TextEncoder();
  const jwe = await new FlattenedEncrypt(text.encode(change.plaintext ?? TOKEN))
    .setProtectedHeader({ alg: SEALING.alg, enc: SEALING.enc, kid: 'zone-1', ...change.header })
    .setAdditionalAuthenticatedData(text.encode(change.aad ?? canonicalJson(binding)))
    .encrypt(await importJWK(zone.publicJwk, SEALING.alg));
  return SealedGrant.parse(jwe);
}

describe('a grant that was tampered with (INV-S1)', () => {
  const bound: [string, Partial<TokenRequest>, string][] = [
    ['another workflow id', { run: runOf({ workflowId: 'refund-2' }) }, 'another workflowId'],
    ['another namespace', { run: runOf({ namespace: 'prod' }) }, 'another namespace'],
    ['another spec', { run: runOf({ specHash: 'b'.repeat(64) }) }, 'another specHash'],
    ['another server URL', { serverUrl: 'https://evil.example.com/mcp' }, 'another serverUrl'],
    ['another path of the same host', { serverUrl: 'https://mcp.example.com/other' }, 'another serverUrl'],
    ['another server name', { server: 'files' }, 'another server of the run'],
  ];

  test.each(bound)('F15: does not open for %s', async (_what, request, reason) => {
    const error = await refusalOf(open(zone, await seal(zone), { request }));
    expect(error).toMatchObject({ code: 'GRANT_INVALID', message: expect.stringContaining(reason) });
    expect(error.message).toMatch(/\. Give this run a fresh grant\.$/);
  });

  test('any change of any character of any part makes it useless', async () => {
    const jwe = await seal(zone);
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=+/. \n';
    const part = fc.constantFrom<keyof SealedGrant>('protected', 'encrypted_key', 'iv', 'ciphertext', 'tag', 'aad');
    await fc.assert(
      fc.asyncProperty(part, fc.nat(), fc.constantFrom(...alphabet.split('')), async (name, position, replacement) => {
        const text = jwe[name];
        const at = position % text.length;
        fc.pre(text.charAt(at) !== replacement);
        const changed = { ...jwe, [name]: text.slice(0, at) + replacement + text.slice(at + 1) };
        expect(await codeOf(open(zone, changed))).toBe('GRANT_INVALID');
      }),
      { numRuns: 300 },
    );
  });

  test('the unused bits of the last character of each part count too (RFC 4648 §3.5)', async () => {
    const jwe = await seal(zone);
    const next = (character: string): string => {
      const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
      return alphabet.charAt((alphabet.indexOf(character) + 1) % 64);
    };
    for (const name of ['encrypted_key', 'tag', 'ciphertext', 'iv'] as const) {
      const changed = jwe[name].slice(0, -1) + next(jwe[name].slice(-1));
      expect(await codeOf(open(zone, { ...jwe, [name]: changed }))).toBe('GRANT_INVALID');
    }
  });

  test('a part of another kind than text is refused like any other damage', async () => {
    const jwe = await seal(zone);
    // Sound: this is what an input that nobody parsed may hold.
    const forged = { ...jwe, tag: 7 } as unknown as SealedGrant;
    expect(await codeOf(open(zone, forged))).toBe('GRANT_INVALID');
  });

  test('cutting or lengthening any part makes it useless', async () => {
    const jwe = await seal(zone);
    for (const name of ['protected', 'encrypted_key', 'iv', 'ciphertext', 'tag', 'aad'] as const) {
      for (const text of ['', jwe[name].slice(1), jwe[name].slice(0, -1), `${jwe[name]}AAAA`, `${jwe[name]}=`]) {
        expect(await codeOf(open(zone, { ...jwe, [name]: text }))).toBe('GRANT_INVALID');
      }
    }
  });

  test('parts of two grants for two servers do not combine', async () => {
    const [mine, theirs] = [
      await seal(zone),
      await seal(zone, { serverUrl: 'https://other.example.com/mcp', authorization: 'other-token' }),
    ];
    for (const name of ['protected', 'encrypted_key', 'iv', 'ciphertext', 'tag', 'aad'] as const) {
      expect(await codeOf(open(zone, { ...mine, [name]: theirs[name] }))).toBe('GRANT_INVALID');
    }
  });

  const exp = NOW / 1_000 + 60;
  const full = { ...BINDING, serverUrl: SERVER_URL, exp };
  test.each([
    ['a field too many', canonicalJson({ ...full, extra: 1 })],
    ['a field too few', canonicalJson({ ...BINDING, exp })],
    ['no expiry', canonicalJson({ ...BINDING, serverUrl: SERVER_URL })],
    ['an expiry that is no number', canonicalJson({ ...full, exp: String(exp) })],
    ['another order of the fields', JSON.stringify(full)],
    ['no object', 'null'],
    ['no JSON', 'x'],
  ])('properly encrypted, but with a binding that has %s, is refused', async (_what, aad) => {
    expect(await codeOf(open(zone, await sealByHand({ aad })))).toBe('GRANT_INVALID');
  });

  test.each([
    ['another content encryption', { enc: 'A128GCM' }],
    ['a field that nobody reviewed', { typ: 'JWT' }],
  ])('properly encrypted, but with %s in its header, is refused', async (_what, header) => {
    expect(await codeOf(open(zone, await sealByHand({ header })))).toBe('GRANT_INVALID');
  });

  test.each([
    ['another key agreement', { alg: 'dir' }],
    ['a key id of another kind', { kid: 7 }],
    ['nothing', { alg: undefined, enc: undefined, kid: undefined, epk: undefined }],
  ])('with %s written into its header, it is refused', async (_what, header) => {
    const jwe = await seal(zone);
    const changed = Buffer.from(JSON.stringify({ ...decodeProtectedHeader(jwe), ...header })).toString('base64url');
    expect(await codeOf(open(zone, { ...jwe, protected: changed }))).toBe('GRANT_INVALID');
  });

  test('S1.3: properly sealed by somebody else with the scheme, it is still the token alone', async () => {
    expect((await open(zone, await sealByHand({ plaintext: `Bearer ${TOKEN}` }))).accessToken).toBe(TOKEN);
  });

  test.each(['', 'a b', 'a\nb', '\u{1f511}'])(
    'properly sealed, but with %j for a token, is refused without showing it',
    async (plaintext) => {
      expect(await codeOf(open(zone, await sealByHand({ plaintext })))).toBe('GRANT_INVALID');
    },
  );

  test('S1.6: no refusal holds the token, the key or a library error', async () => {
    const jwe = await seal(zone);
    const openings: readonly [SealedGrant, Opening][] = [
      [{ ...jwe, tag: `${jwe.tag.slice(0, -4)}AAAA` }, {}],
      [jwe, { now: NOW + 9_999_999_000 }],
      [jwe, { givenTokens: 'deny' }],
      [jwe, { request: { refused: TOKEN } }],
      [jwe, { keys: new Map() }],
    ];
    for (const [grant, opening] of openings) {
      const error = await refusalOf(open(zone, grant, opening));
      expect(error.cause).toBeUndefined();
      expect(`${error.message} ${JSON.stringify(error.facts)} ${String(error.stack)}`).not.toContain(TOKEN);
    }
  });
});

// Key files of a zone, as the configuration names them (INV-S1).

const { folder } = useConfigFolders();

describe('private keys of a zone', () => {
  test('are read relative to the configuration file, several at once', async () => {
    const [one, two] = [await zoneKey('one'), await zoneKey('two')];
    const directory = await folder({ 'one.pem': one.pem, 'two.pem': `\n${two.pem}\n` });
    const keys = await loadPrivateKeys(
      [
        { kid: 'one', privateKeyFile: 'one.pem' },
        { kid: 'two', privateKeyFile: join(directory, 'two.pem') },
      ],
      directory,
    );
    expect([...keys.keys()]).toEqual(['one', 'two']);
  });

  test.each([
    ['is not there', undefined, 'ENOENT'],
    ['is no PEM', 'canary', 'no PKCS #8 private key'],
    [
      'is a PEM of another kind',
      '-----BEGIN EC PRIVATE KEY-----\ncanary\n-----END EC PRIVATE KEY-----',
      'openssl pkcs8 -topk8',
    ],
    [
      'is a broken PKCS #8',
      '-----BEGIN PRIVATE KEY-----\nY2FuYXJ5\n-----END PRIVATE KEY-----',
      'no PKCS #8 private key',
    ],
  ])('a key file that %s is named without its content', async (_what, text, reason) => {
    const directory = await folder(text === undefined ? {} : { 'zone.pem': text });
    const error = await refusalOf(loadPrivateKeys([{ kid: 'a', privateKeyFile: 'zone.pem' }], directory));
    expect(error).toMatchObject({ code: 'CONFIG_INVALID', facts: { path: 'grants.keys[0].privateKeyFile' } });
    expect(error.message).toContain('zone.pem');
    expect(error.message).toContain(reason);
    expect(`${error.message}${String(error.cause)}`).not.toMatch(/canary|Y2FuYXJ5/);
  });

  test('a key of another curve is refused', async () => {
    const { privateKey } = await generateKeyPair('ECDH-ES', { crv: 'P-384', extractable: true });
    const directory = await folder({ 'zone.pem': await exportPKCS8(privateKey) });
    const error = await refusalOf(loadPrivateKeys([{ kid: 'a', privateKeyFile: 'zone.pem' }], directory));
    expect(error.message).toContain('P-256');
  });
});
