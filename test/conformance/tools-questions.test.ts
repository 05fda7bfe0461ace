/**
 * Servers of MCP 2025-11-25 that ask in the middle of a call, on a wire that misbehaves: what is declared, what is
 * asked, and what is answered (docs/adr/0040).
 */
import type { ServerResponse } from 'node:http';
import { afterEach, describe, expect, test } from '@jest/globals';
import { startDeadline } from '../../activities/mcp/tool-call.ts';
import type { AskPeople, ToolCall } from '../../activities/mcp/port.ts';
import {
  A_QUESTION,
  accepting,
  answerAt,
  declared,
  end,
  event,
  later,
  question,
  somebody,
  startAsking,
  toolServer,
  YES,
} from '../support/asking-server.ts';
import { aCall, aConnection } from '../support/mcp-call.ts';
import { type RawServer, type RawServerScript, startRawServer } from '../support/mcp-raw-server.ts';

let server: RawServer;
afterEach(async () => await server.close());

async function start(...asked: Parameters<typeof startAsking>): Promise<void> {
  server = await startAsking(...asked);
}

function call(fields: Partial<ToolCall>, connection: object = {}) {
  return toolServer().call(aConnection({ url: server.url, ...connection }), aCall(fields));
}

describe('what a server is told', () => {
  test('one of 2025-11-25: that it may ask, where the call may ask people, and nothing else', async () => {
    await start(({ result }) => result({ content: [] }));
    await call({ people: accepting });
    await call({});
    expect(declared(server)).toEqual([{ elicitation: { form: {}, url: {} } }, {}]);
  });

  test('one of 2026-07-28: to the letter what it is told where nobody can be asked', async () => {
    const seenWith = async (fields: Partial<ToolCall>): Promise<unknown> => {
      server = await startRawServer({ era: 'modern' });
      const ending = await call(fields);
      expect(ending).toMatchObject({ kind: 'executed' });
      const told = server.seen.map(({ rpcMethod, headers, params }) => ({
        rpcMethod,
        params,
        headers: Object.keys(headers).toSorted(),
      }));
      await server.close();
      // One of its own in each session.
      return JSON.stringify(told).replace(/"progressToken":\d+/, '');
    };
    const told = await seenWith({ people: accepting });
    expect(told).toEqual(await seenWith({}));
    expect(told).toContain('clientCapabilities":{}');
  });

  test('a list: that it may ask, where the operator says so of the server; such servers offer some tools only then', async () => {
    await start(() => undefined);
    const { signal } = new AbortController();
    await toolServer().list(aConnection({ url: server.url, asks: true }), signal);
    await toolServer().list(aConnection({ url: server.url }), signal);
    expect(declared(server)).toEqual([{ elicitation: { form: {}, url: {} } }, {}]);
  });
});

describe('a question', () => {
  test('is put before people, and the server gets their answer on a request of its own', async () => {
    await start((exchange) => {
      exchange.stream(question('q-1'));
      void answerAt(server, 'q-1').then(({ result }) => end(exchange, result));
    });
    const { people, asked, answer } = somebody();
    const ending = call({ people });
    const { requests } = await asked;
    expect(requests).toEqual({
      question: {
        kind: 'form',
        message: 'Deploy to production?',
        fields: { sure: { type: 'boolean' } },
        required: ['sure'],
        hash: expect.stringMatching(/^[0-9a-f]{64}$/),
      },
    });
    expect(server.executions()).toBe(0);
    answer();
    expect(await ending).toMatchObject({ kind: 'executed', result: { content: [{ text: JSON.stringify(YES) }] } });
    expect(server.seen.filter(({ rpcMethod }) => rpcMethod === 'tools/call')).toHaveLength(1);
    // The answer is no call: a server would take it for the call under its key.
    const { headers } = await server.sees((seen) => seen.answer !== undefined);
    expect(headers['idempotency-key']).toBeUndefined();
  });

  test('is asked once where a resumed stream brings it again', async () => {
    let times = 0;
    const people: AskPeople = () => {
      times += 1;
      return resumed.promise.then(() => YES);
    };
    const resumed = later<undefined>();
    const asks = event({ id: 'q-1', method: 'elicitation/create', params: A_QUESTION }, 'e-1');
    let calling: unknown;
    await start(
      ({ id, stream, response }) => {
        calling = id;
        stream(asks);
        setImmediate(() => response.end());
      },
      {
        intercept: (request, response) => {
          if (request.method !== 'GET' || request.headers['last-event-id'] === undefined) return false;
          response.writeHead(200, { 'content-type': 'text/event-stream' });
          response.write(asks);
          resumed.resolve(undefined);
          void answerAt(server, 'q-1').then(() => response.end(event({ id: calling, result: { content: [] } }, 'e-2')));
          return true;
        },
      },
    );
    expect(await call({ people })).toMatchObject({ kind: 'executed' });
    expect(times).toBe(1);
  });

  test('stops the time of the call, which goes on with the answer', async () => {
    await start((exchange) => {
      exchange.stream(question(1));
      void answerAt(server, 1).then(({ result }) => end(exchange, result));
    });
    const timeoutMs = 300;
    const people: AskPeople = async () => {
      // Another deadline of the same time, that began later and that nobody holds, is over first.
      const unheld = later<void>();
      startDeadline(timeoutMs, () => unheld.resolve());
      await unheld.promise;
      return YES;
    };
    expect(await call({ people, timeoutMs })).toMatchObject({ kind: 'executed' });
  });

  test('answered: what is left of the time ends a call that gets no result', async () => {
    await start(({ stream }) => stream(question(1)));
    expect(await call({ people: accepting, timeoutMs: 300 })).toMatchObject({
      kind: 'unknown',
      message: expect.stringContaining('no answer came before the deadline'),
    });
  });

  test('shows nothing that the server was given: token and session are taken out (INV-S1)', async () => {
    const token = 'canary-token-5f0c7a1e9b';
    await start(
      (exchange) => {
        const session = String(exchange.request.headers['mcp-session-id']);
        const message = `Is ${token} yours, or ${Buffer.from(token).toString('base64')}, or ${session}?`;
        exchange.stream(question(1, { ...A_QUESTION, message }));
        void answerAt(server, 1).then(({ result }) => end(exchange, result));
      },
      {
        intercept: (_, response, rpcMethod) => {
          if (rpcMethod === 'initialize') response.setHeader('mcp-session-id', 'canary-session-77d1e0');
          return false;
        },
        sessions: false,
      },
    );
    const { people, asked, answer } = somebody();
    const ending = call({ people }, { accessToken: token });
    const text = JSON.stringify((await asked).requests);
    answer();
    await ending;
    expect(text).toContain('yours');
    for (const secret of [token, Buffer.from(token).toString('base64'), 'canary-session-77d1e0'])
      expect(text).not.toContain(secret);
  });
});

describe('the standing stream of a session, on which servers of the v1 SDK ask', () => {
  /** Takes the GET for it. */
  const taking =
    (onStream: (response: ServerResponse) => void): RawServerScript['intercept'] & object =>
    (request, response) => {
      if (request.method !== 'GET') return false;
      onStream(response);
      return true;
    };

  test('is open before the call leaves, and a question on it is one of the call', async () => {
    let standing: ServerResponse | undefined;
    await start(
      (exchange) => {
        exchange.stream('');
        standing?.write(question('s-1'));
        void answerAt(server, 's-1').then(({ result }) => end(exchange, result));
      },
      {
        intercept: taking((response) => {
          response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
          standing = response;
        }),
      },
    );
    expect(await call({ people: accepting, timeoutMs: 5_000 })).toMatchObject({
      kind: 'executed',
      result: { content: [{ text: JSON.stringify(YES) }] },
    });
  });

  test.each<[string, (response: ServerResponse) => void]>([
    ['refused', (response) => response.writeHead(405).end()],
    ['broken', (response) => response.destroy()],
    ['out of order', (response) => response.writeHead(500).end()],
    ['never answered', () => undefined],
  ])('%s, the call leaves without it', async (_, onStream) => {
    await start(({ result }) => result({ content: [] }), { intercept: taking(onStream) });
    expect(await call({ people: accepting })).toMatchObject({ kind: 'executed' });
    expect(server.seen.filter(({ rpcMethod }) => rpcMethod === 'tools/call')).toHaveLength(1);
  });

  test('is not opened where nobody can be asked, nor for a list', async () => {
    await start(({ result }) => result({ content: [] }));
    await call({});
    await toolServer().list(aConnection({ url: server.url, asks: true }), new AbortController().signal);
    expect(server.seen.filter(({ httpMethod }) => httpMethod === 'GET')).toEqual([]);
    await call({ people: accepting });
    expect(server.seen.filter(({ httpMethod }) => httpMethod === 'GET')).toHaveLength(1);
  });
});

describe('what is not put before people', () => {
  const HOSTILE: readonly (readonly [string, string, object, number])[] = [
    ['sampling', 'sampling/createMessage', { messages: [], maxTokens: 1 }, -32_601],
    ['roots', 'roots/list', {}, -32_601],
    ['a method that nobody knows', 'bank/transfer', {}, -32_601],
    [
      'a page that is not https',
      'elicitation/create',
      { mode: 'url', message: 'x', url: 'javascript:alert(1)' },
      -32_602,
    ],
    [
      'a page with a password',
      'elicitation/create',
      { mode: 'url', message: 'x', url: 'https://a:b@c.example/' },
      -32_602,
    ],
    ['a form that is none', 'elicitation/create', { message: 'x', requestedSchema: { type: 'array' } }, -32_602],
    ['no parameters', 'elicitation/create', {}, -32_602],
    ['a text without end', 'elicitation/create', { ...A_QUESTION, message: 'x'.repeat(40_000) }, -32_602],
    ['what nests without end', 'elicitation/create', { ...A_QUESTION, more: nested(500) }, -32_602],
  ];

  test.each(HOSTILE)('%s', async (_, method, params, code) => {
    await start((exchange) => {
      exchange.stream(question(7, params, method));
      void answerAt(server, 7).then(({ error }) => end(exchange, error));
    });
    let isAsked = false;
    const people: AskPeople = () => {
      isAsked = true;
      return Promise.resolve(YES);
    };
    const ending = await call({ people });
    expect(ending).toMatchObject({ kind: 'executed' });
    expect(await answerAt(server, 7)).toMatchObject({ error: { code } });
    expect(isAsked).toBe(false);
  });

  test('a question of a server that was not told that it may ask', async () => {
    await start((exchange) => {
      exchange.stream(question(7));
      void answerAt(server, 7).then(({ error }) => end(exchange, error));
    });
    await call({});
    expect(await answerAt(server, 7)).toMatchObject({ error: { code: -32_601 } });
  });
});

function nested(levels: number): unknown {
  let value: unknown = 'x';
  for (let level = 0; level < levels; level += 1) value = [value];
  return value;
}
