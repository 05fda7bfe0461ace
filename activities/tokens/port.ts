/**
 * The token port provides a token for one call of one tool on one server.
 *
 * 1. It is called inside an activity only; what it returns is never recorded (INV-S1).
 * 2. The scope is never wider than asked, and never widened by itself (INV-S2).
 * 3. Refusals are `CountersignError`s: `GRANT_MISSING | GRANT_INVALID | GRANT_EXPIRED | GRANT_FORBIDDEN | GRANT_LOST |
 *    TOKEN_REFUSED | TOKEN_UNBOUND` (final) or `TOKEN_UNAVAILABLE` (may pass). Their text holds no secret.
 */
import { CountersignError, type ErrorFacts } from '../../contracts/errors.ts';
import type { TokenEvidence } from '../../contracts/schemas/call.ts';
import type { IssuedCall } from '../../contracts/schemas/credentials.ts';
import type { Grant, Initiator } from '../../contracts/schemas/run-spec.ts';
import type { RunIdentity } from '../../contracts/wire/identity.ts';
import type { TokenBinding } from '../mcp/port.ts';

export interface TokenRequest {
  readonly run: Pick<RunIdentity, 'namespace' | 'workflowId' | 'specHash'>;
  readonly server: string;
  /** Canonical server URL (RFC 8707 resource). */
  readonly serverUrl: string;
  /** The tool to be called; absent for listing tools. */
  readonly tool?: string;
  /** The person for whom the token is obtained; absent if a catalog lists tools for itself. */
  readonly initiator?: Pick<Initiator, 'id' | 'tenant'>;
  /** Absent for listing tools. */
  readonly call?: IssuedCall;
  readonly grant?: Grant;
  /** Scopes that people have consented to for this call; refused unless the configuration lists them. */
  readonly consented?: readonly string[];
  /** Configured credentials that a catalog names for a server of its own, and the tenant of that catalog. */
  readonly credentials?: { readonly name: string; readonly tenant: string };
  /** A token that the server has refused with 401; the broker must not hand it out again. */
  readonly refused?: string;
  /** That token was bound to a key, and the server offers no way to show such a token. */
  readonly declined?: boolean;
  /** A provider shows the token, and has no key of ours: it is bound only where that is required. */
  readonly byProvider?: boolean;
  readonly signal?: AbortSignal;
}

export interface MintedToken {
  /** Value of the Authorization header without its scheme; absent if the server takes none. */
  readonly accessToken?: string;
  /** Set if the token is bound to a key, which ends with it. */
  readonly binding?: TokenBinding;
  readonly evidence: TokenEvidence;
  /** Everything that must not leave the activity: the token, and the secrets with which it was obtained. */
  readonly secrets: readonly string[];
  /** End of the grant with which the next token is obtained, if known. */
  readonly grantExpiresAt?: string;
  /** Ends the token at its issuer, if configured; called when the call is over. Does not wait, never throws. */
  readonly release?: () => void;
}

export interface TokenBroker {
  mint(request: TokenRequest): Promise<MintedToken>;
}
export type TokenStrategy = TokenBroker;

type TokenErrorCode =
  | 'GRANT_MISSING'
  | 'GRANT_INVALID'
  | 'GRANT_EXPIRED'
  | 'GRANT_FORBIDDEN'
  | 'GRANT_LOST'
  | 'TOKEN_REFUSED'
  | 'TOKEN_UNBOUND'
  | 'TOKEN_UNAVAILABLE';

/** Makes every error of this folder, without a cause: those of libraries hold requests, answers and keys. */
export function tokenError(code: TokenErrorCode, message: string, facts: ErrorFacts): CountersignError {
  return new CountersignError(code, message, facts);
}
