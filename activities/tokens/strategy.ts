/** One way of obtaining tokens; the broker chooses among them by configuration. */
import { CountersignError, type ErrorFacts } from '../../contracts/errors.ts';
import type { MintedToken, TokenRequest } from './port.ts';

export interface TokenStrategy {
  /** Throws what the port allows, nothing else. */
  mint(request: TokenRequest): Promise<MintedToken>;
}

type TokenErrorCode =
  | 'GRANT_MISSING'
  | 'GRANT_INVALID'
  | 'GRANT_EXPIRED'
  | 'GRANT_FORBIDDEN'
  | 'GRANT_LOST'
  | 'TOKEN_REFUSED'
  | 'TOKEN_UNAVAILABLE';

/**
 * The only way in which this folder makes errors: never with a cause, since causes of OAuth and JOSE libraries hold
 * requests, answers and keys.
 */
export function tokenError(code: TokenErrorCode, message: string, facts: ErrorFacts): CountersignError {
  return new CountersignError(code, message, facts);
}
