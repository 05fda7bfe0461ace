/** Which answers prove that a server's transport refused a request for its session or version, and which do not (INV-X1). */
import { describe, expect, test } from '@jest/globals';
import { SdkError, SdkErrorCode, SdkHttpError } from '@modelcontextprotocol/client';
import type { Trace } from '../../../../activities/mcp/classify-failure.ts';
import { isSessionRefusal } from '../../../../activities/mcp/session-refusal.ts';

const SESSION = { sessionId: 'session-1' };

function refused(status: number, text: unknown): Trace {
  const error = new SdkHttpError(SdkErrorCode.ClientHttpNotImplemented, '', { status, statusText: '', text });
  return { kind: 'failed', error, stopped: undefined, reached: true, exchange: { status } };
}

const rpc = (message: string, code = -32_000, id: unknown = null): string =>
  JSON.stringify({ jsonrpc: '2.0', id, error: { code, message } });

describe('the words of transports', () => {
  test.each([
    ['TypeScript, Kotlin', 404, rpc('Session not found', -32_001)],
    ['Python', 404, rpc('Session not found', -32_600)],
    ['Python', 404, rpc('Not Found: Session has been terminated', -32_600, 'server-error')],
    ['Python', 404, rpc('Not Found: Invalid or expired session ID', -32_600)],
    ['C#, which repeats the id', 404, rpc('Session not found', -32_001, 7)],
    ['Go', 404, 'session not found\n'],
    ['Rust', 404, 'Not Found: Session not found'],
    ['PHP', 404, rpc('Session not found or has expired.', -32_600)],
    ['Java', 404, JSON.stringify({ cause: null, jsonRpcError: null, message: 'Session not found: session-1' })],
    ['TypeScript, Kotlin', 400, rpc('Bad Request: Server not initialized')],
    ['TypeScript, Kotlin', 400, rpc('Bad Request: Mcp-Session-Id header is required')],
    ['Kotlin', 400, rpc('Bad Request: No valid session ID provided')],
    ['earlier Python', 400, 'Bad Request: No valid session ID provided'],
    ['Python', 400, rpc('Bad Request: Missing session ID', -32_600)],
    ['Ruby', 400, rpc('Missing session ID', -32_600)],
    ['PHP', 400, rpc('A valid session id is REQUIRED for non-initialize requests.', -32_600)],
    [
      'C#',
      400,
      rpc(
        'Bad Request: A new session can only be created by an initialize request. Include a valid Mcp-Session-Id header for non-initialize requests.',
      ),
    ],
    ['C#', 400, rpc("Bad Request: The MCP-Protocol-Version header value '2026-07-28' is not supported.")],
    [
      'TypeScript',
      400,
      rpc('Bad Request: Unsupported protocol version: 2026-07-28 (supported versions: 2025-11-25, x)'),
    ],
    ['Python', 400, rpc('Bad Request: Unsupported protocol version: 1. Supported versions: 2024-11-05, 2025-11-25')],
    ['Go', 400, 'Bad Request: Unsupported protocol version (supported versions: 2025-06-18,2025-03-26)\n'],
    ['Rust', 400, 'Bad Request: Unsupported MCP-Protocol-Version: 2026-07-28'],
    ['any, to a request of another era', 400, rpc('in words of its own', -32_022, 7)],
  ])('%s: %i %s', (_, status, body) => {
    expect(isSessionRefusal(refused(status, body), SESSION)).toBe(true);
  });

  test('a lost session is proven only to a request that named one', () => {
    expect(isSessionRefusal(refused(404, rpc('Session not found')), {})).toBe(false);
    expect(isSessionRefusal(refused(400, rpc('Bad Request: Server not initialized')), {})).toBe(true);
  });

  test('an empty 404 is no word, but to a session that was kept', () => {
    expect(isSessionRefusal(refused(404, ''), SESSION)).toBe(false);
    expect(isSessionRefusal(refused(404, ''), { ...SESSION, kept: true })).toBe(true);
    expect(isSessionRefusal(refused(404, ''), { kept: true })).toBe(false);
    expect(isSessionRefusal(refused(404, null), { ...SESSION, kept: true })).toBe(false);
  });
});

describe('no proof', () => {
  test.each([
    [400, '{"error":"Your checkout session 77 was charged, but the receipt failed"}'],
    [404, '{"error":"Session not found"}'],
    [404, '{"message":"Session not found: session-1"}'],
    [404, rpc('Session not found: session-2')],
    [404, rpc('Checkout: Session not found')],
    [404, rpc('Session not found, and the order stays')],
    [400, rpc('Session not found')],
    [404, rpc('Bad Request: Server not initialized')],
    [400, rpc('the printer is not initialized')],
    [400, rpc('Bad Request: Unsupported protocol version: 3 of the form was sent all the same')],
    [500, rpc('Session not found')],
    [400, ''],
    [400, '"Bad Request: Server not initialized"'],
    [400, `${' '.repeat(70_000)}${rpc('Bad Request: Server not initialized', -32_000, 'x'.repeat(70_000))}`],
  ])('%i %s', (status, body) => {
    expect(isSessionRefusal(refused(status, body), { ...SESSION, kept: true })).toBe(false);
  });

  test('a version that is refused in an answer counts with the status of the transport, and no other', () => {
    const answered = (status: number | undefined, code = -32_022): Trace => ({
      kind: 'answered',
      answer: { kind: 'error', code, message: 'Unsupported protocol version: 2026-07-28' },
      status,
    });
    expect(isSessionRefusal(answered(400), {})).toBe(true);
    expect(isSessionRefusal(answered(200), {})).toBe(false);
    expect(isSessionRefusal(answered(undefined), {})).toBe(false);
    expect(isSessionRefusal(answered(400, -32_602), {})).toBe(false);
  });

  test('an error that is no HTTP status', () => {
    const error = new SdkError(SdkErrorCode.ConnectionClosed, 'Session not found');
    const trace: Trace = { kind: 'failed', error, stopped: 'lost', reached: true, exchange: { status: 404 } };
    expect(isSessionRefusal(trace, { ...SESSION, kept: true })).toBe(false);
  });
});
