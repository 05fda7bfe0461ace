/**
 * Keeps the authority of a call (its grant, scopes and tokens), and says whether people can supply an authority that
 * was missing.
 *
 * It owns what is kept of it, sealed with a task or a resume point (INV-S1), and the tokens of one call. It does not
 * own the sealing, nor when another token is wanted (`activities/mcp/http-exchange.ts`).
 * 1. A later question about the call gets a token of this grant and these scopes, and of no other (INV-S2).
 * 2. A server may later echo what it saw in the call, so the tokens are kept to be scrubbed from its words. The secrets
 *    with which they were obtained are not kept: the server never saw them.
 * 3. Missing authority is looked for only in endings that prove that nothing has run.
 * 4. A scope is asked for only if the operator lists it in `scopes.consentable` and the token did not have it. Consent
 *    that changes nothing is not asked for (INV-S2).
 * 5. A renewed token is requested like the call's own, but without the proof of the call, which is in one token only
 *    (INV-S2). All tokens are secret, and each ends with the call (INV-S1).
 */
import type { ErrorCode } from '../../contracts/errors.ts';
import type { Outcome } from '../../contracts/schemas/call.ts';
import type { Config, Credentials } from '../../contracts/schemas/config.ts';
import type { Grant } from '../../contracts/schemas/run-spec.ts';
import type { DispatchResult } from '../../contracts/wire/tools.ts';
import { hashOf } from '../../domain/text/canonical.ts';
import type { CallEnding, TokenRenewal } from '../mcp/port.ts';
import { scopesFor } from '../tokens/asked.ts';
import { takeGrant } from '../tokens/clients.ts';
import { scopesIn } from '../tokens/evidence.ts';
import type { MintedToken, TokenBroker, TokenRequest } from '../tokens/port.ts';
import { secretsOf } from './server-access.ts';
import type { Leaving } from './statement-checks.ts';
import type { AuthorizationNeed } from '../../contracts/wire/proofs.ts';

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
    ...(consented === undefined ? {} : { consented }),
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
  return { ...(grant === undefined ? {} : { grant }), ...(consented === undefined ? {} : { consented }) };
}

// People may be able to let a call through that was refused or got no token; the next functions say how.

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
  leaving: Leaving | undefined,
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
    ...(expiresAt === undefined ? {} : { expiresAt }),
    mint: async (refused) => {
      const token = await broker.mint({ ...request, ...(refused === undefined ? {} : { refused }) });
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
