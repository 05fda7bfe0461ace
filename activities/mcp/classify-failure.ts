/**
 * Classifies a call that got no result: not sent, refused before it ran, or unknown (INV-X1). It also says what that
 * shows of the server's health.
 *
 * It does not own results (`classify-result.ts`), or what a refused session proves (`session-refusal.ts`).
 * 1. `not-sent` needs proof from the connection. `refused` needs an answer that HTTP or MCP define as given before the
 *    tool runs. An ending with neither is `unknown`: a person decides, and nothing is sent again by itself.
 * 2. A server that asks in the middle of a call works on it. No later error or status proves that the tool did not run,
 *    even with one of those codes: a server may pass on the error of its own question.
 * 3. Texts name server, tool and reason, and quote the server bounded and scrubbed. None invites repeating an unknown
 *    call (INV-X2).
 * 4. A 5xx proves nothing, since proxies send it when the connection to the server broke after the request was passed
 *    on. Only a 503 with Retry-After is from a server that declined (RFC 9110 §15.6.4).
 * 5. The SDK's code for a refused status is a misleading `CLIENT_HTTP_NOT_IMPLEMENTED`, so only the status is read.
 * 6. A 4xx, a JSON-RPC error or a tool's error is an answer: the server is up. The same holds for 429, which has limits
 *    of its own. An ending that this worker caused, because the call was withdrawn, shows nothing.
 * 7. A deadline shows something only if the call had enough time: the starter of a run sets it, and must not close a
 *    server to others.
 */
import {
  InsufficientScopeError,
  ProtocolError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  UnauthorizedError,
} from '@modelcontextprotocol/client';
import { defined } from '../../contracts/defined.ts';
import type { CountersignError, ErrorCode } from '../../contracts/errors.ts';
import { networkCodeOf, networkReasonOf, neverConnected } from '../kit/network.ts';
import { type Exchange, type Failure, isRedirect, type RawAnswer, type Stop } from './session.ts';
import type { CallEnding, Health, ServerFault, ServerSign } from './port.ts';

export interface Names {
  readonly server: string;
  readonly tool: string;
  /** True for a read of a resource, which has no effect. */
  readonly reads?: true;
  /** Makes a text of the server fit to be quoted. */
  readonly quote: (text: string) => string;
}

/** Codes after which another token may help; the same request with the same token will not. */
const ABOUT_THE_TOKEN: ReadonlySet<ErrorCode> = new Set([
  'TOOL_UNAUTHORIZED',
  'TOOL_FORBIDDEN',
  'TOOL_INSUFFICIENT_SCOPE',
]);

/**
 * JSON-RPC and MCP errors given before a tool runs (JSON-RPC 2.0 §5.1; MCP 2026-07-28 "Error Codes"; 2025-11-25 for
 * -32042).
 */
const REFUSING_RPC = new Set([-32700, -32600, -32601, -32602, -32020, -32021, -32022, -32042]);
export const INVALID_PARAMS = -32602;
/** The server would need a capability that the client has not declared. */
const MISSING_CAPABILITY = -32021;

const STOPPED: Readonly<Partial<Record<Stop, string>>> = {
  deadline: 'no answer came before the deadline',
  cancelled: 'the call was cancelled after it was sent',
  left: 'the worker ended after it was sent',
};

export function endingOfFailure(trace: Extract<Trace, { kind: 'failed' }>, names: Names): CallEnding {
  const { error, stopped, reached, exchange, asked } = trace;
  if (asked === undefined && exchange.forbidden !== undefined) return forbidden(exchange.forbidden);
  if (asked === undefined && (!reached || neverConnected(error))) {
    const reason = stopped === 'cancelled' ? 'the call was cancelled' : (networkCodeOf(error) ?? 'no connection');
    return notSent(names, reason, exchange);
  }
  if (asked === undefined && exchange.nonceWanted === true) return nonceWanted(names);
  const ended = stopped && STOPPED[stopped];
  if (ended !== undefined) return unknown(names, ended, exchange);
  const { status } = exchange;
  // None of these statuses proves that nothing was done yet; a read has no effect anyway.
  if (status !== undefined && isRedirect(status) && names.reads !== true)
    return unknown(names, `the server answered with a redirect (HTTP ${status}), which no call follows`, exchange);
  const refusal = asked === undefined ? refusalIn(error, exchange, names.quote) : undefined;
  if (refusal !== undefined) return refused(names, refusal);
  if (exchange.tooLarge === true && (exchange.streamed === true || status === 200)) {
    const what = exchange.streamed === true ? 'what the server says in its stream' : 'the answer';
    return unknown(names, `${what} is larger than this service reads`, exchange);
  }
  const lost = stopped === 'lost' ? 'the connection ended without an answer' : undefined;
  return unknown(names, lost ?? reasonOf(error, 'the answer could not be read'), exchange);
}

/** Without a session the tool was not called, whatever the reason. */
export function endingOfConnect({ error, exchange, stopped }: Failure, names: Names): CallEnding {
  if (exchange.forbidden !== undefined) return forbidden(exchange.forbidden);
  if (stopped === 'cancelled') return notSent(names, 'the call was cancelled', exchange);
  if (stopped === 'deadline') return notSent(names, 'no answer to the request to connect', exchange);
  if (exchange.nonceWanted === true) return nonceWanted(names);
  const refusal = refusalIn(error, exchange, names.quote);
  if (refusal !== undefined && ABOUT_THE_TOKEN.has(refusal.code)) return refused(names, refusal);
  const ending = notSent(names, reasonOf(error, 'the protocol could not be agreed on'), exchange);
  return refusal?.code === 'TOOL_RATE_LIMITED' ? { ...ending, code: refusal.code } : ending;
}

/**
 * @param noInput why the server could not ask people, if it could not
 * @param asked the server had asked something in the middle of the call
 */
export function endingOfError(
  { code, message }: Extract<RawAnswer, { kind: 'error' }>,
  names: Names,
  noInput?: string,
  asked = false,
): CallEnding {
  if (asked || !REFUSING_RPC.has(code) || saysAfterwards(message))
    return unknown(names, `the server answered with JSON-RPC error ${code}: ${names.quote(message)}`);
  if (code === INVALID_PARAMS && saysUnknown(message, names.tool)) return vanished(names);
  return refusedBy({ code, message }, names, noInput);
}

export function refusedBy(
  { code, message }: Omit<Extract<RawAnswer, { kind: 'error' }>, 'kind'>,
  names: Names,
  noInput?: string,
): CallEnding {
  const why = code === MISSING_CAPABILITY && noInput !== undefined ? ` (${noInput})` : '';
  return refused(names, { code: 'TOOL_REFUSED', reason: `JSON-RPC error ${code}: ${names.quote(message)}${why}` });
}

/**
 * The v1 TypeScript SDK, which most servers run, reports a tool that it does not have as a result. Only its exact words
 * count: any other text is the tool's own.
 */
export function isV1UnknownTool(text: string, tool: string): boolean {
  return text === `MCP error -32602: Tool ${tool} not found` || text === `MCP error -32602: Tool ${tool} disabled`;
}

export function vanished(names: Names): CallEnding {
  return {
    kind: 'refused',
    code: 'TOOL_UNKNOWN',
    message: `Server "${names.server}" has no tool "${names.tool}" any more; the call did not run.`,
  };
}

export function halfway(names: Names, resultType: string, why = 'this is not supported'): CallEnding {
  return unfinished(names, `the server answered "${names.quote(resultType)}" in place of a result; ${why}`);
}

export function unfinished(names: Names, reason: string): CallEnding {
  return names.reads === true ? refused(names, { code: 'TOOL_REFUSED', reason }) : unknown(names, reason);
}

/** Servers of older SDKs also send -32602 for a result that broke their own output schema, after the tool has run. */
export function saysAfterwards(message: string): boolean {
  return /\boutput (?:schema|validation)\b|\bstructured content\b/i.test(message);
}

function saysUnknown(message: string, tool: string): boolean {
  return (
    /\bunknown tool\b/i.test(message) ||
    (message.includes(tool) && /\b(?:not found|unknown|disabled|no such|does not exist)\b/i.test(message))
  );
}

function notSent(names: Names, reason: string, { retryAfterMs }: Exchange): Extract<CallEnding, { kind: 'not-sent' }> {
  return {
    kind: 'not-sent',
    code: 'TOOL_UNAVAILABLE',
    message: `Server "${names.server}" was not reached (${reason}); tool "${names.tool}" was not called.`,
    ...defined({ retryAfterMs }),
  };
}

export const NONCE_WANTED = 'it wants another nonce in each proof (use_dpop_nonce, RFC 9449 §9)';

/** The server has not looked at the token yet, so this says nothing of it: a later try may have a nonce in time. */
function nonceWanted(names: Names): CallEnding {
  const message = `Server "${names.server}" took nothing of the call: ${NONCE_WANTED}; tool "${names.tool}" was not called.`;
  return { kind: 'not-sent', code: 'TOOL_UNAVAILABLE', message };
}

/** Not `not-sent`, which would be tried again: the rules forbid the call until somebody changes them. */
function forbidden({ code, message }: CountersignError): CallEnding {
  return { kind: 'refused', code, message };
}

export function refused(names: Names, { reason, ...refusal }: Refusal): CallEnding {
  return {
    kind: 'refused',
    message: `Server "${names.server}" refused tool "${names.tool}" before it ran: ${reason}`,
    ...refusal,
  };
}

export function unknown(names: Names, reason: string, { received }: Exchange = {}): CallEnding {
  return {
    kind: 'unknown',
    code: 'OUTCOME_UNKNOWN',
    message: `Tool "${names.tool}" of server "${names.server}" was sent and may or may not have run: ${reason}. Find out at the server before anything is done again.`,
    ...defined({ bytes: received }),
  };
}

interface Refusal {
  readonly code: ErrorCode;
  readonly reason: string;
  readonly retryAfterMs?: number;
  readonly requiredScope?: string;
}

const UNAUTHORIZED = 'the token was not accepted (HTTP 401)';
const DECLINED = `${UNAUTHORIZED}; it is bound to a key (DPoP, RFC 9449), and the server offers no way to show such a token`;

/** Statuses that HTTP defines as decided before a request is acted on (RFC 9110 §15.4 and §15.5, RFC 6585). */
const REFUSING = new Set([
  301, 302, 307, 308, 400, 402, 404, 405, 406, 407, 410, 411, 413, 414, 415, 417, 421, 426, 428, 431,
]);

/** No MCP server is at this address now, which may pass. */
const ABSENT = new Set([404, 405, 410]);

/** Undefined if neither HTTP nor the SDK's authorization refused the request. */
export function refusalIn(
  error: unknown,
  { retryAfterMs, declined }: Exchange,
  quote: (text: string) => string,
): Refusal | undefined {
  if (InsufficientScopeError.isInstance(error)) {
    const requiredScope = error.requiredScope === undefined ? undefined : quote(error.requiredScope);
    const lacking = requiredScope === undefined ? 'a scope' : `the scope ${requiredScope}`;
    return { code: 'TOOL_INSUFFICIENT_SCOPE', reason: `the token lacks ${lacking}`, ...defined({ requiredScope }) };
  }
  const status = UnauthorizedError.isInstance(error) ? 401 : statusOf(error);
  if (status === undefined) return undefined;
  const later = defined({ retryAfterMs });
  const body = quote(bodyOf(error) ?? '');
  const reason = body === '' ? `HTTP ${status}` : `HTTP ${status}: ${body}`;
  if (status === 401) return { code: 'TOOL_UNAUTHORIZED', reason: declined === true ? DECLINED : UNAUTHORIZED };
  if (status === 403) return { code: 'TOOL_FORBIDDEN', reason };
  if (status === 429) return { code: 'TOOL_RATE_LIMITED', reason, ...later };
  if (status === 503 && retryAfterMs !== undefined) return { code: 'TOOL_UNAVAILABLE', reason, ...later };
  return REFUSING.has(status) ? { code: ABSENT.has(status) ? 'TOOL_UNAVAILABLE' : 'TOOL_REFUSED', reason } : undefined;
}

export function reasonOf(error: unknown, otherwise: string): string {
  const status = statusOf(error);
  if (status !== undefined) return `HTTP ${status}`;
  if (ProtocolError.isInstance(error)) return `JSON-RPC error ${error.code}`;
  if (SdkError.isInstance(error) && error.code === SdkErrorCode.ClientHttpUnexpectedContent)
    return 'the answer is neither JSON nor an event stream';
  return networkReasonOf(error) ?? otherwise;
}

/** Says why a question that is no call has no answer. */
export function whyStopped(stopped: Stop, what: string): string {
  if (stopped === 'deadline') return 'no answer in time';
  return stopped === 'lost' ? 'the connection ended without an answer' : `${what} was cancelled`;
}

export function statusOf(error: unknown): number | undefined {
  return SdkHttpError.isInstance(error) ? error.status : undefined;
}

export function bodyOf(error: unknown): string | undefined {
  if (!SdkHttpError.isInstance(error)) return undefined;
  const { text } = error.data;
  return typeof text === 'string' ? text : undefined;
}

/** A server that was silent for so long may count as one that does not answer. */
const PATIENCE_MS = 30_000;

/** @param during a call has its starter's deadline, anything else (`asking`) our own, whose length no caller sets */
export function faultOf({ error, stopped, exchange }: Failure, during: 'call' | 'asking'): ServerFault | undefined {
  if (stopped === 'cancelled' || stopped === 'left') return undefined;
  if (stopped === 'deadline') return during === 'call' ? 'timeout' : 'failure';
  // A server that has sent more than is read does answer.
  if (during === 'call' && exchange.tooLarge === true) return undefined;
  if (stopped === 'lost') return 'failure';
  const status = SdkHttpError.isInstance(error) ? error.status : exchange.status;
  if (status !== undefined) return status >= 500 ? 'failure' : undefined;
  return networkCodeOf(error) === undefined ? undefined : 'failure';
}

export function withFault(ending: CallEnding, fault: ServerFault | undefined): CallEnding {
  return fault !== undefined && 'code' in ending ? { ...ending, fault } : ending;
}

export function signOfCall(ending: CallEnding, timeoutMs: number): ServerSign {
  const health = healthAfter(ending, timeoutMs);
  const isAsked = (ending.kind === 'not-sent' || ending.kind === 'refused') && ending.retryAfterMs !== undefined;
  return isAsked ? { health, asked: { code: ending.code, ms: ending.retryAfterMs } } : { health };
}

export function healthAfter(ending: CallEnding, timeoutMs: number): Health {
  if (!('code' in ending)) return 'up';
  if (ending.fault === 'timeout') return timeoutMs < PATIENCE_MS ? 'neutral' : 'down';
  if (ending.fault === 'failure') return 'down';
  return ending.kind === 'refused' ? 'up' : 'neutral';
}

export type Trace =
  | {
      readonly kind: 'answered';
      readonly answer: RawAnswer;
      readonly status?: number | undefined;
      /** The server asked something in the middle of the call, so it did not refuse the call before it ran. */
      readonly asked?: true;
      /** Finds the session again; set if the call was sent as a task. */
      readonly session?: { readonly sessionId?: string; readonly version?: string };
    }
  | (Failure & { readonly kind: 'failed'; readonly reached: boolean; readonly asked?: true });
