/**
 * Servers of MCP 2025-11-25 whose calls end while a question is open, or that turn an answer away: what is known of the call
 * itself (docs/adr/0040).
 */
import { afterEach, describe, expect, test } from '@jest/globals';
import type { AskPeople, TokenRenewal, ToolCall } from '../../activities/mcp/port.ts';
import {
  accepting,
  answerAt,
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
import type { CallExchange, RawServer } from '../support/mcp-raw-server.ts';

let server: RawServer;
afterEach(async () => await server.close());

async function start(...asked: Parameters<typeof startAsking>): Promise<void> {
  server = await startAsking(...asked);
}

function call(fields: Partial<ToolCall>, connection: object = {}) {
  return toolServer().call(aConnection({ url: server.url, ...connection }), aCall(fields));
}

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
        return Promise.resolve({ accessToken: other });
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
    await start(
      (exchange) => {
        exchange.stream(question(1));
        void why.promise.then(() => end(exchange, 'never mind'));
      },
      {
        intercept: (_, response, rpcMethod, id) => {
          if (rpcMethod !== undefined || id !== 1) return false;
          response.writeHead(401).end();
          return true;
        },
      },
    );
    const people: AskPeople = (_requests, _signal, said) => {
      void said?.then(why.resolve);
      return Promise.resolve(YES);
    };
    expect(await call({ people }, { accessToken: 'token-of-the-call' })).toMatchObject({ kind: 'executed' });
    expect(await why.promise).toBe('TOOL_UNAUTHORIZED');
  });

  test('and gives a result all the same: it counts', async () => {
    await start(
      (exchange) => {
        exchange.stream(question(1));
        void answerAt(server, 1).then(() => end(exchange, 'never mind'));
      },
      {
        intercept: (_, response, rpcMethod, id) => {
          if (rpcMethod !== undefined || id !== 1) return false;
          response.writeHead(500).end();
          return true;
        },
      },
    );
    expect(await call({ people: accepting })).toMatchObject({ kind: 'executed' });
  });
});
