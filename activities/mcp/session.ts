/**
 * One connection to one MCP server: the session, the SDK's transport under it, and the record of its HTTP exchanges. It
 * serves one discovery, one call, or the calls of one run after each other.
 *
 * It owns the choice of protocol era and an orderly end. It does not own what is asked over it, which addresses may be
 * contacted (`activities/egress/`), or what a failure means (`classify-failure.ts`).
 * 1. Client and transport are fresh for each session: the SDK does not recover lost sessions (typescript-sdk#1708).
 * 2. No client capability is declared, so a server may not ask for sampling or roots while a call is held open. Asking
 *    people for input is declared only if the caller says so, and only to servers before 2026-07-28 (`asks`).
 * One file, because session, transport and exchanges are one wrapper around one connection.
 */
import { randomInt } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import {
  Client,
  type FetchLike,
  isJSONRPCErrorResponse,
  isJSONRPCRequest,
  isJSONRPCResultResponse,
  type JSONRPCMessage,
  type JsonSchemaValidator,
  type jsonSchemaValidator,
  type PriorDiscovery,
  type RequestId,
  StreamableHTTPClientTransport,
  type StreamableHTTPClientTransportOptions,
} from '@modelcontextprotocol/client';
import { LRUCache } from 'lru-cache';
import { defined } from '../../contracts/defined.ts';
import type { CountersignError } from '../../contracts/errors.ts';
import { hashOf } from '../../domain/text/canonical.ts';
import { type Egress, egressRefusalIn, isEventStream, type Outlet } from '../egress/fetch.ts';
import { retryAfterOf } from '../kit/network.ts';
import type { BoundAnswer, ServerConnection, TokenBinding, TokenRenewal } from './port.ts';
import { deadlineIn } from '../kit/time-limit.ts';

/** For a server to hear of a cancellation and to forget the session. */
const LEAVE_MS = 250;

/** How a server that gave event ids is asked to resume a broken stream; the call's deadline holds all the same. */
export const RESUME = {
  initialReconnectionDelay: 250,
  maxReconnectionDelay: 5_000,
  reconnectionDelayGrowFactor: 2,
  maxRetries: 4,
};

/** Far beyond every deadline of ours: the SDK's own 60 s timer must never be the one that ends a call. */
export const NEVER_MS = 2_147_483_647;

/**
 * Random, since in one session no id may come twice, whichever worker asks (MCP 2025-11-25, "Requests"). Servers may
 * have 32-bit ids.
 */
export function firstId(): number {
  return randomInt(1, 2_000_000_000);
}

export interface SessionOptions {
  readonly connection: ServerConnection;
  readonly prior?: PriorDiscovery;
  readonly connectMs: number;
  readonly signal: AbortSignal;
  readonly egress: Egress;
  /**
   * How a server before 2026-07-28 may ask people. `declared`: it is told so, because its list depends on that.
   * `heard`: its questions are also answered.
   */
  readonly asks?: 'declared' | 'heard' | undefined;
}

export interface Session {
  readonly client: Client;
  readonly transport: SessionTransport;
  readonly wire: Wire;
  /** Facts that the next session with this server may take as known. */
  readonly learned: PriorDiscovery;
  /** True if the server sent its requests on to another address (307, 308). */
  readonly moved: boolean;
  /** @param kept leaves the server's side open: there is work of ours in it */
  close(kept?: 'kept'): Promise<void>;
}

/** Nothing was asked of any tool. */
export class ConnectFailure extends Error {
  override readonly name = 'ConnectFailure';
  readonly trace: Failure;
  /** Set if the server had begun one. Secret. */
  readonly sessionId: string | undefined;
  constructor(trace: Failure, sessionId: string | undefined) {
    super('no session with the server', { cause: trace.error });
    this.trace = trace;
    this.sessionId = sessionId;
  }
}

/** How something that was asked of a server had no answer. */
export interface Failure {
  readonly error: unknown;
  readonly exchange: Exchange;
  readonly stopped: Stop | undefined;
}

/** `classify-result.ts` checks results, so the SDK need not build a validator for every call. */
const noValidator: jsonSchemaValidator = {
  // Sound: the SDK asks for T and gets the input back unchanged; its own validators do the same after checking it.
  getValidator:
    <T>(): JsonSchemaValidator<T> =>
    (input) => ({ valid: true, data: input as T, errorMessage: undefined }),
};

/** Connects within `connectMs`. @throws ConnectFailure */
export async function openSession(options: SessionOptions): Promise<Session> {
  const { connection, prior, connectMs, signal, egress, asks } = options;
  const { protocol, accessToken, renewal } = connection;
  const wire = openWire({ egress, server: connection, hasAsked: () => transport.asked });
  const http =
    accessToken === undefined || !renewal
      ? wire.fetch
      : renewedFetch(wire.fetch, accessToken, renewal, () => wire.exchange().nonceWanted === true);
  const standing = asks === 'heard' ? standingStream(http) : undefined;
  const transport = new SessionTransport(connection, wire, {
    fetch: standing?.fetch ?? withoutStandingStream(http),
    asks: asks !== undefined,
  });
  const client = clientFor(protocol);
  const deadline = deadlineIn(connectMs);
  const over = AbortSignal.any([signal, deadline]);
  // The negotiation probe takes no signal; closing its transport ends it.
  const stop = (): void => void transport.close().catch(() => {});
  over.addEventListener('abort', stop, { once: true });
  try {
    over.throwIfAborted();
    await client.connect(transport, { timeout: NEVER_MS, ...defined({ prior }) });
    if (client.getProtocolEra() === 'legacy') await standing?.opened();
    over.throwIfAborted();
  } catch (error) {
    await transport.close().catch(() => {});
    await wire.close();
    const ended = deadline.aborted ? 'deadline' : undefined;
    const stopped = signal.aborted ? 'cancelled' : ended;
    throw new ConnectFailure({ error, exchange: wire.exchange(), stopped }, transport.sessionId);
  } finally {
    over.removeEventListener('abort', stop);
  }
  return {
    client,
    transport,
    wire,
    learned: learnedBy(client),
    moved: wire.moved(),
    close: (kept) => leaveSession(transport, wire, kept, transport.noticesSent(), client),
  };
}

function clientFor(protocol: ServerConnection['protocol']): Client {
  const client = new Client(
    { name: 'countersign', version: '1.0.0-rc.1' },
    {
      capabilities: {},
      // The SDK's default is `legacy`, which cannot talk to a server that has only the 2026-07-28 revision.
      versionNegotiation: {
        mode: protocol === '2026-07-28' ? { pin: protocol } : protocol,
        probe: { timeoutMs: NEVER_MS },
      },
      inputRequired: { autoFulfill: false },
      jsonSchemaValidator: noValidator,
    },
  );
  // A call that a server continues with questions must be another request by its id (MCP 2026-07-28, multi round-trip
  // requests), but the SDK begins at 0 in each session. Its counter is private; the MCP conformance suite fails if this
  // does not reach it.
  client['_requestMessageId'] = firstId();
  return client;
}

/**
 * Ends a session. A server that does not react keeps its side, until that expires.
 * @param kept leaves the server's side open
 * @param before what the server hears first
 */
export async function leaveSession(
  transport: StreamableHTTPClientTransport,
  wire: Wire,
  kept?: 'kept',
  before: Promise<void> = Promise.resolve(),
  client: Pick<Client, 'close'> = transport,
): Promise<void> {
  // Without a session id it sends nothing.
  if (kept === undefined) {
    const said = before.then(() => transport.terminateSession());
    await patiently(said, LEAVE_MS);
  }
  await client.close().catch(() => {});
  await wire.close();
}

async function patiently(waited: Promise<void>, ms: number): Promise<void> {
  await Promise.race([waited, pause(ms, undefined, { ref: false })]).catch(() => {});
}

/**
 * In every legacy session the SDK opens a standing GET stream for the server's own messages. Nothing here listens to
 * them, and a client need not have the stream (MCP 2025-11-25, transports). The GET therefore gets the answer of a
 * server without one, unless the server may ask. Resuming needs GET.
 */
export function withoutStandingStream(fetch: Wire['fetch']): Wire['fetch'] {
  return (url, init) =>
    init?.method === 'GET' && !new Headers(init.headers).has('last-event-id')
      ? Promise.resolve(new Response(null, { status: 405 }))
      : fetch(url, init);
}

/** For a server to open the stream. */
const STANDING_MS = 1_000;

/**
 * Keeps the standing stream and tells when it is open. Servers should ask on the stream of the call, but the v1 SDK's
 * own `elicitInput` asks here (MCP 2025-11-25, transports, "Listening for Messages from the Server"). A question before
 * the stream is open is lost.
 */
function standingStream(fetch: Wire['fetch']): { readonly fetch: Wire['fetch']; readonly opened: () => Promise<void> } {
  let isOpen = (): void => undefined;
  const open = new Promise<void>((resolve) => (isOpen = resolve));
  return {
    fetch: (url, init) => {
      const response = fetch(url, init);
      if (init?.method === 'GET') void response.then(isOpen, isOpen);
      return response;
    },
    opened: async () => await patiently(open, STANDING_MS),
  };
}

function learnedBy(client: Client): PriorDiscovery {
  const discover = client.getDiscoverResult();
  if (discover === undefined) return { kind: 'legacy' };
  // Instructions and metadata may be large, and are not used.
  const { supportedVersions, capabilities } = discover;
  return { kind: 'modern', discover: { supportedVersions, capabilities } };
}

// Remembers how servers speak, so that a call to a modern server costs no extra round trip. No address is kept: a
// redirect holds for one principal's request (RFC 9110 §15.4.8). A modern server that redirects is asked anew by each
// session: its call would be the first request, and follows none.

const MAX_SERVERS = 500;
const MAX_AGE_MS = 10 * 60_000;
const MAX_BYTES = 16_384;

export type Priors = ReturnType<typeof createPriors>;

/** @param now ms of a clock that only goes forward */
export function createPriors(now: () => number = () => performance.now()) {
  const known = new LRUCache<string, PriorDiscovery>({
    max: MAX_SERVERS,
    ttl: MAX_AGE_MS,
    ttlResolution: 0,
    perf: { now },
  });
  return {
    recall: (connection: ServerConnection): PriorDiscovery | undefined => known.get(keyOf(connection)),
    learn(connection: ServerConnection, { learned: prior, moved }: Pick<Session, 'learned' | 'moved'>): void {
      if (moved && prior.kind === 'modern') return;
      // A server decides how large its capabilities are.
      if (JSON.stringify(prior).length > MAX_BYTES) return;
      known.set(keyOf(connection), prior);
    },
    forget: (connection: ServerConnection): void => void known.delete(keyOf(connection)),
  };
}

/** A server may answer differently with and without authorization, and by header. A token never comes again. */
function keyOf({ url, protocol, headers, accessToken }: ServerConnection): string {
  return hashOf({ url, protocol, headers, authorized: accessToken !== undefined });
}

/**
 * True for the one revision that has tasks in its core (2026-07-28 has them in an extension), and a server that says it
 * takes them.
 */
export function takesTasks({ client, transport, learned }: Session): boolean {
  return (
    learned.kind === 'legacy' &&
    transport.protocolVersion === '2025-11-25' &&
    client.getServerCapabilities()?.tasks?.requests?.tools?.call !== undefined
  );
}

// The SDK's HTTP transport, with what an at-most-once caller needs.
//
// 1. A request whose answer can no longer come is reported (`onLost`). The SDK would wait for its timeout instead
//    (typescript-sdk#2739): its `RequestOptions.onRequestStreamEnd` is typed but not read in 2.4.0.
// 2. The raw answer is kept (`answer`). The SDK rejects a result that it cannot parse, and a completed side effect
//    would be lost.
// 3. Cancellation notices are awaitable (`noticesSent`): the SDK sends them without waiting.
// 4. A server that asks without end is not answered without end: each answer takes a connection, and the requests of
//    one stream of a megabyte took all that the process may open.
// 5. That people may be asked is declared with `initialize` alone (`asks`), which only servers before 2026-07-28 are
//    sent. The SDK's client would declare it to every server.

/** Bounds a server's `retry` (HTML, "Server-sent events"): beyond the range of a timer it would be no pause at all. */
export const LONGEST_RETRY_MS = 60_000;
const SHORTEST_RETRY_MS = 100;

/**
 * Answers of ours to requests of the server that are on their way at once, and as many of people. A request beyond them
 * gets none.
 */
const MOST_SAYING = 64;

type SendOptions = Parameters<StreamableHTTPClientTransport['send']>[1];

export type RawAnswer =
  | { readonly kind: 'result'; readonly result: Readonly<Record<string, unknown>> }
  | { readonly kind: 'error'; readonly code: number; readonly message: string };

/** The answer to the request of this id, if the message is one. */
export function answerIn(message: JSONRPCMessage, id: RequestId): RawAnswer | undefined {
  if (!('id' in message) || message.id !== id) return undefined;
  if (isJSONRPCResultResponse(message)) return { kind: 'result', result: message.result };
  if (!isJSONRPCErrorResponse(message)) return undefined;
  const { code, message: text } = message.error;
  return { kind: 'error', code, message: text };
}

interface SessionTransportOptions extends Pick<StreamableHTTPClientTransportOptions, 'sessionId' | 'protocolVersion'> {
  readonly fetch: FetchLike;
  readonly asks?: boolean;
}

/**
 * Options of every transport to a server: its headers and token, and no redirect to another origin. The SDK's default
 * for a missing scope would fetch a wider token and run the tool; here it is an error (INV-S2).
 */
export function transportOptions({
  headers,
  accessToken,
}: ServerConnection): Omit<StreamableHTTPClientTransportOptions, 'fetch'> {
  const authProvider = accessToken === undefined ? undefined : { token: () => Promise.resolve(accessToken) };
  return {
    requestInit: { headers: { ...headers } },
    redirectPolicy: 'same-origin',
    onInsufficientScope: 'throw',
    ...defined({ authProvider }),
  };
}

/** The client's capabilities: neither sampling nor roots. */
export const ASKING = { elicitation: { form: {}, url: {} } };

export class SessionTransport extends StreamableHTTPClientTransport {
  /** The answer to the latest request about a tool, a task or a resource. */
  answer: RawAnswer | undefined;
  /** The server has made a request of its own since then: it works on the call, whatever it says in the end. */
  asked = false;
  onLost: (() => void) | undefined;
  onPassed: ((requestId: RequestId, eventId: string) => void) | undefined;
  /** Our answer to a request of the server was sent, or could not be given to it. */
  onSaid: ((requestId: RequestId, failure?: { readonly error: unknown }) => void) | undefined;
  /** For callers without the SDK's client. */
  onAnswer: (() => void) | undefined;
  readonly #wire: Pick<Wire, 'exchange'>;
  readonly #asks: boolean;
  readonly #notices = new Set<Promise<void>>();
  #awaited: RequestId | undefined;
  /** Answers that are on their way: a server that leaves those to its pings open still gets what people say. */
  readonly #saying = { ours: 0, people: 0 };

  constructor(
    connection: ServerConnection,
    wire: Pick<Wire, 'exchange'>,
    { asks = false, ...options }: SessionTransportOptions,
  ) {
    const retrying = { reconnectionScheduler: withinBounds, reconnectionOptions: RESUME };
    super(new URL(connection.url), { ...transportOptions(connection), ...retrying, ...options });
    this.#wire = wire;
    this.#asks = asks;
    // Set before `connect`, which chains the handler it finds.
    this.onmessage = (message) => this.#keep(message);
  }

  override async send(message: JSONRPCMessage | JSONRPCMessage[], options?: SendOptions): Promise<void> {
    if (Array.isArray(message)) throw new Error('the SDK sends no batches');
    const awaited = awaitedIn(message);
    if (awaited !== undefined) return await this.#ask(message, awaited, options);
    if (!('method' in message) && message.id !== undefined) return await this.#say(message, message.id, options);
    const sending = super.send(this.#asks ? declaring(message) : message, options);
    if ('method' in message && message.method === 'notifications/cancelled') this.#notices.add(sending);
    await sending;
  }

  async #ask(message: JSONRPCMessage, id: RequestId, options: SendOptions): Promise<void> {
    this.answer = undefined;
    this.asked = false;
    this.#awaited = id;
    const ended = (): void => this.#unlessAnswered(id, () => this.onLost?.());
    await super.send(message, {
      ...options,
      onresumptiontoken: (eventId) => this.#unlessAnswered(id, () => this.onPassed?.(id, eventId)),
      onRequestStreamEnd: ended,
    });
    // An event stream is still being read when `send` returns.
    if (this.#wire.exchange().streamed !== true) ended();
  }

  async #say(message: JSONRPCMessage, id: RequestId, options: SendOptions): Promise<void> {
    const whose = 'result' in message && Object.keys(message.result).length > 0 ? 'people' : 'ours';
    try {
      if (this.#saying[whose] >= MOST_SAYING) throw new Error(`${MOST_SAYING} answers are on their way to the server`);
      this.#saying[whose] += 1;
      await super.send(message, options).finally(() => (this.#saying[whose] -= 1));
    } catch (error) {
      this.onSaid?.(id, { error });
      throw error;
    }
    this.onSaid?.(id);
  }

  async noticesSent(): Promise<void> {
    await Promise.allSettled(this.#notices);
  }

  #keep(message: JSONRPCMessage): void {
    // A ping is about the connection, and comes at any time.
    if (isJSONRPCRequest(message) && message.method !== 'ping' && this.#awaited !== undefined) this.asked = true;
    // A request has one answer; what else comes under its id is none.
    if (this.#awaited === undefined || this.answer !== undefined) return;
    this.answer = answerIn(message, this.#awaited);
    if (this.answer !== undefined) this.onAnswer?.();
  }

  /** Deferred, so that an answer that has just come, also in the very event that passed, is handled first. */
  #unlessAnswered(id: RequestId, tell: () => void): void {
    setImmediate(() => {
      if (this.#awaited === id && this.answer === undefined) tell();
    });
  }
}

/** Why nobody waits for an answer any more. `left` means that another worker asks for it. */
export type Stop = 'deadline' | 'cancelled' | 'lost' | 'left';

export type Waiting = ReturnType<typeof startWaiting>;

/**
 * Begins to wait for an answer over this transport.
 * @param cancelled says what the abort of the signal means
 */
export function startWaiting(
  transport: SessionTransport,
  signal: AbortSignal,
  onStop: (why: Stop) => void,
  { atMostMs, cancelled = () => 'cancelled' }: { readonly atMostMs?: number; readonly cancelled?: () => Stop } = {},
) {
  let stopped: Stop | undefined;
  const stop = (why: Stop): void => {
    stopped ??= why;
    onStop(why);
  };
  const onAbort = (): void => stop(cancelled());
  const timer = atMostMs === undefined ? undefined : setTimeout(() => stop('deadline'), atMostMs);
  transport.onLost = () => stop('lost');
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  return {
    stopped: (): Stop | undefined => stopped,
    stop,
    over: (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      transport.onLost = undefined;
    },
  };
}

function declaring(message: JSONRPCMessage): JSONRPCMessage {
  if (!isJSONRPCRequest(message) || message.method !== 'initialize') return message;
  return { ...message, params: { ...message.params, capabilities: ASKING } };
}

function withinBounds(reconnect: () => void, delayMs: number): () => void {
  const timer = setTimeout(reconnect, Math.min(Math.max(delayMs, SHORTEST_RETRY_MS), LONGEST_RETRY_MS));
  return () => clearTimeout(timer);
}

/** Returns the id of a request whose answer is kept. The SDK's own check of a whole message is dear. */
function awaitedIn(message: JSONRPCMessage): RequestId | undefined {
  if (!('method' in message) || !('id' in message)) return undefined;
  const { method, id } = message;
  const isAwaited = /^(?:tools|tasks)\//.test(method) || method === 'resources/read';
  return isAwaited && (typeof id === 'string' || typeof id === 'number') ? id : undefined;
}

// The HTTP layer of one session: the facts of each exchange, Retry-After, and when another token is asked for.
//
// 1. A session has its own connections. A request on an idle one that the server is closing would fail after it was
//    sent, and its outcome be unknown for no reason (INV-X1). So a call that may run only once gets a new connection in
//    a kept session, and others use one that has just been used (docs/adr/0092).
// 2. There is no timeout here: a silent answer is not a dead one, and the deadline belongs to the call.
// 3. A redirect of a call is not followed: no redirect proves that the server has not acted (RFC 9110 §15.4), and the
//    call would be sent twice (INV-X1). If earlier requests of the session were redirected within the origin, the call
//    goes to that address at once.
// 4. A violation of the egress rules is noted for the request that it affected: a call that was sent stays sent,
//    whatever is forbidden afterwards.
// 5. The call, and the requests before it, leave with the token that the session was given, once (INV-X1). Later
//    requests may need another token, because people's answers leave long after the call. They are sent again once
//    after a 401, which proves that they were not acted on (RFC 6750 §3.1).
// 6. A token that is bound to a key leaves with a proof and the scheme `DPoP`, whoever wrote the request. A request
//    that the server refused for want of its nonce, the call too, is sent again once: it was not acted on (RFC 9449
//    §9). A server that asks in the middle of the call works on it: then the call is not sent again.

/** Well above any result that is kept whole, so that an oversized result can still be told from a hostile one. */
const MAX_RESPONSE_BYTES = 32 * 1024 * 1024;
/** Fifty thousand rows of eight columns have fewer values. */
const MAX_RESPONSE_VALUES = 500_000;
const LONGEST_RETRY_AFTER_MS = 24 * 3_600_000;
/** For so long a server hardly ever closes an idle connection. */
const IDLE_MS = 1_000;

/** Marks the one request whose exchange is recorded: it is sent only with `tools/call` and `resources/read`. */
export const IDEMPOTENCY_HEADER = 'idempotency-key';

/** Facts of the answer to the latest request, or to the one with an idempotency key once that was made. */
export interface Exchange extends Omit<BoundAnswer, 'response'> {
  readonly status?: number;
  readonly retryAfterMs?: number;
  readonly streamed?: boolean;
  readonly tooLarge?: boolean;
  /** Received bytes of its body, after decompression. */
  readonly received?: number;
  /** Why it was not sent at all. */
  readonly forbidden?: CountersignError;
}

export type Wire = ReturnType<typeof openWire>;

export interface WireOptions {
  readonly egress: Egress;
  readonly server: Pick<ServerConnection, 'name' | 'url' | 'accessToken' | 'binding' | 'renewal'>;
  /** The server has asked something in the middle of the call: it works on it, whatever it says in the end. */
  readonly hasAsked?: () => boolean;
}

/** One function, because every part of it reads or writes the facts of the same exchanges. */
export function openWire({ egress, server, hasAsked }: WireOptions) {
  let reached = false;
  let tellReached = (): void => undefined;
  const reach = (): void => {
    if (!reached) tellReached();
    reached = true;
  };
  let exchange: Exchange = {};
  let callMade = false;
  let use = 0;
  let unended: NodeJS.Timeout | undefined;
  const { href } = new URL(server.url);
  let movedTo = href;
  const opened = (): Outlet =>
    egress.outlet({
      what: `Server "${server.name}"`,
      to: [server.url],
      maxBytes: MAX_RESPONSE_BYTES,
      maxValues: MAX_RESPONSE_VALUES,
      idleMs: IDLE_MS,
      onWriting: reach,
    });
  let outlet = opened();
  const reconnect = async (): Promise<void> => {
    const used = outlet;
    outlet = opened();
    await used.close();
  };
  const fetch: FetchLike = async (url, init) => {
    clearTimeout(unended);
    const ofUse = use;
    const isCall = new Headers(init?.headers).has(IDEMPOTENCY_HEADER);
    callMade ||= isCall;
    const record = (update: Exchange, before = exchange): void => {
      // The stream of an earlier use may still end.
      if (ofUse === use && (isCall || !callMade)) exchange = { ...before, ...update };
    };
    const target = String(url) === href ? movedTo : String(url);
    const send = async (at: string, request: RequestInit | undefined): Promise<Response> => {
      record({}, {});
      const response = await outlet.fetch(at, request, {
        onTooLarge: () => record({ tooLarge: true }),
        onBytes: (count) => record({ received: (exchange.received ?? 0) + count }),
      });
      record({
        status: response.status,
        streamed: isEventStream(response),
        ...defined({ retryAfterMs: retryAfterOf(response, LONGEST_RETRY_AFTER_MS) }),
      });
      return response;
    };
    try {
      const bound = boundTokenIn(init, server);
      const mayRepeat = (): boolean => init?.signal?.aborted !== true && !(isCall && hasAsked?.() === true);
      const { response, ...facts }: BoundAnswer =
        bound === undefined
          ? { response: await send(target, init) }
          : await bound.binding.send(bound.token, target, init, send, mayRepeat);
      record(facts);
      movedTo = moveWithin(target, response) ?? movedTo;
      return isCall && isRedirect(response.status) ? await withoutLocation(response) : response;
    } catch (error) {
      const forbidden = egressRefusalIn(error);
      if (forbidden !== undefined) record({ forbidden });
      throw error;
    }
  };
  return {
    fetch,
    /** False only if nothing can have been sent since the session, or its latest rest, began. */
    reached: (): boolean => reached,
    /** Forgets the facts of earlier exchanges; the connection stays. */
    rest: (): void => {
      use += 1;
      exchange = {};
      callMade = false;
      reached = false;
      tellReached = () => undefined;
      unended = setTimeout(() => void (outlet.isBusy() && reconnect()), IDLE_MS).unref();
    },
    /** True while an answer is not at its end. */
    isBusy: (): boolean => outlet.isBusy(),
    /** Has the next request connect anew. */
    reconnect,
    /** Calls `tell` once something can have been sent. */
    onReached: (tell: () => void): void => {
      if (reached) tell();
      else tellReached = tell;
    },
    exchange: (): Exchange => exchange,
    /** True if the server redirects its requests within its origin. */
    moved: (): boolean => movedTo !== href,
    close: async (): Promise<void> => await outlet.close(),
  };
}

const SCHEME = 'Bearer ';

function boundTokenIn(
  init: RequestInit | undefined,
  { accessToken, binding: own, renewal }: WireOptions['server'],
): { readonly token: string; readonly binding: TokenBinding } | undefined {
  const header = new Headers(init?.headers).get('authorization') ?? '';
  if (!header.startsWith(SCHEME)) return undefined;
  const token = header.slice(SCHEME.length);
  const binding = token === accessToken ? own : renewal?.bindingOf?.(token);
  return binding === undefined ? undefined : { token, binding };
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
  return isWithin ? href : undefined;
}

async function withoutLocation(response: Response): Promise<Response> {
  await response.body?.cancel().catch(() => undefined);
  return new Response(null, { status: response.status });
}

const MOST_RENEWALS = 20;

/** @param isForNonce true if the latest answer refuses the proof for want of its nonce, and not the token */
export function renewedFetch(
  fetch: FetchLike,
  firstToken: string,
  renewal: TokenRenewal,
  isForNonce: () => boolean = () => false,
): FetchLike {
  let current = firstToken;
  let isCalled = false;
  let renewals = 0;
  let renewing: Promise<void> | undefined;
  const renew = async (refused: string): Promise<void> => {
    if (renewals >= MOST_RENEWALS) return;
    renewals += 1;
    // Without another token the request leaves with the present one, and its sender reports the server's answer.
    current = (await renewal.mint(refused).catch(() => undefined)) ?? current;
  };
  /** Requests that come meanwhile use the same renewal. */
  const renewed = async (refused: string): Promise<void> => {
    renewing ??= renew(refused).finally(() => {
      renewing = undefined;
    });
    await renewing;
  };

  return async (url, init) => {
    const headers = new Headers(init?.headers);
    const isCall = headers.has(IDEMPOTENCY_HEADER);
    isCalled ||= isCall;
    if (isCall || !isCalled) return await fetch(url, init);
    const sent = async (): Promise<Response> => {
      headers.set('authorization', `Bearer ${current}`);
      return await fetch(url, { ...init, headers });
    };
    // Ending the session is not worth a token.
    if (init?.method === 'DELETE') return await sent();
    const shown = current;
    const response = await sent();
    if (response.status !== 401 || isForNonce()) return response;
    // Another request may have brought one meanwhile.
    if (current === shown) await renewed(shown);
    if (current === shown) return response;
    await response.body?.cancel().catch(() => undefined);
    return await sent();
  };
}
