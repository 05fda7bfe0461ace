/**
 * Tells whether a server's transport refused a request for its session or its protocol version, before it looked at
 * what was asked. A new session may then carry the same request: the server may be of another era than assumed, or
 * restarted, or a replica that does not share sessions (docs/adr/0090).
 *
 * It does not own what else a failure proves (`classify-failure.ts`), or how often a session is opened
 * (`mcp-server.ts`).
 * 1. A call is sent again after it (INV-X1), so only proof counts: the status, and the whole of the words, with which
 *    an SDK's transport answers before it reads the method. Tools speak of sessions of their own, and servers pass on
 *    status and words of what they call.
 * 2. A lost session (404) is proven only to a request that named one.
 * 3. An empty 404 is no such word. It proves that a session is gone only of one that was kept without a call, as MCP
 *    2025-11-25 has it ("Session Management"): it may have ended meanwhile.
 */
import { isFields } from '../../domain/shapes/inputs.ts';
import { bodyOf, statusOf, type Trace } from './classify-failure.ts';

export interface NamedSession {
  readonly sessionId?: string | undefined;
  /** It was kept since an earlier call. */
  readonly kept?: boolean;
}

export function isSessionRefusal(trace: Trace, { sessionId, kept = false }: NamedSession): boolean {
  // In an answer with another status the code is passed on by the tool: the spec has the transport answer with 400.
  if (trace.kind === 'answered')
    return trace.answer.kind === 'error' && trace.answer.code === UNSUPPORTED_VERSION && trace.status === 400;
  const status = statusOf(trace.error);
  const body = bodyOf(trace.error)?.trim();
  if (body === undefined || body.length > LONGEST) return false;
  if (status === 400) {
    const { code, message } = wordsIn(body);
    return code === UNSUPPORTED_VERSION || WITHOUT_SESSION.has(message) || OTHER_VERSION.test(message);
  }
  if (status !== 404 || sessionId === undefined) return false;
  if (body === '') return kept;
  const { message } = wordsIn(body);
  return SESSION_GONE.has(message) || message === `${SESSION_GONE_BY_NAME}${sessionId}`;
}

/** UTF-16 units. The error of the Java SDK comes with a stack trace. */
const LONGEST = 65_536;

/** MCP 2026-07-28, "Error Codes". */
const UNSUPPORTED_VERSION = -32022;

/** With status 404: the session that the request named is not, or no longer, known. */
const SESSION_GONE: ReadonlySet<string> = new Set([
  'Session not found', // TypeScript, Python, C#, Kotlin
  'session not found', // Go
  'Not Found: Session not found', // Rust
  'Not Found: Session has been terminated', // Python
  'Not Found: Invalid or expired session ID', // Python
  'Session not found or has expired.', // PHP
]);
const SESSION_GONE_BY_NAME = 'Session not found: '; // Java

/** With status 400: the server knows no such session. Servers of 2025-11-25 look at this before the version. */
const WITHOUT_SESSION: ReadonlySet<string> = new Set([
  'Bad Request: Server not initialized', // TypeScript, Kotlin
  'Bad Request: Mcp-Session-Id header is required', // TypeScript, Kotlin
  'Bad Request: No valid session ID provided', // Python before it had 404, Kotlin, examples of TypeScript
  'Bad Request: Missing session ID', // Python
  'Session ID required in mcp-session-id header', // Java
  'Missing session ID', // Ruby
  'A valid session id is REQUIRED for non-initialize requests.', // PHP
  'Bad Request: A new session can only be created by an initialize request. Include a valid Mcp-Session-Id header for non-initialize requests.', // C#
]);

/** With status 400: C#; TypeScript, Python, Go and Kotlin, then Rust, each with or without the versions. */
const OTHER_VERSION =
  /^Bad Request: The MCP-Protocol-Version header value '[\w-]+' is not supported\.$|^Bad Request: Unsupported (?:protocol version|MCP-Protocol-Version)(?:: [\w-]+)?(?:\.? \(?[Ss]upported versions: [\w-]+(?:, ?[\w-]+)*\)?)?$/;

/**
 * Reads what a refusal says: a JSON-RPC error, the exception of the Java SDK, or a text. Any other JSON is not a
 * transport's.
 */
function wordsIn(body: string): { readonly code?: unknown; readonly message: string } {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return { message: body };
  }
  if (!isFields(value)) return NOTHING;
  const said = value['jsonrpc'] === '2.0' ? value['error'] : 'jsonRpcError' in value ? value : undefined;
  return isFields(said) && typeof said['message'] === 'string'
    ? { code: said['code'], message: said['message'] }
    : NOTHING;
}

const NOTHING = { message: '' };
