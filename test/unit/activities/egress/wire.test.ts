/** What is learned from HTTP exchanges, and how bodies are bounded. */
import { describe, expect, test } from '@jest/globals';
import { capResponse, type GuardedFetch, isEventStream } from '../../../../activities/egress/fetch.ts';
import { IDEMPOTENCY_HEADER, openWire, type WireOptions } from '../../../../activities/mcp/session.ts';
import { loopbackEgress } from '../../../support/egress.ts';
import { startRawServer } from '../../../support/servers/raw-server.ts';

const NOW = Date.parse('2026-11-21T12:00:00Z');
const CALL = { method: 'POST', headers: { [IDEMPOTENCY_HEADER]: 'k' } };

/** A wire to a server of the test. */
function wireTo(url = 'http://x.test', over: Partial<WireOptions> = {}) {
  return openWire({ egress: loopbackEgress(), server: { name: 'tickets', url }, ...over });
}

function answering(...responses: readonly Response[]): GuardedFetch {
  const left = [...responses];
  return () => {
    const next = left.shift();
    return next === undefined ? Promise.reject(new Error('no more answers')) : Promise.resolve(next);
  };
}

async function exchangeAfter(headers: Readonly<Record<string, string>>): Promise<number | undefined> {
  const wire = wireTo(undefined, { fetch: answering(new Response('', { status: 429, headers })), now: () => NOW });
  await wire.fetch('http://x.test', CALL);
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
    ['-5', 0],
  ])('"%s" is %s ms', async (value, ms) => {
    // "-5" is no number of seconds; V8 reads it as a date in the past.
    expect(await exchangeAfter({ 'retry-after': value })).toBe(ms);
  });

  test('without it nothing is said', async () => {
    expect(await exchangeAfter({})).toBeUndefined();
  });
});

describe('the exchange of the call', () => {
  test('what comes after the call does not blur it', async () => {
    const wire = wireTo(undefined, {
      fetch: answering(
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

  test('a request of a foreign fetch counts as one that reached the server', async () => {
    const wire = wireTo(undefined, { fetch: answering() });
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
