/**
 * Adds grants that oidc-provider leaves to its operator: token exchange (RFC 8693), ID-JAG, and assertions
 * (RFC 7523). Each checks its input as strictly as its specification says. A token that comes out therefore proves what
 * went in.
 */
import { randomUUID } from 'node:crypto';
import { type JWK, type JWTPayload, SignJWT, createLocalJWKSet, jwtVerify } from 'jose';
import type { KoaContext, Provider, ResourceServerInfo } from 'oidc-provider';
import type { GrantHandler } from './oauth.ts';
import { type TestSigningKey, signingKey } from './signing-key.ts';

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
}

/** Gives a token for a person, with the service that acts for them. */
export function exchangeGrant({ people, resources, actor }: ExchangeRules): GrantHandler {
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
    await issue(context, provider, resources, subject.sub);
  };
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
    await issue(context, provider, resources, claims.sub);
  };
}

async function issue(
  context: KoaContext,
  provider: Provider,
  resources: Readonly<Record<string, string>>,
  accountId: string | undefined,
): Promise<void> {
  const { params, client } = context.oidc;
  const resource = params['resource'] ?? '';
  const allowed = Object.hasOwn(resources, resource) ? resources[resource] : undefined;
  if (allowed === undefined) throw await refusal('InvalidTarget', 'not known');
  const scope = params['scope'] ?? '';
  for (const each of scope.split(' ').filter(Boolean))
    if (!allowed.split(' ').includes(each)) throw await refusal('InvalidScope', each);
  const token = new provider.AccessToken({ client, scope: scope || undefined, accountId });
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
