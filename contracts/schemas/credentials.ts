/** How workers authenticate to authorization servers, and obtain tokens. */
import { z } from 'zod';
import { HttpUrl, Name, Secret, Sha256Hex } from './json.ts';
import { ToolName } from './policy.ts';

const Scopes = z.array(z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/, 'must be an OAuth scope token (RFC 6749 §3.3)'));

/** A private key with which this worker signs; others verify with its public part. */
export const SigningKey = z.strictObject({
  /** Key id in the header of each signature. */
  kid: Name,
  /** PEM file (PKCS #8), relative to the configuration file. */
  privateKeyFile: z.string().min(1),
  /** Algorithm of JWS (RFC 7518 §3.1, RFC 8037). */
  alg: z.enum(['ES256', 'RS256', 'PS256', 'EdDSA']).default('ES256'),
});
export type SigningKey = z.infer<typeof SigningKey>;

export const ScopeTemplates = z.strictObject({
  discovery: Scopes.default([]),
  /** Scopes for a call of a tool that `tools` does not name. */
  default: Scopes.default([]),
  tools: z.record(ToolName, Scopes).default({}),
  /** Scopes for reading a linked resource; nothing else stands in for them. */
  resources: Scopes.optional(),
  /** Scopes to which people may consent for one call, if the server asks for more (403 `insufficient_scope`). */
  consentable: Scopes.default([]),
});
export type ScopeTemplates = z.infer<typeof ScopeTemplates>;

/** The error for a server whose linked resources are read without stated scopes. */
export const RESOURCES_UNSAID = {
  path: ['credentials', 'scopes', 'resources'],
  message:
    'must be there with resourceLinks: read, since a token for reading that is asked for without a scope has whatever the issuer gives; [] says that this is meant',
};

interface LinkedServer {
  readonly resourceLinks: 'keep' | 'read';
  readonly credentials: { readonly kind: string; readonly scopes?: ScopeTemplates };
}

/** True if the scopes for reading are stated, or if this issuer has no scopes at all. */
export function saysOfResources({ resourceLinks, credentials: { scopes } }: LinkedServer): boolean {
  if (resourceLinks === 'keep' || scopes === undefined || scopes.resources !== undefined) return true;
  const { discovery, default: other, tools, consentable } = scopes;
  return [discovery, other, consentable, ...Object.values(tools)].flat().length === 0;
}

const SomeScopes = Scopes.min(
  1,
  'must name a scope: a refresh token that is exchanged for none gives all of its grant (RFC 6749 §6)',
);

/** Like `ScopeTemplates`, but scopes for listing and calling must be stated, and no stated list may be empty. */
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
  /** Used in place of a secret: the client signs (`private_key_jwt`, RFC 7523 §2.2). */
  clientKey: SigningKey.optional(),
};
const ONE_OF_TWO = { path: ['clientSecret'], message: 'must be there, or clientKey in its place, and not both' };

function hasOneOfTwo({ clientSecret, clientKey }: { clientSecret?: unknown; clientKey?: unknown }): boolean {
  return (clientSecret === undefined) !== (clientKey === undefined);
}

/** A kind of credentials for which a client authenticates. */
const byClient = <Kind extends string, Shape extends z.core.$ZodLooseShape>(kind: Kind, shape: Shape) =>
  z.strictObject({ kind: z.literal(kind), ...client, ...shape }).refine(hasOneOfTwo, ONE_OF_TWO);

export const OAuthClient = z.strictObject(client).refine(hasOneOfTwo, ONE_OF_TWO);
export type OAuthClient = z.infer<typeof OAuthClient>;

/** How much is asked for that a token is of no use to whoever reads it. */
export const SenderConstrained = z.enum(['required', 'preferred', 'off']);
export type SenderConstrained = z.infer<typeof SenderConstrained>;

/** Settings of every token request. */
const asked = {
  /** Canonical URI of the server, if it differs from the configured URL. */
  resource: HttpUrl.optional(),
  scopes: ScopeTemplates.prefault({}),
  /**
   * The server's own metadata (RFC 9728) name the issuers that it trusts. `on-refusal`: read after the server has
   * refused a token; `required`: a token is requested only if they name the configured issuer.
   */
  resourceMetadata: z.enum(['on-refusal', 'required']).default('on-refusal'),
  /**
   * Binds each token to a key of its call (DPoP, RFC 9449). `preferred`: if issuer or server say that they take such
   * tokens; `required`: a bearer token is refused; `off`: never.
   */
  senderConstrained: SenderConstrained.default('preferred'),
};

const minted = {
  ...asked,
  /** Revokes each token after its call, if the issuer has an endpoint for that (RFC 7009). */
  revoke: z.boolean().default(false),
};

const SubjectTokenType = z.enum(['access_token', 'id_token', 'jwt']);

/** OAuth 2.0 client credentials (RFC 6749 §4.4) with a resource indicator (RFC 8707). */
export const ClientCredentials = byClient('client-credentials', minted);
export type ClientCredentials = z.infer<typeof ClientCredentials>;

/** Exchanges the assertion that the caller sealed into the run for a token of one call (RFC 8693). */
export const TokenExchange = byClient('token-exchange', {
  ...minted,
  subjectTokenType: SubjectTokenType.default('jwt'),
  /** `assertion`: an actor token signed with `clientKey`. `client`: the client itself is the actor. */
  actor: z.enum(['assertion', 'client']).default('assertion'),
}).refine(({ actor, clientKey }) => actor === 'client' || clientKey !== undefined, {
  path: ['actor'],
  message: 'needs a clientKey to sign with; with a clientSecret set actor: client',
});
export type TokenExchange = z.infer<typeof TokenExchange>;

/**
 * Enterprise-managed authorization of MCP (RFC 8693, RFC 7523). The identity provider exchanges the caller's sealed
 * assertion for an ID-JAG. The server's own authorization server exchanges that for a token.
 */
export const EnterpriseManaged = byClient('enterprise-managed', {
  ...minted,
  /** Client at the enterprise's identity provider, which issues the callers' assertions. */
  identityProvider: OAuthClient,
  subjectTokenType: SubjectTokenType.default('id_token'),
});
export type EnterpriseManaged = z.infer<typeof EnterpriseManaged>;

/** Uses the initiator's refresh token from the vault (RFC 6749 §6). Revoking a token might end it (RFC 7009 §2.1). */
export const RefreshedTokens = byClient('refresh', {
  ...asked,
  scopes: RefreshScopes,
  /**
   * `single-use`: the issuer replaces a refresh token with each use, or may, and takes a second use for theft (RFC 9700
   * §4.14.2). `reusable`: the issuer does not, and a refresh token whose answer was lost is used again.
   */
  refreshTokens: z.enum(['single-use', 'reusable']).default('single-use'),
});
export type RefreshedTokens = z.infer<typeof RefreshedTokens>;

/** Tokens that this worker issues itself, for servers that trust it (`issuer` of the configuration). */
export const IssuedTokens = z.strictObject({ kind: z.literal('issued'), ...asked });
export type IssuedTokens = z.infer<typeof IssuedTokens>;

export const Issuer = z.strictObject({
  /** `iss` of its tokens. Servers find its keys at `<url>/.well-known/jwks.json`. */
  url: HttpUrl,
  /** The first key signs; all are published. */
  keys: z.array(SigningKey).min(1).max(10),
  /** The actor: `client_id` and `act.sub` of its tokens. */
  clientId: z.string().min(1).max(255).default('countersign'),
  lifetimeSeconds: z.int().min(10).max(120).default(60),
});
export type Issuer = z.infer<typeof Issuer>;

/** HTTP port of a worker process, which serves its liveness and the keys of its issuer. */
export const Health = z.strictObject({
  /** The address to listen on; 0.0.0.0 means every address of the machine. */
  host: z.string().min(1).default('127.0.0.1'),
  port: z.int().min(1).max(65_535),
});

// Claims of a token that a worker issues (RFC 9068): which call it is for, and who countersigned exactly that call.

const people = z.array(z.string());

export const IssuedConsent = z.discriminatedUnion('kind', [
  /** Policy allows the call without asking. */
  z.strictObject({ kind: z.literal('policy'), rules: z.array(z.string()) }),
  z.strictObject({ kind: z.literal('decision'), digest: Sha256Hex, approvers: people }),
  /** These people approved an earlier call, and the standing decision covers this one. */
  z.strictObject({
    kind: z.literal('standing'),
    digest: Sha256Hex,
    approvers: people,
    /** The call whose request they approved. */
    callId: z.string(),
  }),
]);
export type IssuedConsent = z.infer<typeof IssuedConsent>;

export const IssuedCall = z.strictObject({
  callId: z.string(),
  /** Temporal run that dispatched the call. */
  executionId: z.string(),
  tool: z.string(),
  definition: Sha256Hex,
  /** sha256 of the canonical JSON (RFC 8785) of the sent arguments. */
  arguments: Sha256Hex,
  consent: IssuedConsent,
});
export type IssuedCall = z.infer<typeof IssuedCall>;

/** The claim `countersign`. */
export const IssuedContext = z.strictObject({
  namespace: z.string(),
  /** Workflow id of the run, or of the catalog that lists tools. */
  run: z.string(),
  tenant: z.string().optional(),
  /** `temporal`: the namespace vouches for people; `signed`: each of them has signed. */
  trust: z.enum(['temporal', 'signed']),
  /** Absent for listing tools. */
  call: IssuedCall.optional(),
});

const seconds = z.int();

export const IssuedClaims = z.looseObject({
  iss: z.string(),
  /** The initiator of the run; the client itself if a catalog lists tools. */
  sub: z.string(),
  aud: z.string(),
  exp: seconds,
  iat: seconds,
  jti: z.string(),
  client_id: z.string(),
  scope: z.string().optional(),
  /** Thumbprint of the key that whoever shows the token must have (RFC 9449 §6.1). */
  cnf: z.strictObject({ jkt: z.string() }).optional(),
  /** The actor for the subject (RFC 8693 §4.1). */
  act: z.strictObject({ sub: z.string() }).optional(),
  countersign: IssuedContext,
});
export type IssuedClaims = z.infer<typeof IssuedClaims>;
