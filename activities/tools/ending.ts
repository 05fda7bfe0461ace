/**
 * What a call that got no result ended as: not sent, refused before it ran, or unknown (INV-X1).
 *
 * Pure. Owns the proof that a call did not run. Does not own results (`result.ts`).
 *
 * 1. `not-sent` needs proof from the connection; `refused` needs an answer that HTTP or MCP define as given before the tool
 *    runs. Whatever has neither is `unknown`: a person decides, nothing is sent again by itself.
 * 2. Whoever asks in the middle of a call works on it: no error and no status that follows is given before the tool runs, also where
 *    the code is one of those. A server may pass on as its own what its question was answered with.
 * 3. Texts name server, tool and reason, and quote the server bounded and scrubbed; none invites to repeat an unknown call (INV-X2).
 */
import type { CountersignError, ErrorCode } from '../../contracts/errors.ts';
import { networkCodeOf, neverConnected } from './network.ts';
import type { CallEnding } from './port.ts';
import { reasonOf, type Refusal, refusalIn } from './refusal.ts';
import type { Trace } from './tool-call.ts';
import type { RawAnswer } from './transport.ts';
import { type Exchange, isRedirect } from './wire.ts';

export interface Names {
  readonly server: string;
  readonly tool: string;
  /** It is a read of a resource, which leaves nothing behind. */
  readonly reads?: true;
  /** Makes a text of the server fit to be quoted. */
  readonly quote: (text: string) => string;
}

/** Another token may help; the same request with the same token will not. */
const ABOUT_THE_TOKEN: ReadonlySet<ErrorCode> = new Set([
  'TOOL_UNAUTHORIZED',
  'TOOL_FORBIDDEN',
  'TOOL_INSUFFICIENT_SCOPE',
]);

/** JSON-RPC and MCP errors given before a tool runs (JSON-RPC 2.0 §5.1; MCP 2026-07-28 "Error Codes"; 2025-11-25 for -32042). */
const REFUSING_RPC = new Set([-32700, -32600, -32601, -32602, -32020, -32021, -32022, -32042]);
export const INVALID_PARAMS = -32602;
/** The server would ask for what the client has not declared. */
const MISSING_CAPABILITY = -32021;

/** The call was not answered. */
export function endingOfFailure(trace: Extract<Trace, { kind: 'failed' }>, names: Names): CallEnding {
  const { error, stopped, reached, exchange, asked } = trace;
  if (asked === undefined && exchange.forbidden !== undefined) return forbidden(exchange.forbidden);
  if (asked === undefined && (!reached || neverConnected(error))) {
    return notSent(
      names,
      stopped === 'cancelled' ? 'the call was cancelled' : (networkCodeOf(error) ?? 'no connection'),
      exchange,
    );
  }
  if (stopped === 'deadline') return unknown(names, 'no answer came before the deadline', exchange);
  if (stopped === 'cancelled') return unknown(names, 'the call was cancelled after it was sent', exchange);
  if (stopped === 'left') return unknown(names, 'the worker ended after it was sent', exchange);
  const { status } = exchange;
  // None of these says that nothing was done yet; a read leaves nothing behind.
  if (status !== undefined && isRedirect(status) && names.reads !== true)
    return unknown(names, `the server answered with a redirect (HTTP ${status}), which no call follows`, exchange);
  const refusal = asked === undefined ? refusalIn(error, exchange, names.quote) : undefined;
  if (refusal !== undefined) return refused(names, refusal);
  if (exchange.tooLarge === true && exchange.streamed === true)
    return unknown(names, 'what the server says in its stream is larger than this service reads', exchange);
  return unknown(
    names,
    stopped === 'lost' ? 'the connection ended without an answer' : reasonOf(error, 'the answer could not be read'),
    exchange,
  );
}

/** No session could be opened: whatever the reason, the tool was not called. */
export function endingOfConnect(
  cause: unknown,
  exchange: Exchange,
  stopped: 'cancelled' | 'deadline' | undefined,
  names: Names,
): CallEnding {
  if (exchange.forbidden !== undefined) return forbidden(exchange.forbidden);
  if (stopped === 'cancelled') return notSent(names, 'the call was cancelled', exchange);
  if (stopped === 'deadline') return notSent(names, 'no answer to the request to connect', exchange);
  const refusal = refusalIn(cause, exchange, names.quote);
  if (refusal !== undefined && ABOUT_THE_TOKEN.has(refusal.code)) return refused(names, refusal);
  const ending = notSent(names, reasonOf(cause, 'the protocol could not be agreed on'), exchange);
  return refusal?.code === 'TOOL_RATE_LIMITED' ? { ...ending, code: refusal.code } : ending;
}

/**
 * The server answered with an error in place of a result.
 *
 * @param noInput why it could not ask people, where that is so
 * @param asked it had asked something in the middle of the call
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
  const why = code === MISSING_CAPABILITY && noInput !== undefined ? ` (${noInput})` : '';
  return refused(names, { code: 'TOOL_REFUSED', reason: `JSON-RPC error ${code}: ${names.quote(message)}${why}` });
}

/**
 * The v1 TypeScript SDK, which most servers run, reports a tool it does not have as a result. Only its exact words count: any
 * other text is the tool's own.
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

/** Neither done nor refused: the server stopped for something that it is not given, or made a task of the call. */
export function halfway(names: Names, resultType: string, why = 'this is not supported'): CallEnding {
  return unfinished(names, `the server answered "${names.quote(resultType)}" in place of a result; ${why}`);
}

/** The server itself says that it has not finished. */
export function unfinished(names: Names, reason: string): CallEnding {
  return names.reads === true ? refused(names, { code: 'TOOL_REFUSED', reason }) : unknown(names, reason);
}

/** Servers of older SDKs report a result that broke their own output schema as -32602 too, after the tool has run. */
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
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  };
}

/** Not "not sent", which would be tried again: the rules of this worker forbid it, and will until somebody changes something. */
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
    ...(received === undefined ? {} : { bytes: received }),
  };
}
