/**
 * Adds grants that oidc-provider leaves to its operator: token exchange (RFC 8693), ID-JAG, and assertions
 * (RFC 7523). Each checks its input as strictly as its specification says. A token that comes out therefore proves what
 * went in.
 *
 * One file, because a grant, the server that gives it and the broker that asks for it are one setting of a test.
 */
import { randomUUID } from 'node:crypto';
import {
  calculateJwkThumbprint,
  createLocalJWKSet,
  EmbeddedJWK,
  type JWK,
  type JWTPayload,
  jwtVerify,
  SignJWT,
} from 'jose';
import type { KoaContext, Provider, ResourceServerInfo } from 'oidc-provider';
import { createTokenBroker, type TokenBrokerOptions } from '../../../activities/tokens/broker.ts';
import type { TokenBroker, TokenRequest } from '../../../activities/tokens/port.ts';
import { sealAuthorization } from '../../../client/signing/sealing.ts';
import { Config, type ConfigInput } from '../../../contracts/schemas/config.ts';
import type { Grant } from '../../../contracts/schemas/run-spec.ts';
import type { TokenSetting } from '../../conformance/tokens.suite.ts';
import { loopbackEgress } from '../egress.ts';
import {
  privateKeysOf,
  signingKey,
  signingKeysOf,
  type TestSigningKey,
  type ZoneKey,
  zoneKey,
} from '../signing/keys.ts';
import { CLIENT, requestFor, runOf, SECRET, URL_OF } from './broker.ts';
import { type GrantHandler, type RunningAuthorizationServer, startProvider } from './provider.ts';

export const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange';
export const BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
const TYPE = 'urn:ietf:params:oauth:token-type:';

/** An identity provider that vouches for people. */
export interface Identity {
  readonly issuer: string;
  readonly key: TestSigningKey;
  /** Makes an assertion of a person, for an authorization server. */
  assertion(subject: string, audience: string): Promise<string>;
}

export async function identity(issuer = 'https://people.example.com'): Promise<Identity> {
  const key = await signingKey('people');
  return {
    issuer,
    key,
    assertion: async (subject, audience) =>
      await new SignJWT({ email: `${subject}@example.com` })
        .setProtectedHeader({ alg: 'ES256', kid: 'people', typ: 'JWT' })
        .setIssuer(issuer)
        .setSubject(subject)
        .setAudience(audience)
        .setJti(randomUUID())
        .setIssuedAt()
        .setExpirationTime('1h')
        .sign(key.privateKey),
  };
}

export interface ExchangeRules {
  readonly people: Identity;
  /** Resource URI → scopes. */
  readonly resources: Readonly<Record<string, string>>;
  /** Key of the client, which verifies its actor token; without it no actor token is wanted. */
  readonly actor?: JWK;
  /** Binds tokens to the key of a proof, if one comes (RFC 9449 §5). */
  readonly binds?: true;
}

/** Gives a token for a person, with the service that acts for them. */
export function exchangeGrant({ people, resources, actor, binds }: ExchangeRules): GrantHandler {
  return async (context, provider) => {
    const { params, client } = context.oidc;
    const subject = await verified(params['subject_token'], people.key.publicJwk, {
      issuer: people.issuer,
      audience: provider.issuer,
    });
    if (actor !== undefined) {
      const { clientId } = client;
      const acting = { issuer: clientId, subject: clientId, audience: provider.issuer };
      await verified(params['actor_token'], actor, acting);
      if (params['actor_token_type'] !== `${TYPE}jwt`) throw await refusal('InvalidGrant', 'actor_token_type');
    }
    await issue(context, provider, resources, subject.sub, await boundTo(context, binds));
  };
}

/** Returns the thumbprint of the key of a proof, if one came and the server binds tokens. */
async function boundTo(context: KoaContext, binds: true | undefined): Promise<string | undefined> {
  const proof = context.get('DPoP');
  if (binds !== true || proof === '') return undefined;
  const { protectedHeader } = await jwtVerify(proof, EmbeddedJWK, { typ: 'dpop+jwt', algorithms: ['ES256'] });
  // Sound: `EmbeddedJWK` has read the key there.
  return await calculateJwkThumbprint(protectedHeader.jwk as JWK);
}

/** Gives an ID-JAG for the listed authorization servers, as the identity provider of an enterprise. */
export function idJagGrant(people: Identity, audiences: readonly string[], over: JWTPayload = {}): GrantHandler {
  return async (context, provider) => {
    const { params } = context.oidc;
    const subject = await verified(params['subject_token'], people.key.publicJwk, { issuer: people.issuer });
    if (params['requested_token_type'] !== `${TYPE}id-jag`) throw await refusal('InvalidGrant', 'requested_token_type');
    if (!audiences.includes(params['audience'] ?? '')) throw await refusal('InvalidTarget', 'not known');
    const token = await new SignJWT({
      iss: provider.issuer,
      sub: subject.sub ?? '',
      aud: params['audience'] ?? '',
      client_id: 'at-the-server',
      jti: randomUUID(),
      resource: params['resource'],
      scope: params['scope'],
      ...over,
    })
      .setProtectedHeader({ alg: 'ES256', kid: 'people', typ: 'oauth-id-jag+jwt' })
      .setIssuedAt()
      .setExpirationTime('5m')
      .sign(people.key.privateKey);
    context.body = {
      access_token: token,
      issued_token_type: `${TYPE}id-jag`,
      token_type: 'N_A',
      scope: params['scope'],
      expires_in: 300,
    };
  };
}

/**
 * Gives a token for a person whom the enterprise vouches for, as a tool server's authorization server; accepts each
 * ID-JAG once.
 */
export function bearerGrant(
  people: Identity,
  identityProvider: () => string,
  resources: Readonly<Record<string, string>>,
  binds?: true,
): GrantHandler {
  const used = new Set<string>();
  return async (context, provider) => {
    const { params, client } = context.oidc;
    const claims = await verified(params['assertion'], people.key.publicJwk, {
      issuer: identityProvider(),
      audience: provider.issuer,
      typ: 'oauth-id-jag+jwt',
    });
    if (claims['client_id'] !== client.clientId) throw await refusal('InvalidGrant', 'client_id');
    if (claims['resource'] !== params['resource']) throw await refusal('InvalidTarget', 'not known');
    if (used.has(claims.jti ?? '')) throw await refusal('InvalidGrant', 'replayed');
    used.add(claims.jti ?? '');
    await issue(context, provider, resources, claims.sub, await boundTo(context, binds));
  };
}

async function issue(
  context: KoaContext,
  provider: Provider,
  resources: Readonly<Record<string, string>>,
  accountId: string | undefined,
  thumbprint?: string,
): Promise<void> {
  const { params, client } = context.oidc;
  const resource = params['resource'] ?? '';
  const allowed = Object.hasOwn(resources, resource) ? resources[resource] : undefined;
  if (allowed === undefined) throw await refusal('InvalidTarget', 'not known');
  const scope = params['scope'] ?? '';
  for (const each of scope.split(' ').filter(Boolean))
    if (!allowed.split(' ').includes(each)) throw await refusal('InvalidScope', each);
  const token = new provider.AccessToken({ client, scope: scope || undefined, accountId });
  if (thumbprint !== undefined) token.setThumbprint('jkt', thumbprint);
  const info: ResourceServerInfo = {
    scope: allowed,
    accessTokenFormat: 'jwt',
    accessTokenTTL: 120,
    audience: resource,
  };
  token.resourceServer = new provider.ResourceServer(resource, info);
  const value = await token.save();
  context.body = {
    access_token: value,
    issued_token_type: `${TYPE}access_token`,
    token_type: token.tokenType,
    expires_in: token.expiration,
    scope: token.scope,
  };
}

async function verified(
  token: string | undefined,
  key: JWK,
  options: NonNullable<Parameters<typeof jwtVerify>[2]>,
): Promise<JWTPayload> {
  try {
    return (await jwtVerify(token ?? '', createLocalJWKSet({ keys: [key] }), options)).payload;
  } catch {
    throw await refusal('InvalidGrant', 'an assertion is not good');
  }
}

/** The module is imported on first use, since oidc-provider writes to the console on import. */
async function refusal(kind: 'InvalidGrant' | 'InvalidTarget' | 'InvalidScope', detail: string): Promise<Error> {
  const { errors } = await import('oidc-provider');
  switch (kind) {
    case 'InvalidGrant':
      return new errors.InvalidGrant(detail);
    case 'InvalidTarget':
      return new errors.InvalidTarget();
    case 'InvalidScope':
      return new errors.InvalidScope('not of this resource', detail);
  }
}

// Makes each token strategy a setting of the port's suite, at authorization servers that no one here wrote.

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

// Makes brokers of each strategy that asks an authorization server or signs, over one server `notes`, and
// callers' sealed grants.

type ServerInput = NonNullable<ConfigInput['servers']>[string];
export type CredentialsInput = NonNullable<ServerInput['credentials']>;

export const SCOPES = { discovery: ['notes:read'], default: ['notes:write'], tools: { delete: ['notes:delete'] } };
export const RESOURCES = { [URL_OF.notes]: 'notes:read notes:write notes:delete', [URL_OF.files]: 'notes:read' };

export interface ZonedBroker {
  readonly broker: TokenBroker;
  readonly zone: ZoneKey;
  /** Seals what a caller hands over for this run. */
  grant(authorization: string, run?: number): Promise<Grant>;
  /** Makes a token request of this run with this grant. */
  request(authorization: string, tool?: string, run?: number): Promise<TokenRequest>;
}

export async function zonedBroker(
  credentials: CredentialsInput,
  keys: readonly TestSigningKey[] = [],
  over: ConfigInput = {},
  rest: Partial<TokenBrokerOptions> = {},
  url: string = URL_OF.notes,
): Promise<ZonedBroker> {
  const zone = await zoneKey();
  const config = Config.parse({ servers: { notes: { url, credentials } }, ...over });
  const grant = async (authorization: string, run = 1): Promise<Grant> => ({
    server: 'notes',
    jwe: await sealAuthorization({
      authorization,
      serverUrl: url,
      binding: runOf(run),
      key: zone.publicJwk,
      expiresInSeconds: 3_600,
    }),
  });
  return {
    broker: createTokenBroker({
      config,
      keys: privateKeysOf(zone),
      signingKeys: signingKeysOf(...keys),
      egress: loopbackEgress(),
      ...rest,
    }),
    zone,
    grant,
    request: async (authorization, tool, run = 1) => ({
      ...requestFor('notes', tool),
      serverUrl: url,
      run: runOf(run),
      grant: await grant(authorization, run),
    }),
  };
}

/** Returns the values of the last token request that are more than names. */
export function shownAt(...servers: readonly RunningAuthorizationServer[]): string[] {
  return servers.flatMap(({ seen }) => {
    const { authorization, form } = seen.at(-1) ?? {};
    const fields = ['client_secret', 'client_assertion', 'subject_token', 'actor_token', 'assertion'];
    return [authorization?.replace('Basic ', ''), ...fields.map((field) => form?.get(field))].filter(
      (value) => value !== undefined && value !== null,
    );
  });
}
