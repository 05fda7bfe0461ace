/** What is learned from HTTP exchanges, and which token a request takes with it. */
import { beforeEach, describe, expect, jest, test } from '@jest/globals';
import { renewalOf } from '../../../../activities/discovery/access.ts';
import { capResponse, type Egress, isEventStream } from '../../../../activities/egress/fetch.ts';
import { scrubberFor } from '../../../../activities/mcp/classify-result.ts';
import {
  IDEMPOTENCY_HEADER,
  openWire,
  renewedFetch,
  SessionTransport,
  type WireOptions,
} from '../../../../activities/mcp/session.ts';
import type { MintedToken, TokenBroker, TokenRequest } from '../../../../activities/tokens/port.ts';
import { egressBy, loopbackEgress } from '../../../support/egress.ts';
import { until } from '../../../support/until.ts';
import { startRawServer } from '../../../support/servers/raw-server.ts';
import { RUN } from '../../../support/activities/tool-activities.ts';
import { aConnection } from '../../../support/activities/tool-call.ts';

describe('what is learned from HTTP exchanges, and how bodies are bounded', () => {
  const NOW = Date.parse('2026-11-21T12:00:00Z');
  const CALL = { method: 'POST', headers: { [IDEMPOTENCY_HEADER]: 'k' } };

  /** A wire to a server of the test. */
  function wireTo(url = 'http://x.test', over: Partial<WireOptions> = {}) {
    return openWire({ egress: loopbackEgress(), server: { name: 'tickets', url }, ...over });
  }

  function answering(...responses: readonly Response[]): Egress {
    const left = [...responses];
    return egressBy(() => {
      const next = left.shift();
      return next === undefined ? Promise.reject(new Error('no more answers')) : Promise.resolve(next);
    });
  }

  async function exchangeAfter(headers: Readonly<Record<string, string>>): Promise<number | undefined> {
    const clock = jest.spyOn(Date, 'now').mockReturnValue(NOW);
    const wire = wireTo(undefined, { egress: answering(new Response('', { status: 429, headers })) });
    await wire.fetch('http://x.test', CALL);
    clock.mockRestore();
    return wire.exchange().retryAfterMs;
  }

  describe('Retry-After (RFC 9110 §10.2.3)', () => {
    test.each([
      ['7', 7_000],
      ['0', 0],
      ['Sat, 21 Nov 2026 12:01:00 GMT', 60_000],
      ['Sat, 21 Nov 2026 11:00:00 GMT', 0],
      ['99999999999', 86_400_000],
      ['soon', undefined],
      ['', undefined],
      ['-5', undefined],
      ['1.5', undefined],
    ])('"%s" is %s ms', async (value, ms) => {
      expect(await exchangeAfter({ 'retry-after': value })).toBe(ms);
    });

    test('without it nothing is said', async () => {
      expect(await exchangeAfter({})).toBeUndefined();
    });
  });

  describe('the exchange of the call', () => {
    test('is told to its own call alone, also where the connection is used after a rest', async () => {
      const told: string[] = [];
      const wire = wireTo(undefined, { egress: answering(new Response(''), new Response('')) });
      wire.onReached(() => told.push('one'));
      await wire.fetch('http://x.test', CALL);
      wire.rest();
      await wire.fetch('http://x.test', { method: 'DELETE' });
      expect(told).toEqual(['one']);
    });

    test('what comes after the call does not blur it', async () => {
      const wire = wireTo(undefined, {
        egress: answering(
          new Response('', { status: 200 }),
          new Response('', { status: 503 }),
          new Response('', { status: 202 }),
        ),
      });
      await wire.fetch('http://x.test', { method: 'POST' });
      expect(wire.exchange().status).toBe(200);
      await wire.fetch('http://x.test', CALL);
      await wire.fetch('http://x.test', { method: 'POST' });
      expect(wire.exchange().status).toBe(503);
    });

    test('a request that began to be written counts as one that reached the server', async () => {
      const wire = wireTo(undefined, { egress: answering() });
      expect(wire.reached()).toBe(false);
      await expect(wire.fetch('http://x.test', CALL)).rejects.toThrow('no more answers');
      expect(wire.reached()).toBe(true);
    });
  });

  describe('whether a server was reached', () => {
    test('is known of our own connections: not before one stands, and for good once one did', async () => {
      const server = await startRawServer({ era: 'modern' });
      const wire = wireTo(server.url);
      expect(wire.reached()).toBe(false);
      await (await wire.fetch(server.url, { method: 'DELETE' })).text();
      expect(wire.reached()).toBe(true);
      await server.close();
      await expect(wire.fetch(server.url, { method: 'DELETE' })).rejects.toThrow();
      expect(wire.reached()).toBe(true);
      await wire.close();
    });

    test('a server that is down was not', async () => {
      const server = await startRawServer({ era: 'modern' });
      await server.close();
      const wire = wireTo(server.url);
      await expect(wire.fetch(server.url, CALL)).rejects.toThrow();
      expect(wire.reached()).toBe(false);
      await wire.close();
    });

    test('a server with which TLS could not be agreed on was not: nothing of the request was sent', async () => {
      const server = await startRawServer({ era: 'modern' });
      const wire = wireTo(server.url.replace('http:', 'https:'));
      await expect(wire.fetch(server.url.replace('http:', 'https:'), CALL)).rejects.toThrow();
      expect(wire.reached()).toBe(false);
      await wire.close();
      await server.close();
    });
  });

  describe('the byte cap', () => {
    const chunks = (type: string, ...texts: readonly string[]): Response => {
      const encoder = new TextEncoder();
      const body = new ReadableStream<Uint8Array>({
        start(controller) {
          for (const text of texts) controller.enqueue(encoder.encode(text));
          controller.close();
        },
      });
      return new Response(body, { headers: { 'content-type': type } });
    };
    const read = async (response: Response, maxBytes: number): Promise<string> => {
      let exceeded = false;
      const capped = capResponse(response, { maxBytes, onTooLarge: () => (exceeded = true) });
      try {
        return await capped.text();
      } catch {
        return exceeded ? 'too large' : 'broken';
      }
    };

    test('a body of exactly the limit passes, one byte more does not', async () => {
      expect(await read(chunks('application/json', '12345', '67890'), 10)).toBe('1234567890');
      expect(await read(chunks('application/json', '12345', '678901'), 10)).toBe('too large');
    });

    test.each([
      ['\\n\\n', ['data: 12\n\n', 'data: 34\n\n']],
      ['\\r\\n\\r\\n', ['data: 12\r\n\r\n', 'data: 34\r\n\r\n']],
      ['\\r\\r', ['data: 12\r\r', 'data: 34\r\r']],
      ['\\n\\n across chunks', ['data: 12\n', '\ndata: 34\n', '\n']],
      ['\\r\\n\\r\\n across chunks', ['data: 12\r\n', '\r\n', 'data: 34\r\n\r\n']],
    ])('an event stream is counted from event to event (%s)', async (_, texts) => {
      expect(await read(chunks('text/event-stream', ...texts), 14)).toBe(texts.join(''));
      expect(await read(chunks('text/event-stream; charset=utf-8', ...texts), 7)).toBe('too large');
    });

    test('a response without a body passes as it is', () => {
      const response = new Response(null, { status: 204 });
      expect(capResponse(response, { maxBytes: 1 })).toBe(response);
    });

    test.each([
      ['text/event-stream', true],
      ['Text/Event-Stream; charset=utf-8', true],
      ['text/event-streams', false],
      ['application/json', false],
    ])('%s is an event stream: %s', (type, expected) => {
      expect(isEventStream(new Response('', { headers: { 'content-type': type } }))).toBe(expected);
    });
  });
});

describe('tokens that end while people think: what is sent after the call has a good one, and the call is sent once (INV-X1, INV-S1)', () => {
  const REQUEST: TokenRequest = { run: RUN, server: 'peer', serverUrl: 'https://peer.example/mcp', tool: 'deploy' };
  const CALL = { method: 'POST', headers: { [IDEMPOTENCY_HEADER]: 'k', authorization: 'Bearer token-0' } };
  const ANSWER = { method: 'POST', headers: { authorization: 'Bearer token-0' }, body: '{}' };

  let wanted: TokenRequest[];
  let released: string[];
  let sent: string[];
  /** Tokens that the server takes no more. */
  let dead: string[];
  beforeEach(() => {
    [wanted, released, sent, dead] = [[], [], [], []];
  });

  const token = (accessToken: string): MintedToken => ({
    accessToken,
    evidence: { strategy: 'given' },
    secrets: [`secret-of-${accessToken}`],
    release: () => released.push(accessToken),
  });

  function scene(mint?: TokenBroker['mint']) {
    const broker: TokenBroker = {
      mint: async (request) => {
        wanted.push(request);
        return mint === undefined ? token(`token-${wanted.length}`) : await mint(request);
      },
    };
    const seen: MintedToken[] = [];
    // Sound: what is proven of a call is not looked at here.
    const request = { ...REQUEST, call: {} } as TokenRequest;
    const renewal = renewalOf(broker, request, token('token-0'), (next) => seen.push(next));
    if (renewal === undefined) throw new Error('a token is renewed');
    const fetch = renewedFetch(
      async (_, init) => {
        const said = new Headers(init?.headers).get('authorization')?.replace('Bearer ', '') ?? '';
        sent.push(said);
        return await Promise.resolve(new Response(null, { status: dead.includes(said) ? 401 : 202 }));
      },
      'token-0',
      renewal,
    );
    return { fetch, renewal, seen };
  }

  const PEER = 'https://peer.example/mcp';

  describe('another token', () => {
    test('where the server turns the first one away: the answer is sent once more, and it is asked for without what is proven of the call', async () => {
      const { fetch } = scene();
      await fetch(PEER, CALL);
      dead.push('token-0');
      const [one, other] = await Promise.all([fetch(PEER, ANSWER), fetch(PEER, ANSWER)]);
      expect([one.status, other.status]).toEqual([202, 202]);
      expect(wanted).toEqual([{ ...REQUEST, refused: 'token-0' }]);
    });

    test('not while the first one is good', async () => {
      const { fetch } = scene();
      await fetch(PEER, CALL);
      await fetch(PEER, ANSWER);
      expect(sent).toEqual(['token-0', 'token-0']);
      expect(wanted).toEqual([]);
    });

    test('not for the call, what goes before it, or a farewell', async () => {
      const { fetch } = scene();
      dead.push('token-0');
      expect((await fetch(PEER, ANSWER)).status).toBe(401);
      expect((await fetch(PEER, CALL)).status).toBe(401);
      await fetch(PEER, { method: 'DELETE' });
      expect(sent).toEqual(['token-0', 'token-0', 'token-0']);
      expect(wanted).toEqual([]);
    });

    test('is not asked for without end, nor sent again where it is no better', async () => {
      const { fetch } = scene((request) => Promise.resolve(token(`next-${request.refused}`.slice(0, 20))));
      await fetch(PEER, CALL);
      dead.push('token-0');
      for (let times = 0; times < 30; times += 1) {
        dead.push(...sent);
        await fetch(PEER, ANSWER);
      }
      expect(wanted).toHaveLength(20);
    });

    test('that cannot be had: what is there is sent, and what the server says counts', async () => {
      const { fetch } = scene(() => Promise.reject(new Error('no issuer')));
      await fetch(PEER, CALL);
      dead.push('token-0');
      expect((await fetch(PEER, ANSWER)).status).toBe(401);
      expect(sent).toEqual(['token-0', 'token-0']);
    });

    test('is secret with all that it was obtained with, known as shown to the server, and ends with the call (INV-S1)', async () => {
      const { fetch, renewal, seen } = scene();
      await fetch(PEER, CALL);
      dead.push('token-0');
      await fetch(PEER, ANSWER);
      expect(seen.map(({ accessToken }) => accessToken)).toEqual(['token-1']);
      const connection = { name: 'peer', url: PEER, headers: {}, protocol: 'auto', secrets: [], renewal } as const;
      expect(scrubberFor(connection).text('I saw token-1, secret-of-token-1')).toBe('I saw [redacted], [redacted]');
      expect(released).toEqual([]);
      renewal.release();
      expect(released).toEqual(['token-1']);
    });
  });

  test('INV-S1: a token that arrives when its call is over is ended at once', async () => {
    let arrive: (token: MintedToken) => void = () => undefined;
    const { fetch, renewal } = scene(
      () =>
        new Promise((resolve) => {
          arrive = resolve;
        }),
    );
    await fetch(PEER, CALL);
    dead.push('token-0');
    const answered = fetch(PEER, ANSWER);
    while (wanted.length === 0) await new Promise(setImmediate);
    renewal.release();
    expect(released).toEqual([]);
    arrive(token('token-late'));
    await answered;
    expect(released).toEqual(['token-late']);
  });

  test('a server that takes no token gets none', () => {
    const none: MintedToken = { evidence: { strategy: 'none' }, secrets: [] };
    expect(renewalOf({ mint: () => Promise.resolve(none) }, REQUEST, none, () => undefined)).toBeUndefined();
  });
});

test('answers to requests of a server are bounded, and what people say does not wait behind its pings', async () => {
  const sent: string[] = [];
  const wire = { exchange: () => ({}) };
  const transport = new SessionTransport(aConnection({ url: 'http://x.test' }), wire, {
    // The server takes none of them.
    fetch: async (_url, init) => {
      sent.push(typeof init?.body === 'string' ? init.body : '');
      return await new Promise<never>(() => undefined);
    },
  });
  const refused: unknown[] = [];
  transport.onSaid = (id, failure) => failure !== undefined && refused.push(id);
  const say = (id: number, result: object): void => {
    transport.send({ jsonrpc: '2.0', id, result: { ...result } }).catch(() => undefined);
  };
  for (let id = 0; id < 65; id += 1) say(id, {});
  for (let id = 100; id < 165; id += 1) say(id, { action: 'accept' });
  await until(() => sent.length === 128);
  expect(refused).toEqual([64, 164]);
  expect(sent.filter((body) => body.includes('accept'))).toHaveLength(64);
});
