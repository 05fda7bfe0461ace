/** A grant that was moved, changed or made by hand opens nothing (INV-S1, F15, S1.3). */
import { beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { decodeProtectedHeader, FlattenedEncrypt, importJWK } from 'jose';
import type { TokenRequest } from '../../../../activities/tokens/port.ts';
import { SEALING } from '../../../../contracts/crypto.ts';
import { type GrantBinding, SealedGrant } from '../../../../contracts/schemas/run-spec.ts';
import { canonicalJson } from '../../../../domain/text/canonical.ts';
import { BINDING, NOW, open, type Opening, runOf, seal, SERVER_URL, TOKEN } from '../../../support/signing/grants.ts';
import { codeOf, refusalOf } from '../../../support/refusal.ts';
import { type ZoneKey, zoneKey } from '../../../support/signing/keys.ts';

let zone: ZoneKey;
beforeAll(async () => {
  zone = await zoneKey('zone-1');
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
  });

  test('any change of any bound field makes it useless, whatever the field is changed to', async () => {
    const jwe = await seal(zone);
    const field = fc.constantFrom('namespace', 'workflowId', 'serverUrl', 'specHash');
    await fc.assert(
      fc.asyncProperty(field, fc.string(), async (name, value) => {
        const original = { ...BINDING, serverUrl: SERVER_URL };
        fc.pre(original[name] !== value);
        const request = name === 'serverUrl' ? { serverUrl: value } : { run: runOf({ [name]: value }) };
        expect(await codeOf(open(zone, jwe, { request }))).toBe('GRANT_INVALID');
      }),
      { numRuns: 60 },
    );
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
