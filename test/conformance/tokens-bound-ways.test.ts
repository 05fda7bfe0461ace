/**
 * Bound tokens (DPoP, RFC 9449) by each way to a token, and servers that send back what they were sent (INV-S1).
 */
import { describe, expect, test } from '@jest/globals';
import { Server } from '@modelcontextprotocol/server';
import { decodeJwt } from 'jose';
import { createMemoryVault, entryOf } from '../support/builders/vault.ts';
import {
  AT_SERVER,
  boundBroker,
  boundScenes,
  calledBy,
  ECHOED,
  listedBy,
  requestAt,
  TOOL_SCOPES,
  verdictsOf,
} from '../support/oauth/bound-scene.ts';
import { brokerFor, CLIENT, SECRET } from '../support/oauth/broker.ts';
import {
  BEARER,
  bearerGrant,
  EXCHANGE,
  exchangeGrant,
  identity,
  type Identity,
  idJagGrant,
  zonedBroker,
} from '../support/oauth/grants.ts';
import { startProofGuard } from '../support/oauth/proof-guard.ts';
import { startProvider } from '../support/oauth/provider.ts';
import { startRefreshProvider } from '../support/oauth/refresh-provider.ts';
import { listenOnLoopback } from '../support/servers/loopback-server.ts';
import { serveSdk } from '../support/servers/sdk-server.ts';
import { signingKey } from '../support/signing/keys.ts';
import { silenceProvider } from './tokens.suite.ts';

silenceProvider();

const { scene, open, behind } = boundScenes();

describe('other ways to a token', () => {
  test('token exchange', async () => {
    const people: Identity = await identity();
    const resources: Record<string, string> = {};
    const at = await scene(
      {},
      {
        clients: [{ ...CLIENT, grantTypes: [EXCHANGE] }],
        scopes: ['list', 'call'],
        grants: { [EXCHANGE]: exchangeGrant({ people, resources, binds: true }) },
      },
    );
    resources[at.guard.url] = AT_SERVER;
    const settings = { issuer: at.provider.issuer, clientId: CLIENT.id, clientSecret: SECRET, scopes: TOOL_SCOPES };
    const zoned = await zonedBroker({ kind: 'token-exchange', actor: 'client', ...settings }, [], {}, {}, at.guard.url);
    const request = await zoned.request(await people.assertion('ann', at.provider.issuer), 'echo');
    const { ending, token } = await calledBy(zoned.broker, at.guard, { request });
    expect(ending).toMatchObject(ECHOED);
    expect(verdictsOf(at.guard)).toEqual(['passed']);
    expect(decodeJwt(token.accessToken ?? '')).toMatchObject({ sub: 'ann', cnf: { jkt: expect.any(String) } });
  });

  test('enterprise-managed: the token is bound, and what the identity provider gives for it is not', async () => {
    const people = await identity();
    const resources: Record<string, string> = {};
    const issuers = { provider: '' };
    const at = await scene(
      {},
      {
        clients: [{ id: 'at-the-server', secret: SECRET, grantTypes: [BEARER] }],
        scopes: ['list', 'call'],
        grants: { [BEARER]: bearerGrant(people, () => issuers.provider, resources, true) },
      },
    );
    resources[at.guard.url] = AT_SERVER;
    const atProvider = await startProvider({
      clients: [{ ...CLIENT, grantTypes: [EXCHANGE] }],
      resources,
      scopes: ['list', 'call'],
      grants: { [EXCHANGE]: idJagGrant(people, [at.provider.issuer]) },
    });
    open.push(atProvider);
    issuers.provider = atProvider.issuer;
    const settings = {
      issuer: at.provider.issuer,
      clientId: 'at-the-server',
      clientSecret: SECRET,
      scopes: TOOL_SCOPES,
    };
    const identityProvider = { issuer: atProvider.issuer, clientId: CLIENT.id, clientSecret: SECRET };
    const credentials = { kind: 'enterprise-managed' as const, ...settings, identityProvider };
    const zoned = await zonedBroker({ ...credentials, senderConstrained: 'required' }, [], {}, {}, at.guard.url);
    const request = await zoned.request(await people.assertion('ann', CLIENT.id), 'echo');
    expect((await calledBy(zoned.broker, at.guard, { request })).ending).toMatchObject(ECHOED);
    expect(verdictsOf(at.guard)).toEqual(['passed']);
    expect(atProvider.seen.map(({ proof }) => proof)).toEqual([undefined]);
    expect(at.provider.seen.map(({ proof }) => typeof proof)).toEqual(['string']);
  });

  test.each(['nonce', undefined] as const)(
    'a refresh token, at an issuer with proofs %s: it is used once',
    async (proofs) => {
      let issuer = '';
      const guard = await startProofGuard(behind(), { issuer: () => issuer, keysUrl: () => `${issuer}/jwks` });
      const resources = { [guard.url]: AT_SERVER };
      const provider = await startRefreshProvider({ client: CLIENT, resources, ...(proofs && { proofs }) });
      ({ issuer } = provider);
      open.push(guard, provider);
      const vault = createMemoryVault();
      const secret = {
        kind: 'refresh-token' as const,
        issuer,
        token: await provider.grant('ann', AT_SERVER, guard.url),
      };
      await vault.write('ann-notes', entryOf({ secret, bound: { initiators: ['ann'], server: guard.url } }), undefined);
      const credentials = {
        kind: 'refresh' as const,
        issuer,
        clientId: CLIENT.id,
        clientSecret: SECRET,
        scopes: TOOL_SCOPES,
        senderConstrained: 'required' as const,
      };
      const broker = brokerFor({ servers: { notes: { url: guard.url, credentials } } }, { vault });
      const request = {
        ...requestAt(guard, 'echo'),
        initiator: { id: 'ann', tenant: 'default' },
        grant: { server: 'notes', ref: 'ann-notes' },
      };
      for (let call = 0; call < 2; call += 1)
        expect((await calledBy(broker, guard, { request })).ending).toMatchObject(ECHOED);
      expect(verdictsOf(guard)).toEqual(['passed']);
      const used = provider.used.map(({ token }) => token);
      // The request that was refused for its nonce did not use it.
      expect(new Set(used).size).toBe(2);
      expect(used).toHaveLength(proofs === 'nonce' ? 4 : 2);
    },
  );

  describe('tokens that we issue', () => {
    const ISSUER = 'https://countersign.example.com';

    async function issuing(senderConstrained: 'required' | 'preferred', metadata: object = {}) {
      const key = await signingKey('issuer-1');
      const keys = await listenOnLoopback((_, response) => {
        const body = JSON.stringify({ keys: [{ ...key.publicJwk, kid: 'issuer-1', alg: 'ES256' }] });
        response.writeHead(200, { 'content-type': 'application/json' }).end(body);
      });
      const guard = await startProofGuard(behind(), {
        issuer: () => ISSUER,
        keysUrl: () => keys.origin,
        metadata,
      });
      open.push(keys, guard);
      const credentials = { kind: 'issued' as const, scopes: TOOL_SCOPES, senderConstrained };
      const issuer = { issuer: { url: ISSUER, keys: [key.config] } };
      return { guard, ...(await zonedBroker(credentials, [key], issuer, {}, guard.url)) };
    }

    test('required: they name the key of their call', async () => {
      const { guard, broker } = await issuing('required');
      const { ending, token } = await calledBy(broker, guard);
      expect(ending).toMatchObject(ECHOED);
      expect(verdictsOf(guard)).toEqual(['passed']);
      expect(decodeJwt(token.accessToken ?? '')['cnf']).toEqual({ jkt: expect.stringMatching(/^[\w-]{43}$/) });
    });

    test('preferred: they do where the server wants that, by its metadata, and are bearer tokens elsewhere', async () => {
      const wanting = await issuing('preferred', { dpop_bound_access_tokens_required: true });
      expect((await calledBy(wanting.broker, wanting.guard)).ending).toMatchObject(ECHOED);
      expect(verdictsOf(wanting.guard)).toEqual(['a bound token is shown as a bearer token, or is none', 'passed']);
      // It is remembered.
      const before = wanting.guard.seen.length;
      expect((await calledBy(wanting.broker, wanting.guard)).ending).toMatchObject(ECHOED);
      expect(wanting.guard.seen.slice(before).every(({ verdict }) => verdict === 'passed')).toBe(true);
      const other = await issuing('preferred');
      other.guard.change({ takes: 'bearer' });
      expect((await calledBy(other.broker, other.guard)).ending).toMatchObject(ECHOED);
      expect(verdictsOf(other.guard)).toEqual(['passed']);
    });
  });
});

describe('a server that sends back what it was sent', () => {
  /** Every form of it is searched for elsewhere (`test/unit/activities/scrubbing`); here, it is about what is known. */
  const formsOf = (value: string): string[] => [
    value,
    Buffer.from(value).toString('base64'),
    encodeURIComponent(value),
  ];

  /** Returns the parts of tokens and proofs that are like no other: their signatures, in each form. */
  const unguessable = (value: string): string[] => formsOf(value).map((form) => form.slice(-60, -8));

  async function echoing(senderConstrained: 'required' | 'off') {
    const shown: string[] = [];
    const server = await serveSdk((headers) => {
      const sent = [headers.get('authorization') ?? '', headers.get('dpop') ?? ''].filter((value) => value !== '');
      shown.push(...sent);
      // Proofs of earlier requests too.
      const text = shown.flatMap(formsOf).join(' | ');
      const made = new Server({ name: 'echo', version: '1' }, { capabilities: { tools: {} } });
      made.setRequestHandler('tools/list', () => ({
        tools: [{ name: 'echo', description: text, inputSchema: { type: 'object' as const } }],
      }));
      made.setRequestHandler('tools/call', () => ({
        content: [{ type: 'text', text }],
        structuredContent: { shown: [...shown] },
      }));
      return made;
    });
    const provider = await startProvider({ clients: [CLIENT], resources: { [server.url]: AT_SERVER } });
    open.push(server, provider);
    const guard = { url: server.url };
    const broker = boundBroker({ guard, provider }, senderConstrained);
    return { broker, guard, shown };
  }

  test('INV-S1: neither token nor proof is in what comes of a call, in no form in which the server wrote them', async () => {
    const { broker, guard, shown } = await echoing('required');
    const { ending } = await calledBy(broker, guard);
    const text = JSON.stringify(ending);
    expect(ending).toMatchObject({ kind: 'executed' });
    expect(shown.filter((value) => !value.startsWith('DPoP ')).length).toBeGreaterThan(0);
    expect(shown.flatMap(unguessable).filter((part) => text.includes(part))).toEqual([]);
    expect(text).toContain('[redacted]');
  });

  test('INV-S1: nor in a list of tools', async () => {
    const { broker, guard, shown } = await echoing('required');
    const { listing } = await listedBy(broker, guard);
    const text = JSON.stringify(listing);
    expect(shown.flatMap(unguessable).filter((part) => text.includes(part))).toEqual([]);
    expect(text).toContain('[redacted]');
  });

  test('control: without proofs nothing but the token is found', async () => {
    const { broker, guard, shown } = await echoing('off');
    await calledBy(broker, guard);
    expect(shown.every((value) => value.startsWith('Bearer '))).toBe(true);
  });
});
