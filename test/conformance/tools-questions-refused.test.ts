/**
 * Servers of MCP 2025-11-25 that ask in the middle of a call, and then say what otherwise proves that a call did not
 * run: a code or a status that is given before tools run. Whoever asks works on it (INV-X1, docs/adr/0040).
 */
import type { ServerResponse } from 'node:http';
import { afterEach, describe, expect, test } from '@jest/globals';
import type { CallEnding, ToolCall } from '../../activities/mcp/port.ts';
import { ProofKey } from '../../activities/tokens/proof-key.ts';
import { READ_RESOURCE } from '../../contracts/names.ts';
import { aCall, aConnection, aDefinition } from '../support/activities/tool-call.ts';
import {
  A_QUESTION,
  accepting,
  answerAt,
  declared,
  end,
  question,
  startAsking,
  toolServer,
} from '../support/servers/asking-server.ts';
import type { CallExchange, RawServer } from '../support/servers/raw-server.ts';

let server: RawServer;
afterEach(async () => await server.close());

async function start(...asked: Parameters<typeof startAsking>): Promise<void> {
  server = await startAsking(...asked);
}

const A_TOKEN = 'a-token-of-this-call';

async function call(fields: Partial<ToolCall>, binding?: ProofKey): Promise<CallEnding> {
  const tools = toolServer();
  const connection = aConnection({ url: server.url, accessToken: A_TOKEN, ...(binding && { binding }) });
  // What is known of a server lets a call be sent in a second session.
  await tools.list(connection, new AbortController().signal);
  return await tools.call(connection, aCall({ timeoutMs: 5_000, ...fields }));
}

const UNKNOWN = { kind: 'unknown', code: 'OUTCOME_UNKNOWN' };

function expectOnce(): void {
  expect(server.executions()).toBe(1);
  expect(server.seen.filter(({ rpcMethod }) => rpcMethod === 'tools/call')).toHaveLength(1);
}

describe('what a question was answered with comes back as the answer to the call: unknown (INV-X1)', () => {
  /** As the low-level server of the v1 SDK does, whose handler lets the error through. */
  const passingOn = (method: string, params: object) => (exchange: CallExchange) => {
    exchange.execute();
    exchange.stream(question(7, params, method));
    void answerAt(server, 7).then(({ error }) => {
      exchange.response.end(`data: ${JSON.stringify({ jsonrpc: '2.0', id: exchange.id, error })}\n\n`);
    });
  };

  test.each<[string, string, object, number]>([
    [
      'a page that nobody is shown',
      'elicitation/create',
      { mode: 'url', message: 'x', url: 'http://a.example/' },
      -32_602,
    ],
    ['sampling', 'sampling/createMessage', { messages: [], maxTokens: 1 }, -32_601],
    ['roots', 'roots/list', {}, -32_601],
    ['a method that nobody knows', 'bank/transfer', {}, -32_601],
  ])('%s', async (_, method, params, code) => {
    await start(passingOn(method, params));
    expect(await call({ people: accepting })).toMatchObject({
      ...UNKNOWN,
      message: expect.stringContaining(`JSON-RPC error ${code}`),
    });
    expectOnce();
  });

  test('also of a server that was not told that it may ask', async () => {
    await start(passingOn('elicitation/create', A_QUESTION));
    expect(await call({})).toMatchObject(UNKNOWN);
    expectOnce();
  });
});

test('a result in the words by which the v1 SDK says that it has no such tool is the tool’s own, after a question', async () => {
  await start((exchange) => {
    exchange.execute();
    exchange.stream(question(7));
    const content = [{ type: 'text', text: 'MCP error -32602: Tool write_file not found' }];
    void answerAt(server, 7).then(() => {
      exchange.response.end(`data: ${exchange.answerWith({ content, isError: true })}\n\n`);
    });
  });
  expect(await call({ people: accepting })).toMatchObject({ kind: 'executed', isError: true });
  expectOnce();
});

describe('a call that is turned away by its status after it asked on the standing stream: unknown, and sent once (INV-X1)', () => {
  const wantsNonce = { 'www-authenticate': 'DPoP error="use_dpop_nonce"', 'dpop-nonce': 'n-1' };

  test.each<[string, number, string, Record<string, string>?]>([
    ['404, as where a session is lost', 404, 'Session not found'],
    ['400, as a server of the v1 SDK says it', 400, 'Bad Request: Server not initialized'],
    ['401', 401, ''],
    ['401 that asks for a nonce, to a token that is bound to a key', 401, '', wantsNonce],
    ['403', 403, 'no'],
    ['429', 429, ''],
    ['503 with Retry-After', 503, ''],
  ])('%s', async (_, status, body, headers = {}) => {
    let standing: ServerResponse | undefined;
    await start(
      (exchange) => {
        exchange.execute();
        standing?.write(question(7));
        void answerAt(server, 7).then(() => exchange.status(status, { 'retry-after': '1', ...headers }, body));
      },
      {
        intercept: (request, response) => {
          if (request.method !== 'GET') return false;
          response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
          standing = response;
          return true;
        },
      },
    );
    const binding = 'dpop-nonce' in headers ? await ProofKey.create() : undefined;
    const ending = await call({ people: accepting }, binding);
    expect(ending).toMatchObject(UNKNOWN);
    // A delay would have it sent again.
    expect(ending).not.toHaveProperty('retryAfterMs');
    expectOnce();
  });
});

test('a ping proves nothing: what is refused after it did not run', async () => {
  await start((exchange) => {
    exchange.stream(question(7, {}, 'ping'));
    const error = { code: -32_602, message: 'Invalid arguments' };
    void answerAt(server, 7).then(() => {
      exchange.response.end(`data: ${JSON.stringify({ jsonrpc: '2.0', id: exchange.id, error })}\n\n`);
    });
  });
  expect(await call({ people: accepting })).toMatchObject({ kind: 'refused', code: 'TOOL_REFUSED' });
  expect(server.executions()).toBe(0);
});

describe('a server whose operator lets it ask, and that is called by whoever asks nobody', () => {
  test.each<[string, Partial<ToolCall>]>([
    ['a task', { task: { ttlMs: 60_000, only: false } }],
    ['a read', { definition: aDefinition({ name: READ_RESOURCE }), arguments: { uri: 'file:///a' } }],
  ])('%s: it is told what it was told as it listed, and what it asks is refused', async (_, fields) => {
    const asking = (exchange: CallExchange): void => {
      exchange.stream(question(7));
      void answerAt(server, 7).then(() => end(exchange, 'done'));
    };
    await start(asking, { onRead: asking });
    await toolServer().call(aConnection({ url: server.url, asks: true }), aCall(fields));
    expect(declared(server)).toEqual([{ elicitation: { form: {}, url: {} } }]);
    expect(await answerAt(server, 7)).toMatchObject({ error: { code: -32_601 } });
  });
});
