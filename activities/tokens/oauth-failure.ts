/**
 * Says in words of our own why an authorization server gave no token. The server's text is not repeated:
 * error descriptions echo requests, and requests hold secrets (INV-S1).
 */
import {
  HTTP_REQUEST_FORBIDDEN,
  INVALID_SERVER_METADATA,
  JSON_ATTRIBUTE_COMPARISON,
  MISSING_SERVER_METADATA,
  PARSE_ERROR,
  REQUEST_PROTOCOL_FORBIDDEN,
  RESPONSE_IS_NOT_JSON,
} from 'oauth4webapi';
import { CountersignError } from '../../contracts/errors.ts';
import { AnswerTooLarge, type Exchange, LARGEST_ANSWER_BYTES } from './exchange.ts';
import { tokenError } from './port.ts';

interface Failure {
  /** `TOKEN_UNAVAILABLE` if the same request may succeed later. */
  readonly code: 'TOKEN_REFUSED' | 'TOKEN_UNAVAILABLE';
  readonly reason: string;
}

export interface FailureContext {
  readonly server: string;
  readonly issuer: string;
  readonly exchange: Exchange;
}

export function oauthFailure(error: unknown, { server, issuer, exchange }: FailureContext): CountersignError {
  if (error instanceof CountersignError) return error;
  const { code, reason } = explain(error, exchange);
  const retryAfterMs = code === 'TOKEN_UNAVAILABLE' ? exchange.retryAfterMs() : undefined;
  const next =
    code === 'TOKEN_UNAVAILABLE'
      ? 'It may pass: try again.'
      : `Check servers.${server}.credentials and the client at its issuer.`;
  return tokenError(code, `No token for ${server}: its authorization server ${issuer} ${reason}. ${next}`, {
    server,
    issuer,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });
}

/** Registered errors that name a cause; others get no name in the message. */
const REFUSALS: ReadonlySet<string> = new Set([
  // RFC 6749 §5.2
  'invalid_request',
  'invalid_client',
  'invalid_grant',
  'unauthorized_client',
  'unsupported_grant_type',
  'invalid_scope',
  // RFC 8707 §2
  'invalid_target',
  // RFC 6749 §4.1.2.1, in use at token endpoints too
  'access_denied',
]);
const PASSING: ReadonlySet<string> = new Set(['temporarily_unavailable', 'server_error', 'slow_down']);

function explain(error: unknown, exchange: Exchange): Failure {
  const said = errorNameIn(error);
  switch (codeIn(error)) {
    case HTTP_REQUEST_FORBIDDEN:
    case REQUEST_PROTOCOL_FORBIDDEN:
      return { code: 'TOKEN_REFUSED', reason: 'has a token endpoint without TLS' };
    case MISSING_SERVER_METADATA:
    case INVALID_SERVER_METADATA:
      return { code: 'TOKEN_REFUSED', reason: 'publishes no usable token endpoint' };
    case JSON_ATTRIBUTE_COMPARISON:
      return { code: 'TOKEN_REFUSED', reason: 'publishes metadata of another issuer (RFC 8414 §3.3)' };
    default:
  }
  if (error instanceof AnswerTooLarge) {
    return { code: 'TOKEN_REFUSED', reason: `answered with more than ${LARGEST_ANSWER_BYTES} bytes` };
  }
  const status = exchange.status();
  if (status === undefined) return { code: 'TOKEN_UNAVAILABLE', reason: noAnswer(error, exchange) };
  if (status >= 500 || status === 429 || status === 408) {
    return { code: 'TOKEN_UNAVAILABLE', reason: `answered HTTP ${status}` };
  }
  if (said !== undefined && PASSING.has(said)) return { code: 'TOKEN_UNAVAILABLE', reason: `answered ${said}` };
  if (said !== undefined && REFUSALS.has(said)) return { code: 'TOKEN_REFUSED', reason: `answered ${said}` };
  if (status !== 200) return { code: 'TOKEN_REFUSED', reason: `answered HTTP ${status}` };
  // The answer is a page of a proxy or a body cut on the way.
  if ([PARSE_ERROR, RESPONSE_IS_NOT_JSON].includes(codeIn(error) ?? '')) {
    return { code: 'TOKEN_UNAVAILABLE', reason: 'answered with something that is no JSON' };
  }
  return { code: 'TOKEN_REFUSED', reason: 'answered with something that is no token response (RFC 6749 §5.1)' };
}

function noAnswer(error: unknown, exchange: Exchange): string {
  const endedBy = exchange.endedBy();
  if (endedBy === 'caller') return 'had not answered when the call was ended';
  if (endedBy === 'deadline') return 'did not answer in time';
  const code = codeIn(error) ?? codeIn(propertyOf(error, 'cause'));
  return code === undefined ? 'could not be reached' : `could not be reached (${code})`;
}

function codeIn(error: unknown): string | undefined {
  const code = propertyOf(error, 'code');
  return typeof code === 'string' && /^[A-Z][A-Z0-9_]{2,63}$/.test(code) ? code : undefined;
}

/** Reads `error` of an OAuth error response (RFC 6749 §5.2). */
function errorNameIn(error: unknown): string | undefined {
  const name = propertyOf(error, 'error');
  return typeof name === 'string' ? name : undefined;
}

function propertyOf(value: unknown, name: string): unknown {
  // Sound: any object may be read at any name; the value is unknown.
  return value !== null && typeof value === 'object' ? (value as Record<string, unknown>)[name] : undefined;
}
