/**
 * The HTTP layer under one session with a server, with a record of its exchanges and renewal of its token.
 *
 * It owns the facts of each exchange, Retry-After, and when another token is asked for. It does not own which addresses
 * may be contacted and what may be read (`activities/egress/`), MCP, what a failure means (`classify-failure.ts`), or
 * which token is next (`activities/gate/authority.ts`).
 * 1. A session has its own connections: a request never uses an idle one that the server may be closing. Such a request
 *    fails after it was sent, and its outcome would be unknown for no reason (INV-X1).
 * 2. There is no timeout here: a silent answer is not a dead one, and the deadline belongs to the call.
 * 3. A redirect of a call is not followed: no redirect proves that the server has not acted (RFC 9110 §15.4), and the
 *    call would be sent twice (INV-X1). If earlier requests of the session were redirected within the origin, the call
 *    goes to that address at once.
 * 4. A violation of the egress rules is noted for the request that it affected: a call that was sent stays sent,
 *    whatever is forbidden afterwards.
 * 5. The call, and the requests before it, leave with the token that the session was given; this file never sends the
 *    call again (INV-X1). Later requests may need another token, because people's answers leave long after the call.
 * 6. Any other request is sent again once after a 401, which proves that it was not acted on (RFC 6750 §3.1). If there
 *    is no other token, it leaves with the present one, and its sender reports the server's answer.
 */
import type { FetchLike } from '@modelcontextprotocol/client';
import type { CountersignError } from '../../contracts/errors.ts';
import { isEventStream } from '../egress/byte-cap.ts';
import type { Egress, GuardedFetch } from '../egress/fetch.ts';
import { egressRefusalIn } from '../egress/guard.ts';
import type { TokenRenewal } from './port.ts';

/** Well above any result that is kept whole, so that an oversized result can still be told from a hostile one. */
const MAX_RESPONSE_BYTES = 32 * 1024 * 1024;
/**
 * Well above any result too: fifty thousand rows of eight columns have fewer values. The content of a text does not
 * count.
 */
const MAX_RESPONSE_VALUES = 500_000;
/** Number of redirects remembered in one session. */
const MOST_MOVES = 5;
const LONGEST_MOVE = 2_048;
const MAX_RETRY_AFTER_MS = 24 * 3_600_000;

/** Marks the one request whose exchange is recorded: it is sent only with `tools/call` and `resources/read`. */
export const IDEMPOTENCY_HEADER = 'idempotency-key';

/** Facts of the answer to the latest request, or to the one with an idempotency key once that was made. */
export interface Exchange {
  readonly status?: number;
  readonly retryAfterMs?: number;
  readonly streamed?: boolean;
  readonly tooLarge?: boolean;
  /** Received bytes of its body, after decompression. */
  readonly received?: number;
  /** Why it was not sent at all. */
  readonly forbidden?: CountersignError;
}

export interface Wire {
  readonly fetch: FetchLike;
  /** False only if no connection has ever stood, so that nothing can have been sent. */
  reached(): boolean;
  /** Calls `tell` once that is so, and at once if it already is. */
  onReached(tell: () => void): void;
  exchange(): Exchange;
  /**
   * The address within its origin to which the server redirects requests for this URL, permanently or for now; else the
   * URL itself.
   */
  movedTo(url: string): string;
  close(): Promise<void>;
}

export interface WireOptions {
  readonly egress: Egress;
  readonly server: { readonly name: string; readonly url: string };
  /** Replaces the guarded fetch, for tests. Its connections are not seen, so every failure counts as possibly sent. */
  readonly fetch?: GuardedFetch;
  readonly now?: () => number;
}

export function openWire({ egress, server, ...options }: WireOptions): Wire {
  let reached = false;
  let tellReached = (): void => undefined;
  const reach = (): void => {
    reached = true;
    tellReached();
    tellReached = () => undefined;
  };
  let exchange: Exchange = {};
  let callMade = false;
  const moves = new Map<string, string>();
  const movedTo = (url: string): string => {
    let at = url;
    for (let steps = 0; steps < MOST_MOVES; steps += 1) at = moves.get(at) ?? at;
    return at;
  };
  const outlet = egress.outlet({
    what: `Server "${server.name}"`,
    to: [server.url],
    maxBytes: MAX_RESPONSE_BYTES,
    maxValues: MAX_RESPONSE_VALUES,
    onConnected: reach,
  });
  const send = options.fetch ?? outlet.fetch;
  const record = (isCall: boolean, update: Exchange): void => {
    if (isCall || !callMade) exchange = { ...exchange, ...update };
  };
  return {
    fetch: async (url, init) => {
      const isCall = new Headers(init?.headers).has(IDEMPOTENCY_HEADER);
      callMade ||= isCall;
      if (isCall || !callMade) exchange = {};
      if (options.fetch !== undefined) reach();
      const target = movedTo(String(url));
      try {
        const response = await send(target, init, {
          onTooLarge: () => record(isCall, { tooLarge: true }),
          onBytes: (count) => record(isCall, { received: (exchange.received ?? 0) + count }),
        });
        record(isCall, {
          status: response.status,
          streamed: isEventStream(response),
          ...retryAfterOf(response, options.now ?? Date.now),
        });
        const next = moveWithin(target, response);
        if (next !== undefined && moves.size < MOST_MOVES) moves.set(target, next);
        return isCall && isRedirect(response.status) ? await standing(response) : response;
      } catch (error) {
        const forbidden = egressRefusalIn(error);
        if (forbidden !== undefined) record(isCall, { forbidden });
        throw error;
      }
    },
    reached: () => reached,
    onReached: (tell) => {
      if (reached) tell();
      else tellReached = tell;
    },
    exchange: () => exchange,
    movedTo,
    close: outlet.close,
  };
}

/** Statuses that send a request elsewhere (RFC 9110 §15.4); the SDK follows the last two. */
export function isRedirect(status: number): boolean {
  return [301, 302, 303, 307, 308].includes(status);
}

/** Returns the target of a redirect that keeps the method, if it is at the same origin. */
function moveWithin(from: string, { status, headers }: Response): string | undefined {
  const location = headers.get('location');
  if ((status !== 307 && status !== 308) || location === null || !URL.canParse(location, from)) return undefined;
  const { origin, username, password, href } = new URL(location, from);
  const isWithin = origin === new URL(from).origin && username === '' && password === '';
  return isWithin && href.length <= LONGEST_MOVE && href !== from ? href : undefined;
}

/** Removes the Location, so that nobody follows it. */
async function standing(response: Response): Promise<Response> {
  await response.body?.cancel().catch(() => undefined);
  return new Response(null, { status: response.status });
}

/** Reads seconds or an HTTP date (RFC 9110 §10.2.3). The SDK's errors carry no headers, so the header is read here. */
function retryAfterOf(response: Response, now: () => number): Pick<Exchange, 'retryAfterMs'> {
  const value = response.headers.get('retry-after')?.trim();
  if (value === undefined || value === '') return {};
  const ms = /^\d+$/.test(value) ? Number(value) * 1_000 : Date.parse(value) - now();
  return Number.isFinite(ms) ? { retryAfterMs: Math.min(Math.max(0, ms), MAX_RETRY_AFTER_MS) } : {};
}

// Requests of a session other than its call, with a token that is valid when they leave.

/** Bound for one session. */
const MOST_RENEWALS = 20;
/** Time before a token ends, in ms, that a request needs on its way. */
const EARLY_MS = 5_000;

export function renewedFetch(fetch: FetchLike, first: string, renewal: TokenRenewal): FetchLike {
  let current: { readonly accessToken: string; readonly expiresAt?: string | undefined } = {
    accessToken: first,
    expiresAt: renewal.expiresAt,
  };
  let isCalled = false;
  let renewals = 0;
  let renewing: Promise<void> | undefined;
  const renew = async (refused?: string): Promise<void> => {
    if (renewals >= MOST_RENEWALS) return;
    renewals += 1;
    // The request that follows reports the failure.
    current = (await renewal.mint(refused).catch(() => undefined)) ?? current;
  };
  /** One renewal runs at a time; requests that come meanwhile use the same. */
  const renewed = async (refused?: string): Promise<void> => {
    renewing ??= renew(refused).finally(() => {
      renewing = undefined;
    });
    await renewing;
  };
  const isEnding = (): boolean =>
    current.expiresAt !== undefined && Date.parse(current.expiresAt) - EARLY_MS <= Date.now();

  return async (url, init) => {
    const headers = new Headers(init?.headers);
    const isCall = headers.has(IDEMPOTENCY_HEADER);
    isCalled ||= isCall;
    if (isCall || !isCalled) return await fetch(url, init);
    const sent = async (): Promise<Response> => {
      headers.set('authorization', `Bearer ${current.accessToken}`);
      return await fetch(url, { ...init, headers });
    };
    // Ending the session is not worth a token.
    if (init?.method === 'DELETE') return await sent();
    if (isEnding()) await renewed();
    const { accessToken } = current;
    const response = await sent();
    if (response.status !== 401) return response;
    // Another request may have brought one meanwhile.
    if (current.accessToken === accessToken) await renewed(accessToken);
    if (current.accessToken === accessToken) return response;
    await response.body?.cancel().catch(() => undefined);
    return await sent();
  };
}
