/** How a worker names itself to authorization servers, and the kinds of credentials that need a client there. */
import { z } from 'zod';
import { Name } from './json.ts';
import { ToolName } from './policy.ts';

/** A secret after substitution. Never logged, never part of an error. */
const Secret = z.string().min(1);
const HttpUrl = z.url({ protocol: /^https?$/ });
const Scopes = z.array(z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/, 'must be an OAuth scope token (RFC 6749 §3.3)'));

/** A private key with which this worker signs, and by which others know its signature. */
export const SigningKey = z.strictObject({
  /** Key id that stands in the header of each signature. */
  kid: Name,
  /** PEM file (PKCS #8), relative to the configuration file. */
  privateKeyFile: z.string().min(1),
  /** Of JWS (RFC 7518 §3.1, RFC 8037). */
  alg: z.enum(['ES256', 'RS256', 'PS256', 'EdDSA']).default('ES256'),
});
export type SigningKey = z.infer<typeof SigningKey>;

export const ScopeTemplates = z.strictObject({
  /** For listing tools. */
  discovery: Scopes.default([]),
  /** For a call of a tool that is not named below. */
  default: Scopes.default([]),
  tools: z.record(ToolName, Scopes).default({}),
  /** For reading a linked resource; nothing else stands in for it. */
  resources: Scopes.optional(),
  /** What people may consent to for one call, where the server asks for more (403 `insufficient_scope`). */
  consentable: Scopes.default([]),
});
export type ScopeTemplates = z.infer<typeof ScopeTemplates>;

/** Of a server whose linked resources are read. */
export const RESOURCES_UNSAID = {
  path: ['credentials', 'scopes', 'resources'],
  message:
    'must be there with resourceLinks: read, since a token for reading that is asked for without a scope has whatever the issuer gives; [] says that this is meant',
};

interface LinkedServer {
  readonly resourceLinks: 'keep' | 'read';
  readonly credentials: { readonly kind: string; readonly scopes?: ScopeTemplates };
}

/** Is it said what a token for reading may have, or are there no scopes at this issuer at all? */
export function saysOfResources({ resourceLinks, credentials: { scopes } }: LinkedServer): boolean {
  if (resourceLinks === 'keep' || scopes === undefined || scopes.resources !== undefined) return true;
  const { discovery, default: other, tools, consentable } = scopes;
  return [discovery, other, consentable, ...Object.values(tools)].flat().length === 0;
}

const SomeScopes = Scopes.min(
  1,
  'must name a scope: a refresh token that is exchanged for none gives all of its grant (RFC 6749 §6)',
);

/** As above; what is not named is no scope at all here. */
const RefreshScopes = ScopeTemplates.extend({
  discovery: SomeScopes,
  default: SomeScopes,
  tools: z.record(ToolName, SomeScopes).default({}),
  resources: SomeScopes.optional(),
});

const client = {
  issuer: HttpUrl,
  clientId: z.string().min(1),
  clientSecret: Secret.optional(),
  /** Instead of a secret: the client signs (`private_key_jwt`, RFC 7523 §2.2). */
  clientKey: SigningKey.optional(),
};
const ONE_OF_TWO = { path: ['clientSecret'], message: 'must be there, or clientKey in its place, and not both' };

function hasOneOfTwo({ clientSecret, clientKey }: { clientSecret?: unknown; clientKey?: unknown }): boolean {
  return (clientSecret === undefined) !== (clientKey === undefined);
}

/** Of this worker at one authorization server. */
export const OAuthClient = z.strictObject(client).refine(hasOneOfTwo, ONE_OF_TWO);
export type OAuthClient = z.infer<typeof OAuthClient>;

/** What a token is asked for, wherever it is asked. */
const asked = {
  /** Canonical URI of the server where it differs from the configured URL. */
  resource: HttpUrl.optional(),
  scopes: ScopeTemplates.prefault({}),
  /**
   * The server's own metadata (RFC 9728) name the issuers that it trusts. `on-refusal`: read when it has refused a token;
   * `required`: no token is asked for unless they name the configured issuer.
   */
  resourceMetadata: z.enum(['on-refusal', 'required']).default('on-refusal'),
};

const minted = {
  ...asked,
  /** Ends each token with its call, where the issuer has an endpoint for that (RFC 7009). */
  revoke: z.boolean().default(false),
};

const SubjectTokenType = z.enum(['access_token', 'id_token', 'jwt']);
export type SubjectTokenType = z.infer<typeof SubjectTokenType>;

/** OAuth 2.0 client credentials (RFC 6749 §4.4) with a resource indicator (RFC 8707). */
export const ClientCredentials = z
  .strictObject({ kind: z.literal('client-credentials'), ...client, ...minted })
  .refine(hasOneOfTwo, ONE_OF_TWO);
export type ClientCredentials = z.infer<typeof ClientCredentials>;

/** The assertion that the caller sealed into the run, exchanged for a token of one call (RFC 8693). */
export const TokenExchange = z
  .strictObject({
    kind: z.literal('token-exchange'),
    ...client,
    ...minted,
    /** What callers seal. */
    subjectTokenType: SubjectTokenType.default('jwt'),
    /** `assertion`: signed with `clientKey` and sent as the actor token. `client`: the authorization server takes the client as the actor. */
    actor: z.enum(['assertion', 'client']).default('assertion'),
  })
  .refine(hasOneOfTwo, ONE_OF_TWO)
  .refine(({ actor, clientKey }) => actor === 'client' || clientKey !== undefined, {
    path: ['actor'],
    message: 'needs a clientKey to sign with; with a clientSecret set actor: client',
  });
export type TokenExchange = z.infer<typeof TokenExchange>;

/**
 * Enterprise-managed authorization of MCP: the assertion that the caller sealed is exchanged at its identity provider for an
 * ID-JAG, and that for a token at the server's own authorization server (RFC 8693, RFC 7523).
 */
export const EnterpriseManaged = z
  .strictObject({
    kind: z.literal('enterprise-managed'),
    ...client,
    ...minted,
    /** Of the enterprise, where callers have their assertion from. */
    identityProvider: OAuthClient,
    subjectTokenType: SubjectTokenType.default('id_token'),
  })
  .refine(hasOneOfTwo, ONE_OF_TWO);
export type EnterpriseManaged = z.infer<typeof EnterpriseManaged>;

/**
 * A refresh token of the run's initiator, from the vault (RFC 6749 §6). Its tokens are not revoked with their calls: a server may
 * end the refresh token with them (RFC 7009 §2.1).
 */
export const RefreshedTokens = z
  .strictObject({
    kind: z.literal('refresh'),
    ...client,
    ...asked,
    scopes: RefreshScopes,
    /**
     * `single-use`: the issuer replaces a refresh token with each use, or may, and takes a second use for theft (RFC 9700 §4.14.2).
     * `reusable`: it does not, and one whose answer was lost is used again.
     */
    refreshTokens: z.enum(['single-use', 'reusable']).default('single-use'),
  })
  .refine(hasOneOfTwo, ONE_OF_TWO);
export type RefreshedTokens = z.infer<typeof RefreshedTokens>;

/** Tokens that this worker issues itself, for servers that trust it (`issuer` of the configuration). */
export const IssuedTokens = z.strictObject({ kind: z.literal('issued'), ...asked });
export type IssuedTokens = z.infer<typeof IssuedTokens>;

/** This deployment as an issuer of tokens. */
export const Issuer = z.strictObject({
  /** `iss` of its tokens, and where servers find its keys: `<url>/.well-known/jwks.json`. */
  url: HttpUrl,
  /** The first signs; all are published. */
  keys: z.array(SigningKey).min(1).max(10),
  /** Who acts: `client_id` and `act.sub` of its tokens. */
  clientId: z.string().min(1).max(255).default('countersign'),
  lifetimeSeconds: z.int().min(10).max(120).default(60),
});
export type Issuer = z.infer<typeof Issuer>;

/** Of the HTTP port of a worker process: whether it lives, and the keys of its issuer. */
export const Health = z.strictObject({
  /** The address that is listened on; every address of the machine with 0.0.0.0. */
  host: z.string().min(1).default('127.0.0.1'),
  port: z.int().min(1).max(65_535),
});
export type Health = z.infer<typeof Health>;
