/**
 * Whether HTTP, or the SDK's authorization, says that a request was turned away before it was acted on.
 *
 * Pure. Owns which statuses prove that. Does not own what follows for a call or a listing (`ending.ts`, `listing.ts`).
 *
 * 1. A 5xx proves nothing, also not 503: proxies answer so when the connection to the server broke after the request was passed
 *    on. Only a 503 with Retry-After is a server that declined (RFC 9110 §15.6.4).
 * 2. The SDK's code for a refused status is a misleading `CLIENT_HTTP_NOT_IMPLEMENTED`: only the status is read.
 */
import {
  InsufficientScopeError,
  ProtocolError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  UnauthorizedError,
} from '@modelcontextprotocol/client';
import type { ErrorCode } from '../../contracts/errors.ts';
import { networkReasonOf } from './network.ts';
import type { Trace } from './tool-call.ts';
import type { Exchange } from './wire.ts';

/** A server that turned a request away before it acted on it. */
export interface Refusal {
  readonly code: ErrorCode;
  readonly reason: string;
  readonly retryAfterMs?: number;
  readonly requiredScope?: string;
}

/** Statuses that HTTP defines as decided before a request is acted on (RFC 9110 §15.4 and §15.5, RFC 6585). */
const REFUSING = new Set([
  301, 302, 307, 308, 400, 402, 404, 405, 406, 407, 410, 411, 413, 414, 415, 417, 421, 426, 428, 431,
]);
/** Nobody serves MCP there now; may pass. */
const ABSENT = new Set([404, 405, 410]);

/** Why HTTP or the SDK's authorization says that a request was turned away; undefined where neither does. */
export function refusalIn(
  error: unknown,
  { retryAfterMs }: Exchange,
  quote: (text: string) => string,
): Refusal | undefined {
  if (InsufficientScopeError.isInstance(error)) {
    const { requiredScope } = error;
    if (requiredScope === undefined) return { code: 'TOOL_INSUFFICIENT_SCOPE', reason: 'the token lacks a scope' };
    const quoted = quote(requiredScope);
    return { code: 'TOOL_INSUFFICIENT_SCOPE', reason: `the token lacks the scope ${quoted}`, requiredScope: quoted };
  }
  const status = UnauthorizedError.isInstance(error) ? 401 : statusOf(error);
  if (status === undefined) return undefined;
  const later = retryAfterMs === undefined ? {} : { retryAfterMs };
  const body = quote(bodyOf(error));
  const reason = body === '' ? `HTTP ${status}` : `HTTP ${status}: ${body}`;
  if (status === 401) return { code: 'TOOL_UNAUTHORIZED', reason: 'the token was not accepted (HTTP 401)' };
  if (status === 403) return { code: 'TOOL_FORBIDDEN', reason };
  if (status === 429) return { code: 'TOOL_RATE_LIMITED', reason, ...later };
  if (status === 503 && retryAfterMs !== undefined) return { code: 'TOOL_UNAVAILABLE', reason, ...later };
  return REFUSING.has(status) ? { code: ABSENT.has(status) ? 'TOOL_UNAVAILABLE' : 'TOOL_REFUSED', reason } : undefined;
}

/** What a failure says of itself, without words of the server. */
export function reasonOf(error: unknown, otherwise: string): string {
  const status = statusOf(error);
  if (status !== undefined) return `HTTP ${status}`;
  if (ProtocolError.isInstance(error)) return `JSON-RPC error ${error.code}`;
  if (SdkError.isInstance(error) && error.code === SdkErrorCode.ClientHttpUnexpectedContent)
    return 'the answer is neither JSON nor an event stream';
  return networkReasonOf(error) ?? otherwise;
}

/**
 * Was the call turned away because of the session or the protocol version alone? Then a new session may carry it: servers of
 * another era than was assumed, restarted ones, and replicas that do not share sessions.
 */
export function isSessionRefusal(trace: Trace): boolean {
  if (trace.kind === 'answered') return trace.answer.kind === 'error' && trace.answer.code === -32022;
  const status = statusOf(trace.error);
  if (status !== 400 && status !== 404) return false;
  // The words of the v1 TypeScript and Python SDKs, whose transports answer so before they look at the method.
  return /protocol[ -]version|session|not initialized/i.test(bodyOf(trace.error));
}

function statusOf(error: unknown): number | undefined {
  return SdkHttpError.isInstance(error) ? error.status : undefined;
}

function bodyOf(error: unknown): string {
  if (!SdkHttpError.isInstance(error)) return '';
  const { text } = error.data;
  return typeof text === 'string' ? text : '';
}
