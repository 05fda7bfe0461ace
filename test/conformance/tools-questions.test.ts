/**
 * Servers of MCP 2025-11-25 that ask in the middle of a call, on a wire that misbehaves: what is declared, what is
 * asked, what is answered, and what is known of a call that ends meanwhile (docs/adr/0040). One file, because an ending
 * is read beside the question that was open.
 */
import type { ServerResponse } from 'node:http';
import { afterEach, describe, expect, test } from '@jest/globals';
import type { AskPeople, TokenRenewal, ToolCall } from '../../activities/mcp/port.ts';
import { startDeadline } from '../../activities/mcp/mcp-server.ts';
import { aCall, aConnection } from '../support/activities/tool-call.ts';
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
} from '../support/servers/asking-server.ts';
import {
  type CallExchange,
  type RawServer,
  type RawServerScript,
  startRawServer,
} from '../support/servers/raw-server.ts';

let server: RawServer;
afterEach(async () => await server.close());

async function start(...asked: Parameters<typeof startAsking>): Promise<void> {
  server = await startAsking(...asked);
}

function call(fields: Partial<ToolCall>, connection: object = {}) {
  return toolServer().call(aConnection({ url: server.url, ...connection }), aCall(fields));
}

/** Asks, and says in its result what it was answered. */
function asking(id: string | number): (exchange: CallExchange) => void {
  return (exchange) => {
    exchange.stream(question(id));
    void answerAt(server, id).then(({ result }) => end(exchange, result));
  };
}

/** Turns the answer to the first question away with this status. */
function refusingAnswers(status: number): Pick<RawServerScript, 'intercept'> {
  return {
    intercept: (_, response, rpcMethod, id) => {
      if (rpcMethod !== undefined || id !== 1) return false;
      response.writeHead(status).end();
      return true;
    },
  };
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
    await start(asking('q-1'));
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
    await start(asking(1));
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
    ['a form that is none', 'elicitation/create', { message: 'x', requestedSchema: { type: 'array' } }, -32_602],
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

// Calls that end while a question is open, and servers that turn an answer away: what is known of the call itself.

describe('a call that ends while its question is open', () => {
  test('the server is gone: unknown, and nobody waits for an answer', async () => {
    const exchange = later<CallExchange>();
    await start((each) => {
      each.stream(question(1));
      exchange.resolve(each);
    });
    const { people, asked } = somebody();
    const ending = call({ people });
    const { signal } = await asked;
    (await exchange.promise).reset();
    expect(await ending).toMatchObject({ kind: 'unknown', message: expect.stringContaining('the connection ended') });
    expect(signal.aborted).toBe(true);
  });

  test('it is cancelled: unknown, and nobody waits for an answer', async () => {
    await start(({ stream }) => stream(question(1)));
    const { people, asked } = somebody();
    const cancel = new AbortController();
    const ending = call({ people, signal: cancel.signal });
    const { signal } = await asked;
    cancel.abort();
    expect(await ending).toMatchObject({ kind: 'unknown', message: expect.stringContaining('cancelled') });
    expect(signal.aborted).toBe(true);
  });

  test('its worker goes: the server hears nothing at all, neither an answer nor a farewell', async () => {
    await start(({ stream }) => stream(question(1)));
    const { people, asked, answer } = somebody();
    const cancel = new AbortController();
    const ending = call({ people, signal: cancel.signal, isHandedOn: () => true });
    await asked;
    const before = server.seen.length;
    cancel.abort();
    expect(await ending).toMatchObject({ kind: 'unknown' });
    answer();
    const { signal } = new AbortController();
    await toolServer().list(aConnection({ url: server.url }), signal);
    expect(server.seen.slice(before).filter(({ answer: said }) => said !== undefined)).toEqual([]);
  });

  test('the result comes without the answer: it counts, and nobody waits', async () => {
    const exchange = later<CallExchange>();
    await start((each) => {
      each.stream(question(1));
      exchange.resolve(each);
    });
    const { people, asked } = somebody();
    const ending = call({ people });
    const { signal } = await asked;
    end(await exchange.promise, 'done without you');
    expect(await ending).toMatchObject({ kind: 'executed', result: { content: [{ text: '"done without you"' }] } });
    expect(signal.aborted).toBe(true);
  });
});

test('a question that the server takes back stops nothing: nobody waits, the next one is asked, and the time of the call goes on', async () => {
  await start(({ stream, response }) => {
    stream(question(7));
    void firstAsked.promise.then(() => {
      response.write(event({ method: 'notifications/cancelled', params: { requestId: 7, reason: 'timeout' } }));
      response.write(question(8));
    });
  });
  const firstAsked = later<undefined>();
  const open = new Set<AbortSignal>();
  let times = 0;
  const people: AskPeople = async (_, signal) => {
    times += 1;
    if (times === 2) return YES;
    open.add(signal);
    firstAsked.resolve(undefined);
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    open.delete(signal);
    return { action: 'cancel' };
  };
  expect(await call({ people, timeoutMs: 1_000 })).toMatchObject({
    kind: 'unknown',
    message: expect.stringContaining('no answer came before the deadline'),
  });
  expect([times, open.size]).toEqual([2, 0]);
  expect(await answerAt(server, 8)).toMatchObject({ result: YES });
  expect(server.seen.filter(({ answer }) => answer?.id === 7)).toEqual([]);
});

test('cancelled before the standing stream is open, it was not sent', async () => {
  const cancel = new AbortController();
  await start(({ result }) => result({ content: [] }), {
    intercept: (request) => {
      if (request.method !== 'GET') return false;
      cancel.abort();
      return true;
    },
  });
  expect(await call({ people: accepting, signal: cancel.signal })).toMatchObject({ kind: 'not-sent' });
  expect(server.seen.filter(({ rpcMethod }) => rpcMethod === 'tools/call')).toEqual([]);
});

describe('an answer that the server turns away', () => {
  const FAULTS = [
    ['404, as where a session is lost', 404],
    ['400, as a server of the v1 SDK says it', 400],
    ['401', 401],
    ['429', 429],
    ['503', 503],
  ] as const;

  test.each(FAULTS)('%s: the call is not sent again, nor taken for refused (INV-X1)', async (_, status) => {
    const exchange = later<CallExchange>();
    await start(
      (each) => {
        each.execute();
        each.stream(question(1));
        exchange.resolve(each);
      },
      {
        intercept: (request, response, rpcMethod, id) => {
          if (request.method !== 'POST' || rpcMethod !== undefined || id !== 1) return false;
          response.writeHead(status, { 'retry-after': '1' });
          response.end('{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"No valid session ID provided"}}');
          void exchange.promise.then(({ reset }) => reset());
          return true;
        },
      },
    );
    expect(await call({ people: accepting }, { accessToken: 'a-token-of-this-call' })).toEqual({
      kind: 'unknown',
      code: 'OUTCOME_UNKNOWN',
      message: expect.stringContaining('the connection ended without an answer'),
      bytes: expect.any(Number),
      // Of the connection that broke.
      fault: 'failure',
    });
    expect(server.executions()).toBe(1);
    expect(server.seen.filter(({ rpcMethod }) => rpcMethod === 'tools/call')).toHaveLength(1);
  });

  test('for a token that has ended while people thought: it is given with another one, and said nowhere (INV-S1)', async () => {
    let taken = 'token-of-the-call';
    const other = 'token-of-the-answer';
    await start(
      (exchange) => {
        exchange.stream(question(1));
        void answerAt(server, 1).then(async () => {
          const { headers } = await server.sees((seen) => seen.headers.authorization === `Bearer ${other}`);
          end(exchange, headers.authorization);
        });
      },
      {
        intercept: (request, response) => {
          if (request.headers.authorization === `Bearer ${taken}` || request.method === 'GET') return false;
          response.writeHead(401, { 'www-authenticate': 'Bearer error="invalid_token"' }).end();
          return true;
        },
      },
    );
    const minted: (string | undefined)[] = [];
    const renewal: TokenRenewal = {
      mint: (refused) => {
        minted.push(refused);
        return Promise.resolve(other);
      },
      secrets: () => (minted.length === 0 ? [] : [other]),
    };
    const failed: unknown[] = [];
    const people: AskPeople = (_requests, _signal, said) => {
      taken = other;
      void said?.then((code) => failed.push(code));
      return Promise.resolve(YES);
    };
    const ending = await call({ people }, { accessToken: 'token-of-the-call', renewal });
    expect(ending).toMatchObject({ kind: 'executed', result: { content: [{ text: '"Bearer [redacted]"' }] } });
    expect(minted).toEqual(['token-of-the-call']);
    expect(failed).toEqual([undefined]);
    expect(server.seen.filter(({ rpcMethod }) => rpcMethod === 'tools/call')).toHaveLength(1);
  });

  test('whoever asked people hears that it was, and why', async () => {
    const why = later<unknown>();
    await start((exchange) => {
      exchange.stream(question(1));
      void why.promise.then(() => end(exchange, 'never mind'));
    }, refusingAnswers(401));
    const people: AskPeople = (_requests, _signal, said) => {
      void said?.then(why.resolve);
      return Promise.resolve(YES);
    };
    expect(await call({ people }, { accessToken: 'token-of-the-call' })).toMatchObject({ kind: 'executed' });
    expect(await why.promise).toBe('TOOL_UNAUTHORIZED');
  });

  test('and gives a result all the same: it counts', async () => {
    await start(asking(1), refusingAnswers(500));
    expect(await call({ people: accepting })).toMatchObject({ kind: 'executed' });
  });
});
