/** Finds a server of a run in this worker's own configuration: its address, and how tokens for it are obtained. */
import { defined } from '../../contracts/defined.ts';
import { CountersignError, type ErrorCode } from '../../contracts/errors.ts';
import type { Outcome } from '../../contracts/schemas/call.ts';
import type { CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import type { Config, Credentials, ServerConfig } from '../../contracts/schemas/config.ts';
import type { Grant } from '../../contracts/schemas/run-spec.ts';
import type { ServerBinding } from '../../contracts/schemas/tool.ts';
import type { RunIdentity } from '../../contracts/wire/identity.ts';
import type { AuthorizationNeed } from '../../contracts/wire/proofs.ts';
import type { DispatchResult } from '../../contracts/wire/tools.ts';
import { hashOf } from '../../domain/text/canonical.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import { assertConnectable } from '../catalog/reader.ts';
import type { CallEnding, ServerConnection, TokenRenewal } from '../mcp/port.ts';
import { assertReachable } from '../run/prepare-run.ts';
import { scopesFor, scopesIn } from '../tokens/asked.ts';
import { takeGrant } from '../tokens/configured.ts';
import type { MintedToken, TokenBroker, TokenRequest } from '../tokens/port.ts';
import { secretsOf } from '../tokens/with-token.ts';

export interface ServerAccess {
  readonly headers: Readonly<Record<string, string>>;
  readonly protocol: ServerConfig['protocol'];
  readonly elicitation?: ServerConfig['elicitation'];
}

/** @throws if the binding differs from this configuration, because of a queue for another zone or a forged input */
export function accessTo(
  config: Config,
  { name, url }: ServerBinding,
  catalog: Pick<CatalogSnapshot, 'connection' | 'status'> | undefined,
): ServerAccess {
  const configured = Object.hasOwn(config.servers, name) ? config.servers[name] : undefined;
  if (configured === undefined && catalog?.connection !== undefined) {
    assertConnectable(config, name, catalog.connection);
    if (catalog.status !== 'connected' || catalog.connection.url !== url)
      throw new CountersignError('DISPATCH_FORBIDDEN', `The catalog has ${name} at another address, or disconnected.`);
    return { headers: {}, protocol: 'auto' };
  }
  if (configured === undefined) {
    assertReachable(config, url, `servers.${name}`);
    return { headers: {}, protocol: 'auto' };
  }
  if (canonicalServerUrl(configured.url) !== url)
    throw new CountersignError(
      'DISPATCH_FORBIDDEN',
      `The run knows server ${name} under another URL than this worker.`,
    );
  return configured;
}

/**
 * Returns the credentials that the catalog names. The configuration defines them and says to which servers they may go.
 */
export function credentialsOf(
  catalog: Pick<CatalogSnapshot, 'connection'> | undefined,
  tenant: string,
): Pick<TokenRequest, 'credentials'> {
  const name = catalog?.connection?.credentials;
  return name === undefined ? {} : { credentials: { name, tenant } };
}

/** The caller for whom a list is made: a server may list other tools to another principal. */
export interface Principal {
  readonly run: RunIdentity;
  readonly server: ServerBinding;
  readonly grant?: Grant | undefined;
}

/** Builds the request for a token with which the tools of a server are listed for a run. */
export function listingRequest(
  { run, server, grant }: Principal,
  catalog: Pick<CatalogSnapshot, 'connection'> | undefined,
  signal: AbortSignal,
): TokenRequest {
  return {
    run,
    server: server.name,
    serverUrl: server.url,
    initiator: run.initiator,
    signal,
    ...defined({ grant }),
    ...credentialsOf(catalog, run.initiator.tenant),
  };
}

/** @param held secrets used earlier in this activity: the server has seen them and may echo them now */
export function connectionOf(
  { name, url }: ServerBinding,
  { headers, protocol, elicitation }: ServerAccess,
  token: MintedToken,
  held: readonly string[],
): ServerConnection {
  return {
    name,
    url,
    headers,
    protocol,
    secrets: [...token.secrets, ...held],
    ...(elicitation === undefined ? {} : { asks: true }),
    ...defined({ accessToken: token.accessToken }),
  };
}

// The authority of a call (its grant, scopes and tokens) is kept, sealed, with a task or a resume point (INV-S1), and
// people may be able to supply one that was missing.
//
// 1. A later question about the call gets a token of this grant and these scopes, and of no other (INV-S2).
// 2. A server may later echo what it saw in the call, so the tokens are kept to be scrubbed from its words. The secrets
//    with which they were obtained are not kept: the server never saw them.
// 3. Missing authority is looked for only in endings that prove that nothing has run.
// 4. A scope is asked for only if the operator lists it in `scopes.consentable` and the token did not have it. Consent
//    that changes nothing is not asked for (INV-S2).
// 5. A renewed token is requested like the call's own, but without the proof of the call, which is in one token only
//    (INV-S2). All tokens are secret, and each ends with the call (INV-S1).

export interface CallAuthority {
  /** Hash of the grant. */
  readonly grant?: string;
  readonly consented?: readonly string[];
  /** The tokens that the server has seen. Secret (INV-S1). */
  readonly shown: readonly string[];
}

export function authorityOf(
  { grant, consented }: Pick<TokenRequest, 'grant' | 'consented'>,
  shown: readonly string[],
): CallAuthority {
  return {
    ...(grant === undefined ? {} : { grant: hashOf(grant) }),
    ...defined({ consented }),
    shown: [...new Set(shown)],
  };
}

/** Returns the parts of a token that a server sees. */
export function shownOf({ accessToken }: Pick<MintedToken, 'accessToken'>): readonly string[] {
  return accessToken === undefined ? [] : [accessToken];
}

/** Returns the grant and scopes to request a token with; undefined if no given grant is that of the call. */
export function authorizationOf(
  { grant: wanted, consented }: CallAuthority,
  grants: readonly Grant[],
): Pick<TokenRequest, 'grant' | 'consented'> | undefined {
  const grant = grants.find((each) => hashOf(each) === wanted);
  if (wanted !== undefined && grant === undefined) return undefined;
  return { ...defined({ grant, consented }) };
}

/** Failures that a new grant can end. */
const ABOUT_THE_GRANT: ReadonlySet<string> = new Set<ErrorCode>([
  'GRANT_MISSING',
  'GRANT_EXPIRED',
  'GRANT_INVALID',
  'GRANT_LOST',
  'TOKEN_REFUSED',
]);
const MOST_SCOPES = 10;
/** A scope as in RFC 6749 §3.3, with a bound on its length. */
const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]{1,128}$/;

type Configured = Pick<Config, 'servers' | 'credentials'>;

/** The failure of a call or of a listing, in the form that a call's ending has. */
type Turned = { readonly code: string } & Pick<Extract<CallEnding, { kind: 'refused' }>, 'message' | 'requiredScope'>;

/** Returns the result; if nothing has run, it also says what people can do. */
export function wanting(
  result: DispatchResult,
  need: (failed: Extract<Outcome, { kind: 'failed' }>) => AuthorizationNeed | undefined,
): DispatchResult {
  if (result.kind !== 'ended' || result.outcome.kind !== 'failed' || result.outcome.executed) return result;
  const authorization = need(result.outcome);
  return authorization === undefined ? result : { ...result, authorization };
}

/**
 * Puts the question of consent to the people whose consent would count.
 * @param leaving undefined if the call may not leave as it is
 */
export function askedNow(
  need: AuthorizationNeed | undefined,
  leaving: AuthorizationNeed['asked'] | undefined,
): AuthorizationNeed | undefined {
  if (need?.wants !== 'consent' || leaving === undefined) return need;
  const { approvers, deadlineSeconds } = leaving;
  return { ...need, asked: { approvers, deadlineSeconds } };
}

/** Says what is needed when no token could be obtained. */
export function needOfToken(
  config: Configured,
  request: TokenRequest,
  { code, message }: { readonly code: string; readonly message: string },
): AuthorizationNeed | undefined {
  if (!ABOUT_THE_GRANT.has(code) || !isGiven(credentialsFor(config, request))) return undefined;
  return { reason: code, message, wants: 'grant' };
}

/**
 * Says what is needed when the tools could not be listed again, for want of a token or because the server refused it.
 * Consent to scopes is for calls and does not help here.
 */
export function needOfListing(
  config: Configured,
  request: TokenRequest,
  failed: { readonly code: string; readonly message: string },
): AuthorizationNeed | undefined {
  return needOfToken(config, request, failed) ?? needOfEnding(config, request, failed);
}

/** Says what is needed when the server refused the token. */
export function needOfEnding(config: Configured, request: TokenRequest, ending: Turned): AuthorizationNeed | undefined {
  const { code, message, requiredScope } = ending;
  const credentials = credentialsFor(config, request);
  if (code === 'TOOL_UNAUTHORIZED') {
    if (credentials === 'brought' || isGiven(credentials)) return { reason: code, message, wants: 'grant' };
    if (credentials === undefined || credentials.kind === 'none') return undefined;
    return { reason: code, message, wants: 'consent' };
  }
  if (code !== 'TOOL_INSUFFICIENT_SCOPE' || requiredScope === undefined) return undefined;
  const required = [...new Set(scopesIn(requiredScope))];
  if (required.length === 0 || required.length > MOST_SCOPES || !required.every((scope) => SCOPE.test(scope)))
    return undefined;
  // The scopes of a grant that a caller sealed are fixed.
  if (credentials === 'brought' || credentials?.kind === 'given')
    return { reason: code, message, wants: 'grant', scopes: required };
  if (credentials === undefined || !('scopes' in credentials)) return undefined;
  const had = [...scopesFor(credentials.scopes, request.tool), ...(request.consented ?? [])];
  const missing = required.filter((scope) => !had.includes(scope));
  const mayBeGiven = missing.every((scope) => credentials.scopes.consentable.includes(scope));
  return missing.length > 0 && mayBeGiven ? { reason: code, message, wants: 'consent', scopes: missing } : undefined;
}

/** `brought` means a server that the run itself names; it gets the token that the run gives. */
function credentialsFor(
  { servers, credentials }: Configured,
  request: TokenRequest,
): Credentials | 'brought' | undefined {
  if (Object.hasOwn(servers, request.server)) return servers[request.server]?.credentials;
  if (request.credentials === undefined) return 'brought';
  const { name } = request.credentials;
  return Object.hasOwn(credentials, name) ? credentials[name]?.use : undefined;
}

function isGiven(credentials: Credentials | 'brought' | undefined): boolean {
  return credentials === 'brought' || (credentials !== undefined && takeGrant(credentials));
}

// Another token for a connection on which people are asked: the call's own token may expire while they think.

export interface Renewing extends TokenRenewal {
  release(): void;
}

/**
 * Returns nothing if there is no token.
 * @param onMinted called before anyone else sees the new token
 */
export function renewalOf(
  broker: TokenBroker,
  { call: _, ...request }: TokenRequest,
  { accessToken, evidence: { expiresAt } }: MintedToken,
  onMinted: (token: MintedToken) => void,
): Renewing | undefined {
  if (accessToken === undefined) return undefined;
  const minted: MintedToken[] = [];
  let isOver = false;
  return {
    ...defined({ expiresAt }),
    mint: async (refused) => {
      const token = await broker.mint({ ...request, ...defined({ refused }) });
      minted.push(token);
      onMinted(token);
      if (isOver) token.release?.();
      return token.accessToken === undefined
        ? undefined
        : { accessToken: token.accessToken, expiresAt: token.evidence.expiresAt };
    },
    secrets: () => minted.flatMap(secretsOf),
    release: () => {
      // A token may still be on its way.
      isOver = true;
      for (const token of minted) token.release?.();
    },
  };
}
