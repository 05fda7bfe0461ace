/** Proofs of one call's key: one for each request, and a second try only after an answer that allows it (RFC 9449). */
import { createHash } from 'node:crypto';
import { describe, expect, jest, test } from '@jest/globals';
import fc from 'fast-check';
import { calculateJwkThumbprint, EmbeddedJWK, type JWK, jwtVerify } from 'jose';
import { createServerWords, ProofKey } from '../../../../activities/tokens/proof-key.ts';
import { requestFor } from '../../../support/oauth/broker.ts';

const URL_ASKED = 'https://notes.example.com/mcp?x=1';
const WANTS_NONCE = { 'www-authenticate': 'DPoP error="use_dpop_nonce"', 'dpop-nonce': 'n-1' };

interface Seen {
  readonly headers: Headers;
  readonly body: unknown;
}

/** Answers with these, one after the other; the last one again and again. */
function answering(...answers: readonly (() => Response)[]) {
  const seen: Seen[] = [];
  const send = async (_url: string, init: RequestInit): Promise<Response> => {
    seen.push({ headers: new Headers(init.headers), body: init.body });
    return (answers[seen.length - 1] ?? answers.at(-1))?.() ?? new Response();
  };
  return { seen, send };
}

async function claimsOf({ headers }: Seen) {
  const verified = await jwtVerify(headers.get('dpop') ?? '', EmbeddedJWK, { typ: 'dpop+jwt', algorithms: ['ES256'] });
  // Sound: `EmbeddedJWK` has read the key there.
  const key = verified.protectedHeader.jwk as JWK;
  const { nonce, ...claims } = verified.payload;
  return { ...claims, ...(nonce === undefined ? {} : { nonce }), key };
}

const POST = { method: 'POST', headers: { authorization: 'Bearer at-1', 'x-own': 'a' }, body: '{}' };

describe('proofs', () => {
  test('a request has the scheme DPoP and a proof for its method, address and token; the rest of it stays', async () => {
    const key = await ProofKey.create();
    const { seen, send } = answering(() => new Response('ok'));
    const { response, nonceWanted } = await key.send('at-1', URL_ASKED, POST, send);
    expect([await response.text(), nonceWanted]).toEqual(['ok', undefined]);
    const [only] = seen;
    if (only === undefined) throw new Error('nothing was sent');
    const { headers } = only;
    expect([...headers.keys()].sort()).toEqual(['authorization', 'dpop', 'x-own']);
    expect(headers.get('authorization')).toBe('DPoP at-1');
    const { key: shown, ...claims } = await claimsOf(only);
    expect(claims).toEqual({
      htm: 'POST',
      htu: 'https://notes.example.com/mcp',
      ath: createHash('sha256').update('at-1').digest('base64url'),
      iat: expect.any(Number),
      jti: expect.any(String),
    });
    expect(await calculateJwkThumbprint(shown)).toBe(key.thumbprint);
    expect(Object.keys(shown).sort()).toEqual(['crv', 'kty', 'x', 'y']);
  });

  test('INV-S1: two keys are two, proofs are never the same, and each of them is known as a secret', async () => {
    const [one, other] = [await ProofKey.create(), await ProofKey.create()];
    expect(one.thumbprint).not.toBe(other.thumbprint);
    const { seen, send } = answering(() => new Response());
    for (let sent = 0; sent < 3; sent += 1) await one.send('at-1', URL_ASKED, POST, send);
    const proofs = seen.map(({ headers }) => headers.get('dpop'));
    expect(new Set(proofs).size).toBe(3);
    expect(one.secrets()).toEqual(proofs);
    const ids = await Promise.all(seen.map(async (each) => (await claimsOf(each)).jti));
    expect(new Set(ids).size).toBe(3);
  });

  test('INV-S1: the private key cannot be exported, and is in nothing that can be written down', async () => {
    const made = jest.spyOn(crypto.subtle, 'generateKey');
    const key = await ProofKey.create();
    const [result] = made.mock.results;
    made.mockRestore();
    // Sound: a pair was asked for.
    const pair = (await result?.value) as { readonly privateKey: Parameters<typeof crypto.subtle.exportKey>[1] };
    await expect(crypto.subtle.exportKey('jwk', pair.privateKey)).rejects.toThrow(/extractable/);
    expect(JSON.stringify(key)).toBe(JSON.stringify({ handle: {}, thumbprint: key.thumbprint }));
  });

  test('the proofs that are remembered are bounded', async () => {
    const key = await ProofKey.create();
    for (let sent = 0; sent < 150; sent += 1) key.note({ dpop: `p${sent}` });
    expect(key.secrets()).toHaveLength(100);
    expect(key.secrets().at(-1)).toBe('p149');
  });
});

describe('the nonce of a server', () => {
  test('a refusal for want of it is answered once, with another proof that has it', async () => {
    const key = await ProofKey.create();
    const { seen, send } = answering(
      () => new Response('', { status: 401, headers: WANTS_NONCE }),
      () => new Response('ok'),
    );
    expect((await key.send('at-1', URL_ASKED, POST, send)).nonceWanted).toBeUndefined();
    const [first, second] = await Promise.all(seen.map(claimsOf));
    expect(seen.map(({ body }) => body)).toEqual(['{}', '{}']);
    expect([first?.nonce, second?.nonce]).toEqual([undefined, 'n-1']);
    expect(first?.jti).not.toBe(second?.jti);
    expect(key.secrets()).toHaveLength(2);
    // The next request has it from the start.
    await key.send('at-1', URL_ASKED, POST, send);
    expect(seen).toHaveLength(3);
  });

  test('a server that is never content is asked twice, and no more', async () => {
    const key = await ProofKey.create();
    const { seen, send } = answering(() => new Response('', { status: 401, headers: WANTS_NONCE }));
    expect(await key.send('at-1', URL_ASKED, POST, send)).toMatchObject({ nonceWanted: true });
    expect(seen).toHaveLength(2);
    expect(key.isDeclined()).toBe(false);
  });

  test('INV-X1: whatever else a server answers, the request was sent once', async () => {
    const key = await ProofKey.create();
    const header = fc.constantFrom(
      'DPoP error="use_dpop_nonce"',
      'Bearer error="use_dpop_nonce"',
      'DPoP error="invalid_token"',
      'Bearer, DPoP error="use_dpop_nonce", algs="ES256"',
      'error="use_dpop_nonce"',
      '"',
    );
    const answer = fc.record({
      status: fc.constantFrom(200, 202, 400, 401, 403, 409, 500, 502, 503),
      challenge: fc.option(header, { nil: undefined }),
      nonce: fc.option(fc.constantFrom('n-1', ''), { nil: undefined }),
    });
    await fc.assert(
      fc.asyncProperty(answer, async ({ status, challenge, nonce }) => {
        const headers = new Headers();
        if (challenge !== undefined) headers.set('www-authenticate', challenge);
        if (nonce !== undefined) headers.set('dpop-nonce', nonce);
        const { seen, send } = answering(() => new Response(null, { status, headers }));
        await key.send('at-1', URL_ASKED, POST, send);
        const isProof = status === 401 && nonce === 'n-1' && /DPoP error="use_dpop_nonce"/.test(challenge ?? '');
        expect(seen).toHaveLength(isProof ? 2 : 1);
      }),
    );
  });

  test('INV-X1: nothing is sent again if something else speaks against it', async () => {
    const key = await ProofKey.create();
    const { seen, send } = answering(() => new Response('', { status: 401, headers: WANTS_NONCE }));
    expect(await key.send('at-1', URL_ASKED, POST, send, () => false)).toMatchObject({ nonceWanted: true });
    expect(seen).toHaveLength(1);
  });

  test('INV-X1: a body that is gone is not sent again', async () => {
    const key = await ProofKey.create();
    const { seen, send } = answering(() => new Response('', { status: 401, headers: WANTS_NONCE }));
    const body = new Blob(['{}']).stream();
    expect(await key.send('at-1', URL_ASKED, { ...POST, body }, send)).toMatchObject({ nonceWanted: true });
    expect(seen).toHaveLength(1);
  });

  test('a fault of the network is thrown as it is, and nothing is sent again', async () => {
    const key = await ProofKey.create();
    const fault = new TypeError('fetch failed');
    const send = async (): Promise<Response> => {
      throw fault;
    };
    await expect(key.send('at-1', URL_ASKED, POST, send)).rejects.toBe(fault);
  });
});

describe('what servers say', () => {
  test('a refusal without an offer of DPoP is remembered for that server alone, for an hour', async () => {
    let now = 1;
    const words = createServerWords(() => now);
    const asked = async (server: 'notes' | 'files', declined = false) =>
      (await words.keyFor('preferred', { ...requestFor(server), declined }, ['ES256'])) !== undefined;
    expect(await asked('notes')).toBe(true);
    expect(await asked('notes', true)).toBe(false);
    expect([await asked('notes'), await asked('files')]).toEqual([false, true]);
    now = 3_600_002;
    expect(await asked('notes')).toBe(true);
  });

  test('a provider that shows the token gets one without a key, unless only bound ones are allowed', async () => {
    const words = createServerWords(() => 0);
    words.wants(requestFor('notes').serverUrl, true);
    const request = { ...requestFor('notes'), byProvider: true };
    expect(await words.keyFor('preferred', request, ['ES256'])).toBeUndefined();
    expect(await words.keyFor('required', request, ['ES256'])).toBeInstanceOf(ProofKey);
  });

  test('what its metadata want outweighs that', async () => {
    const words = createServerWords(() => 0);
    const { serverUrl } = requestFor('notes');
    const key = async () => await words.keyFor('preferred', { ...requestFor('notes'), declined: true });
    expect(await key()).toBeUndefined();
    words.wants(serverUrl, true);
    expect(await key()).toBeInstanceOf(ProofKey);
    words.wants(serverUrl, false);
    expect(await key()).toBeUndefined();
  });
});
