/**
 * With what a call was made, for whoever asks after it: whose grant, which scopes, and what its server was shown.
 *
 * Pure. Owns what of it is kept, sealed with a task or with where an answer comes (INV-S1). Does not own the sealing.
 * 1. Whoever asks gets a token of this grant and these scopes, and of no other (INV-S2).
 * 2. A server may say afterwards what it was shown in the call, so the tokens are kept to be taken out of that: they alone. What they
 *    were obtained with was never sent to it.
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
  /** Its hash. */
  readonly grant?: string;
  readonly consented?: readonly string[];
  /** Tokens. Secret (INV-S1). */
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

/** What a server sees of a token. */
export function shownOf({ accessToken }: Pick<MintedToken, 'accessToken'>): readonly string[] {
  return accessToken === undefined ? [] : [accessToken];
}

/** What a token is asked for with; undefined where the grant is none of these. */
export function authorizationOf(
  { grant: wanted, consented }: CallAuthority,
  grants: readonly Grant[],
): Pick<TokenRequest, 'grant' | 'consented'> | undefined {
  const grant = grants.find((each) => hashOf(each) === wanted);
  if (wanted !== undefined && grant === undefined) return undefined;
  return { ...(grant === undefined ? {} : { grant }), ...(consented === undefined ? {} : { consented }) };
}

// Whether a call that was turned away, or got no token, can be let through by people, and by whom.
//
// Pure. Nothing has run: only endings that prove it are looked at.
// 1. A scope is asked for only where the operator lists it as one that people may consent to (`scopes.consentable`), and where it
//    was not among those that the token had: consent that changes nothing is not asked for (INV-S2).

/** For want of a grant, or because of it. */
const ABOUT_THE_GRANT: ReadonlySet<string> = new Set<ErrorCode>([
  'GRANT_MISSING',
  'GRANT_EXPIRED',
  'GRANT_INVALID',
  'GRANT_LOST',
  'TOKEN_REFUSED',
]);
const MOST_SCOPES = 10;
/** RFC 6749 §3.3, bounded. */
const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]{1,128}$/;

type Configured = Pick<Config, 'servers' | 'credentials'>;

/** As a call's ending and a failed listing say it. */
type Turned = { readonly code: string } & Pick<Extract<CallEnding, { kind: 'refused' }>, 'message' | 'requiredScope'>;

/** The result, and where nothing has run, what people can do about it. */
export function wanting(
  result: DispatchResult,
  need: (failed: Extract<Outcome, { kind: 'failed' }>) => AuthorizationNeed | undefined,
): DispatchResult {
  if (result.kind !== 'ended' || result.outcome.kind !== 'failed' || result.outcome.executed) return result;
  const authorization = need(result.outcome);
  return authorization === undefined ? result : { ...result, authorization };
}

/** Consent is asked of those by whom it would count. @param leaving undefined where the call may not leave as it is */
export function askedNow(
  need: AuthorizationNeed | undefined,
  leaving: Leaving | undefined,
): AuthorizationNeed | undefined {
  if (need?.wants !== 'consent' || leaving === undefined) return need;
  const { approvers, deadlineSeconds } = leaving;
  return { ...need, asked: { approvers, deadlineSeconds } };
}

/** No token could be obtained. */
export function needOfToken(
  config: Configured,
  request: TokenRequest,
  { code, message }: { readonly code: string; readonly message: string },
): AuthorizationNeed | undefined {
  if (!ABOUT_THE_GRANT.has(code) || !isGiven(credentialsFor(config, request))) return undefined;
  return { reason: code, message, wants: 'grant' };
}

/** Its tools could not be listed again: no token, or the server turned it away. Consent to scopes is for calls and does not help. */
export function needOfListing(
  config: Configured,
  request: TokenRequest,
  failed: { readonly code: string; readonly message: string },
): AuthorizationNeed | undefined {
  return needOfToken(config, request, failed) ?? needOfEnding(config, request, failed);
}

/** The server turned the token away. */
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
  // What callers sealed has the scopes that it has.
  if (credentials === 'brought' || credentials?.kind === 'given')
    return { reason: code, message, wants: 'grant', scopes: required };
  if (credentials === undefined || !('scopes' in credentials)) return undefined;
  const had = [...scopesFor(credentials.scopes, request.tool), ...(request.consented ?? [])];
  const missing = required.filter((scope) => !had.includes(scope));
  const mayBeGiven = missing.every((scope) => credentials.scopes.consentable.includes(scope));
  return missing.length > 0 && mayBeGiven ? { reason: code, message, wants: 'consent', scopes: missing } : undefined;
}

/** `brought`: a server of the run's own, which gets what the run gives. */
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

// Another token for a connection on which people are asked: the one that a call left with may end while they think.
//
// Owns which tokens there were: all are secret, and each ends with the call (INV-S1). Does not own when one is wanted
// (`activities/mcp/http-exchange.ts`).
// 1. Asked for as the call's own was, without what is proven of the call: that stands in one token only (INV-S2).

export interface Renewing extends TokenRenewal {
  release(): void;
}

/** Nothing where there is no token. @param onMinted before anybody sees it */
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
      // One may still be on its way.
      isOver = true;
      for (const token of minted) token.release?.();
    },
  };
}
