/**
 * Tokens that are bound to a key of their call (DPoP, RFC 9449), from an authorization server that we did not write to
 * an MCP server that we did not write, with a guard between that reads every proof by itself.
 */
import { beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { decodeJwt } from 'jose';
import type { MintedToken, TokenBroker } from '../../activities/tokens/port.ts';
import type { SenderConstrained } from '../../contracts/schemas/credentials.ts';
import {
  boundBroker,
  type BoundScene,
  boundScenes,
  calledBy,
  callsAt,
  ECHOED,
  listedBy,
  requestAt,
  TOOL_SCOPES,
  verdictsOf,
} from '../support/oauth/bound-scene.ts';
import { brokerFor, CLIENT, expectNoSecret, runOf, SECRET } from '../support/oauth/broker.ts';
import { type HostileServer, startHostile } from '../support/oauth/provider.ts';
import { refusalOf } from '../support/refusal.ts';
import { signingKey, signingKeysOf } from '../support/signing/keys.ts';
import { silenceProvider } from './tokens.suite.ts';

silenceProvider();

const { scene, open } = boundScenes();

describe('client credentials', () => {
  let at: BoundScene;
  beforeAll(async () => {
    at = await scene();
  });

  test.each(['preferred', 'required'] as const)(
    '%s: each request of a call shows its own proof of the key of this call, and the scheme DPoP',
    async (mode) => {
      const before = at.guard.seen.length;
      const { ending } = await calledBy(boundBroker(at, mode), at.guard);
      expect(ending).toMatchObject(ECHOED);
      const seen = at.guard.seen.slice(before);
      expect(seen.length).toBeGreaterThan(2);
      expect(seen.map(({ verdict }) => verdict)).toEqual(seen.map(() => 'passed'));
      expect(new Set(seen.map(({ proof }) => proof)).size).toBe(seen.length);
      expect(new Set(seen.map(({ token }) => token)).size).toBe(1);
      expect(at.provider.seen.at(-1)?.proof).toBeDefined();
    },
  );

  test('S1.7: tools are listed with the same authorization as calls', async () => {
    const before = at.guard.seen.length;
    const { listing } = await listedBy(boundBroker(at), at.guard);
    expect(listing.tools.map(({ name }) => name)).toContain('echo');
    const seen = at.guard.seen.slice(before);
    expect(seen.map(({ verdict }) => verdict)).toEqual(seen.map(() => 'passed'));
    expect(decodeJwt(seen[0]?.token ?? '')).toMatchObject({ scope: 'list', cnf: { jkt: expect.any(String) } });
  });

  test('two calls have two keys', async () => {
    const broker = boundBroker(at);
    const [one, two] = [await calledBy(broker, at.guard), await calledBy(broker, at.guard)];
    const keys = [one, two].map(({ token }) => decodeJwt(token.accessToken ?? '')['cnf']);
    expect(keys[0]).not.toEqual(keys[1]);
  });

  test('off: no proof is made, and the token is a bearer token', async () => {
    const { accessToken, binding } = await boundBroker(at, 'off').mint(requestAt(at.guard));
    expect(binding).toBeUndefined();
    expect(at.provider.seen.at(-1)?.proof).toBeUndefined();
    expect(decodeJwt(accessToken ?? '')['cnf']).toBeUndefined();
  });
});

describe('a stolen token', () => {
  /** Sends a call as anybody who has read what the server was sent. */
  async function replayed(url: string, headers: Record<string, string>): Promise<{ status: number; text: string }> {
    const answer = await fetch(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2025-06-18',
        ...headers,
      },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'initialize',
        params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'thief', version: '1' } },
      }),
    });
    return { status: answer.status, text: await answer.text() };
  }

  test('is refused as a bearer token, with the proof that came with it, and with a proof of another key', async () => {
    const at = await scene();
    const { token } = await calledBy(boundBroker(at), at.guard);
    const stolen = token.accessToken ?? '';
    const [{ proof = '' } = {}] = callsAt(at.guard);
    const { url } = at.guard;
    const refuses = async (why: string, headers: Record<string, string>) =>
      expect(await replayed(url, headers)).toEqual({ status: 401, text: expect.stringContaining(why) });
    await refuses('shown as a bearer token', { authorization: `Bearer ${stolen}` });
    const authorization = `DPoP ${stolen}`;
    await refuses('no proof', { authorization });
    await refuses('the proof was used', { authorization, dpop: proof });
    const proofOf = async ({ binding }: MintedToken): Promise<string> => {
      let made = '';
      await binding?.send(stolen, url, { method: 'POST' }, async (_, { headers }) => {
        made = new Headers(headers).get('dpop') ?? '';
        return new Response();
      });
      return made;
    };
    const theirs = await proofOf(await boundBroker(at).mint(requestAt(at.guard)));
    await refuses('the token is bound to another key', { authorization, dpop: theirs });
    // Control: with its own key the same token is let through.
    expect((await replayed(url, { authorization, dpop: await proofOf(token) })).status).toBe(200);
  });
});

describe('nonces', () => {
  test('the token endpoint wants one: the request is sent once more, with it', async () => {
    const at = await scene({}, { proofs: 'nonce' });
    expect((await calledBy(boundBroker(at), at.guard)).ending).toMatchObject(ECHOED);
    expect(at.provider.seen.map(({ proof }) => decodeJwt(proof ?? '')['nonce'])).toEqual([
      undefined,
      expect.any(String),
    ]);
  });

  test('a client that signs identifies itself anew in the second request: an assertion is used once', async () => {
    const key = await signingKey('client-1');
    const clients = [{ id: CLIENT.id, authMethod: 'private_key_jwt' as const, publicJwk: key.publicJwk }];
    const at = await scene({}, { proofs: 'nonce', clients });
    const own = { kind: 'client-credentials' as const, issuer: at.provider.issuer, scopes: TOOL_SCOPES };
    const credentials = { ...own, clientId: CLIENT.id, clientKey: key.config };
    const config = { servers: { notes: { url: at.guard.url, credentials } } };
    const broker = brokerFor(config, { signingKeys: signingKeysOf(key) });
    const { secrets } = await broker.mint(requestAt(at.guard));
    const assertions = at.provider.seen.map(({ form }) => form.get('client_assertion') ?? '');
    expect(new Set(assertions).size).toBe(2);
    expect(secrets).toEqual(expect.arrayContaining(assertions));
  });

  test('INV-X1: the server wants one: the refused request is sent once more, with it, and the call ran once', async () => {
    const at = await scene({ nonce: 'wanted' });
    expect((await calledBy(boundBroker(at), at.guard)).ending).toMatchObject(ECHOED);
    const judged = at.guard.seen.map(({ rpcMethod, verdict }) => `${rpcMethod} ${verdict}`);
    expect(judged.filter((each) => each === 'tools/call passed')).toHaveLength(1);
    // Only the first request was without one.
    expect(judged.filter((each) => each.endsWith(' nonce'))).toHaveLength(1);
    expect(at.provider.seen).toHaveLength(1);
  });

  test('INV-X1: a nonce that runs out just before the call: it is sent again, and runs once', async () => {
    const at = await scene({ nonce: 'wanted', runsOutAt: 'tools/call' });
    expect((await calledBy(boundBroker(at), at.guard)).ending).toMatchObject(ECHOED);
    expect(callsAt(at.guard).map(({ verdict }) => verdict)).toEqual(['nonce', 'passed']);
    expect(at.provider.seen).toHaveLength(1);
  });

  test('a server that is never content: nothing has run, the token is not to blame, and it may pass', async () => {
    const at = await scene({ nonce: 'endless' });
    const { ending } = await calledBy(boundBroker(at), at.guard);
    expect(ending).toMatchObject({
      kind: 'not-sent',
      code: 'TOOL_UNAVAILABLE',
      message: expect.stringContaining('use_dpop_nonce'),
    });
    expect(verdictsOf(at.guard)).toEqual(['nonce']);
    // No other token was asked for.
    expect(at.provider.seen).toHaveLength(1);
    const error = await refusalOf(listedBy(boundBroker(at), at.guard));
    expect(error).toMatchObject({ code: 'DISCOVERY_FAILED', message: expect.stringContaining('use_dpop_nonce') });
  });

  test('INV-X1: and if it is the call that it is not content with: it was sent twice, has not run, and may pass', async () => {
    const at = await scene({ nonce: 'wanted', endlessAt: 'tools/call' });
    const { ending } = await calledBy(boundBroker(at), at.guard);
    expect(ending).toMatchObject({ kind: 'not-sent', code: 'TOOL_UNAVAILABLE' });
    expect(callsAt(at.guard).map(({ verdict }) => verdict)).toEqual(['nonce', 'nonce']);
    expect(at.provider.seen).toHaveLength(1);
  });

  test('the one other token after a refusal stands beside it: both happen to one call, which runs once', async () => {
    const at = await scene({ nonce: 'wanted' });
    let refused: string | undefined;
    // The first token is not accepted, whatever is shown with it.
    const broker = boundBroker(at);
    const first: TokenBroker = {
      mint: async (request) => {
        const minted = await broker.mint(request);
        if (request.refused !== undefined) return minted;
        refused = (await broker.mint(requestAt(at.guard))).accessToken ?? '';
        return { ...minted, accessToken: refused };
      },
    };
    const { ending } = await calledBy(first, at.guard);
    expect(ending).toMatchObject(ECHOED);
    expect(verdictsOf(at.guard)).toEqual(['the token is bound to another key', 'nonce', 'passed']);
    expect(callsAt(at.guard).filter(({ verdict }) => verdict === 'passed')).toHaveLength(1);
  });
});

describe('where somebody does not take bound tokens', () => {
  test('preferred: an issuer that says nothing of them is asked for a bearer token', async () => {
    const at = await scene({ takes: 'bearer' }, { proofs: 'off' });
    expect((await calledBy(boundBroker(at), at.guard)).ending).toMatchObject(ECHOED);
    expect(at.provider.seen.map(({ proof }) => proof)).toEqual([undefined]);
    expect(at.guard.seen.every(({ headers }) => headers['dpop'] === undefined)).toBe(true);
  });

  test('required: what such an issuer gives is refused before anything is sent to the server', async () => {
    const at = await scene({}, { proofs: 'off' });
    const error = await refusalOf(calledBy(boundBroker(at, 'required'), at.guard));
    expect(error).toMatchObject({
      code: 'TOKEN_UNBOUND',
      message: expect.stringMatching(/senderConstrained: required/),
      facts: { server: 'notes', issuer: at.provider.issuer },
    });
    expectNoSecret(error, SECRET);
    expect(at.provider.seen).toHaveLength(1);
    expect(at.guard.seen).toEqual([]);
  });

  test('preferred: a server that knows bearer tokens alone refuses one bound token, and gets a bearer token', async () => {
    const at = await scene({ takes: 'bearer' });
    const broker = boundBroker(at);
    expect((await calledBy(broker, at.guard)).ending).toMatchObject(ECHOED);
    expect(verdictsOf(at.guard)).toEqual(['another scheme', 'passed']);
    // It is remembered: the next call begins with a bearer token.
    const before = at.guard.seen.length;
    expect((await calledBy(broker, at.guard)).ending).toMatchObject(ECHOED);
    expect(at.guard.seen.slice(before).map(({ verdict }) => verdict)).not.toContain('another scheme');
  });

  test('required: such a server gets no bearer token', async () => {
    const at = await scene({ takes: 'bearer' });
    const { ending } = await calledBy(boundBroker(at, 'required'), at.guard);
    expect(ending).toMatchObject({ kind: 'refused', code: 'TOOL_UNAUTHORIZED' });
    expect(verdictsOf(at.guard)).toEqual(['another scheme']);
    expect(at.guard.seen.every(({ headers }) => headers.authorization?.startsWith('DPoP '))).toBe(true);
  });

  test.each([{ dpop_bound_access_tokens_required: true }, { dpop_signing_alg_values_supported: ['ES256'] }])(
    'a server with the metadata %j gets bound tokens from an issuer that did not say that it has them',
    async (metadata) => {
      const at = await scene({ metadata });
      const hostile = await silentIssuer();
      const own = { kind: 'client-credentials' as const, issuer: hostile.issuer, scopes: TOOL_SCOPES };
      at.guard.change({ issuer: () => hostile.issuer });
      const credentials = { ...own, clientId: CLIENT.id, clientSecret: SECRET };
      const broker = brokerFor({ servers: { notes: { url: at.guard.url, credentials } } });
      const minted = await broker.mint(requestAt(at.guard));
      expect(minted.binding).toBeUndefined();
      const again = await broker.mint({ ...requestAt(at.guard), refused: minted.accessToken ?? '' });
      expect(hostile.seen.at(-1)?.proof).toBeDefined();
      expect(again.binding).toBeDefined();
    },
  );
});

/** An authorization server that gives bound tokens, and does not say so. */
async function silentIssuer(): Promise<HostileServer> {
  let given = 0;
  const hostile = await startHostile({
    token: ({ proof }) => {
      given += 1;
      return {
        body: { access_token: `at-${given}`, token_type: proof === undefined ? 'Bearer' : 'DPoP', expires_in: 60 },
      };
    },
  });
  open.push(hostile);
  return hostile;
}

describe('an issuer that does not keep its word', () => {
  let hostile: HostileServer;
  beforeEach(async () => {
    hostile = await startHostile({});
    open.push(hostile);
  });

  function mintAt(mode: SenderConstrained) {
    const own = { kind: 'client-credentials' as const, issuer: hostile.issuer, clientId: CLIENT.id };
    const credentials = { ...own, clientSecret: SECRET, senderConstrained: mode };
    const url = 'https://notes.example.com/mcp';
    const broker = brokerFor({ servers: { notes: { url, credentials } } });
    return broker.mint({ run: runOf(1), server: 'notes', serverUrl: url });
  }

  const jwt = (claims: object): string => {
    const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
    return `${part({ alg: 'RS256' })}.${part(claims)}.c2ln`;
  };

  test.each([
    ['names another key', jwt({ cnf: { jkt: 'other' } })],
    ['names no key', jwt({})],
    ['names a key in a way that is none', jwt({ cnf: 'other' })],
  ])('a bound token that %s is refused', async (_what, access_token) => {
    hostile.behave({ token: () => ({ body: { access_token, token_type: 'DPoP', expires_in: 60 } }) });
    expect((await refusalOf(mintAt('required'))).code).toBe('TOKEN_UNBOUND');
  });

  test('off: a bound token that nobody asked for cannot be used', async () => {
    hostile.behave({ token: () => ({ body: { access_token: 'at-1', token_type: 'DPoP', expires_in: 60 } }) });
    expect((await refusalOf(mintAt('off'))).code).toBe('TOKEN_REFUSED');
  });

  test('an endless challenge is answered once, and may pass', async () => {
    hostile.behave({
      token: () => ({ status: 400, headers: { 'dpop-nonce': 'n' }, body: { error: 'use_dpop_nonce' } }),
    });
    expect((await refusalOf(mintAt('required'))).code).toBe('TOKEN_UNAVAILABLE');
    expect(hostile.seen).toHaveLength(2);
  });

  test('a challenge without a nonce is not answered', async () => {
    hostile.behave({ token: () => ({ status: 400, body: { error: 'use_dpop_nonce' } }) });
    expect((await refusalOf(mintAt('required'))).code).toBe('TOKEN_UNAVAILABLE');
    expect(hostile.seen).toHaveLength(1);
  });

  test('INV-S1: what the issuer echoes of a proof is not repeated, and not recorded', async () => {
    hostile.behave({
      token: ({ proof = '' }) => ({ status: 400, body: { error: 'invalid_dpop_proof', error_description: proof } }),
    });
    const error = await refusalOf(mintAt('required'));
    expect(error).toMatchObject({ code: 'TOKEN_REFUSED', message: expect.stringContaining('invalid_dpop_proof') });
    expectNoSecret(error, hostile.seen.at(-1)?.proof ?? '');
    hostile.behave({
      token: ({ proof }) => ({ body: { access_token: jwt({ jti: proof }), token_type: 'Bearer', expires_in: 60 } }),
    });
    const { evidence, secrets } = await mintAt('preferred').catch(async () => {
      throw new Error('a bearer token was refused');
    });
    expect(evidence.jti).toBeUndefined();
    expect(secrets.length).toBeGreaterThan(0);
  });
});
