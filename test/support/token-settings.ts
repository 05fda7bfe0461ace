/**
 * Makes each token strategy a setting of the port's suite, at authorization servers that no one here wrote.
 */
import type { TokenSetting } from '../conformance/tokens.suite.ts';
import { SCOPES, RESOURCES, shownAt, zonedBroker } from './exchange-broker.ts';
import { CLIENT, SECRET, runOf, requestFor } from './oauth-broker.ts';
import { BEARER, EXCHANGE, bearerGrant, exchangeGrant, idJagGrant, identity } from './oauth-grants.ts';
import { startProvider } from './oauth.ts';
import { signingKey } from './signing-key.ts';

export async function signedClientSetting(): Promise<TokenSetting> {
  const key = await signingKey('client-1');
  const provider = await startProvider({
    clients: [{ id: CLIENT.id, authMethod: 'private_key_jwt', publicJwk: key.publicJwk }],
    resources: RESOURCES,
  });
  const client = { issuer: provider.issuer, clientId: CLIENT.id, clientKey: key.config };
  const { broker } = await zonedBroker({ kind: 'client-credentials', ...client, scopes: SCOPES }, [key]);
  return {
    broker,
    strategy: 'client-credentials',
    request: async (run) => ({ ...requestFor('notes', 'write'), run: runOf(run) }),
    canaries: privateLines(key.pem),
    shown: () => shownAt(provider),
    afterRefusal: 'another token',
    close: async () => provider.close(),
  };
}

export async function exchangeSetting(by: 'key' | 'secret'): Promise<TokenSetting> {
  const key = await signingKey('client-1');
  const people = await identity();
  const isSigning = by === 'key';
  const provider = await startProvider({
    clients: [
      {
        id: CLIENT.id,
        grantTypes: [EXCHANGE],
        ...(isSigning ? { authMethod: 'private_key_jwt', publicJwk: key.publicJwk } : { secret: SECRET }),
      },
    ],
    resources: RESOURCES,
    grants: {
      [EXCHANGE]: exchangeGrant({
        people,
        resources: RESOURCES,
        ...(isSigning ? { actor: key.publicJwk } : {}),
      }),
    },
  });
  const zoned = await zonedBroker(
    {
      kind: 'token-exchange',
      issuer: provider.issuer,
      clientId: CLIENT.id,
      scopes: SCOPES,
      ...(isSigning ? { clientKey: key.config } : { clientSecret: SECRET, actor: 'client' }),
    },
    [key],
  );
  const assertions = [1, 2].map(async (run) => await people.assertion(`person-${run}`, provider.issuer));
  const sealed = await Promise.all(assertions);
  return {
    broker: zoned.broker,
    strategy: 'token-exchange',
    request: async (run) => await zoned.request(sealed[run - 1] ?? '', 'write', run),
    canaries: [...sealed, ...privateLines(key.pem), SECRET],
    shown: () => shownAt(provider),
    afterRefusal: 'another token',
    close: async () => provider.close(),
  };
}

export async function enterpriseSetting(): Promise<TokenSetting> {
  const key = await signingKey('client-1');
  const people = await identity();
  const issuers = { provider: '', server: '' };
  const atServer = await startProvider({
    clients: [{ id: 'at-the-server', authMethod: 'private_key_jwt', publicJwk: key.publicJwk, grantTypes: [BEARER] }],
    resources: RESOURCES,
    grants: { [BEARER]: bearerGrant(people, () => issuers.provider, RESOURCES) },
  });
  const atProvider = await startProvider({
    clients: [{ ...CLIENT, grantTypes: [EXCHANGE] }],
    resources: RESOURCES,
    grants: { [EXCHANGE]: idJagGrant(people, [atServer.issuer]) },
  });
  issuers.provider = atProvider.issuer;
  const zoned = await zonedBroker(
    {
      kind: 'enterprise-managed',
      issuer: atServer.issuer,
      clientId: 'at-the-server',
      clientKey: key.config,
      identityProvider: { issuer: atProvider.issuer, clientId: CLIENT.id, clientSecret: SECRET },
      scopes: SCOPES,
    },
    [key],
  );
  const sealed = await Promise.all([1, 2].map(async (run) => await people.assertion(`person-${run}`, CLIENT.id)));
  return {
    broker: zoned.broker,
    strategy: 'enterprise-managed',
    request: async (run) => await zoned.request(sealed[run - 1] ?? '', 'write', run),
    canaries: [...sealed, ...privateLines(key.pem), SECRET],
    shown: () => shownAt(atProvider, atServer),
    afterRefusal: 'another token',
    close: async () => {
      await Promise.all([atServer.close(), atProvider.close()]);
    },
  };
}

export async function issuedSetting(): Promise<TokenSetting> {
  const key = await signingKey('issuer-1');
  const { broker } = await zonedBroker({ kind: 'issued', scopes: SCOPES }, [key], {
    issuer: { url: 'https://countersign.example.com', keys: [key.config] },
  });
  return {
    broker,
    strategy: 'issued',
    request: async (run) => ({
      ...requestFor('notes', 'write'),
      run: runOf(run),
      initiator: { id: `person-${run}`, tenant: 'default' },
    }),
    canaries: privateLines(key.pem),
    afterRefusal: 'another token',
    close: async () => undefined,
  };
}

/** Returns the lines by which a private key is recognised wherever its file is quoted. */
export function privateLines(pem: string): string[] {
  return pem.split('\n').filter((line) => /^[^-]{32,}$/.test(line));
}
