/**
 * The HTTP under one session with a server, and what is known of its exchanges.
 *
 * Owns connections, the byte cap, Retry-After. Does not own MCP, nor what a failure means (`ending.ts`).
 *
 * 1. A session has its own connections: a request never rides on an idle one that the server may be closing. Such a request
 *    fails after it was sent, and its outcome would be unknown for no reason (INV-X1).
 * 2. No timeout of its own on headers and bodies: a silent answer is not a dead one, and the deadline belongs to the call.
 */
import type { FetchLike } from '@modelcontextprotocol/client';
import { Agent, buildConnector, fetch as undiciFetch } from 'undici';
import { capResponse, isEventStream } from './byte-cap.ts';

/** Well above any result that is kept whole, so that an oversized one can still be told from a hostile one. */
const MAX_RESPONSE_BYTES = 32 * 1024 * 1024;
const CONNECT_TIMEOUT_MS = 10_000;
const MAX_RETRY_AFTER_MS = 24 * 3_600_000;

/** Marks the one request whose exchange is recorded: the SDK sends it only with `tools/call`. */
export const IDEMPOTENCY_HEADER = 'idempotency-key';

/** What is known of the answer to the latest request, and of the one with an idempotency key once that was made. */
export interface Exchange {
  readonly status?: number;
  readonly retryAfterMs?: number;
  readonly streamed?: boolean;
  readonly tooLarge?: boolean;
  /** Bytes of its body that came, after decompression. */
  readonly received?: number;
}

export interface Wire {
  readonly fetch: FetchLike;
  /** False only where no connection has ever stood, so that nothing can have been sent. */
  reached(): boolean;
  exchange(): Exchange;
  close(): Promise<void>;
}

/** Shared, so that TLS sessions are resumed across calls. */
const connector = buildConnector({ timeout: CONNECT_TIMEOUT_MS });

export interface WireOptions {
  /** In place of undici's: its connections are not seen, so every failure counts as possibly sent. */
  readonly fetch?: FetchLike;
  readonly now?: () => number;
}

export function openWire(options: WireOptions = {}): Wire {
  let reached = false;
  let exchange: Exchange = {};
  let callMade = false;
  const agent = new Agent({
    headersTimeout: 0,
    bodyTimeout: 0,
    connect: (target, callback) =>
      connector(target, (...outcome) => {
        reached ||= outcome[0] === null;
        callback(...outcome);
      }),
  });
  // Sound: undici's init and Node's describe the same standard, and only what the SDK sets stands in it.
  const ours: FetchLike = (url, init) =>
    undiciFetch(url, { ...(init as object), dispatcher: agent }) as Promise<unknown> as Promise<Response>;
  const base = options.fetch ?? ours;
  const record = (isCall: boolean, update: Exchange): void => {
    if (isCall || !callMade) exchange = { ...exchange, ...update };
  };
  return {
    fetch: async (url, init) => {
      const isCall = new Headers(init?.headers).has(IDEMPOTENCY_HEADER);
      callMade ||= isCall;
      if (isCall || !callMade) exchange = {};
      if (options.fetch !== undefined) reached = true;
      const response = await base(url, init);
      record(isCall, {
        status: response.status,
        streamed: isEventStream(response),
        ...retryAfterOf(response, options.now ?? Date.now),
      });
      return capResponse(response, {
        maxBytes: MAX_RESPONSE_BYTES,
        onExceeded: () => record(isCall, { tooLarge: true }),
        onBytes: (count) => record(isCall, { received: (exchange.received ?? 0) + count }),
      });
    },
    reached: () => reached,
    exchange: () => exchange,
    close: () => agent.destroy(),
  };
}

/** Seconds or an HTTP date (RFC 9110 §10.2.3). The SDK's errors carry no headers, so it is read here. */
function retryAfterOf(response: Response, now: () => number): Pick<Exchange, 'retryAfterMs'> {
  const value = response.headers.get('retry-after')?.trim();
  if (value === undefined || value === '') return {};
  const ms = /^\d+$/.test(value) ? Number(value) * 1_000 : Date.parse(value) - now();
  return Number.isFinite(ms) ? { retryAfterMs: Math.min(Math.max(0, ms), MAX_RETRY_AFTER_MS) } : {};
}
