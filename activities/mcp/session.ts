/**
 * One connection to one MCP server, for one discovery or one call.
 *
 * It owns the choice of protocol era and an orderly end. It does not own what is asked over it.
 * 1. Client and transport are fresh every time: the SDK does not recover lost sessions (typescript-sdk#1708).
 * 2. No client capability is declared, so a server may not ask for sampling or roots while a call is held open. Asking
 *    people for input is declared only if the caller says so, and only to servers before 2026-07-28 (`asks`).
 */
import { randomInt } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import {
  Client,
  type JsonSchemaValidator,
  type jsonSchemaValidator,
  type PriorDiscovery,
  type StreamableHTTPClientTransport,
  type VersionNegotiationOptions,
} from '@modelcontextprotocol/client';
import { LRUCache } from 'lru-cache';
import { defined } from '../../contracts/defined.ts';
import { hashOf } from '../../domain/text/canonical.ts';
import type { Egress, GuardedFetch } from '../egress/fetch.ts';
import type { ServerConnection } from './port.ts';
import { type Exchange, openWire, renewedFetch, SessionTransport, transportOptions, type Wire } from './transport.ts';

/** Time in ms for a server to hear of a cancellation and to forget the session. */
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

/** Below the bound of servers with 32-bit ids, with room for the requests of a session. */
const FIRST_IDS = 2_000_000_000;

/** Random, since in one session no id may come twice, whichever worker asks (MCP 2025-11-25, "Requests"). */
export function firstId(): number {
  return randomInt(1, FIRST_IDS);
}

export interface SessionOptions {
  readonly connection: ServerConnection;
  readonly prior?: PriorDiscovery;
  /** Address to which an earlier session was redirected; goes with `prior`. */
  readonly at?: string;
  readonly connectMs: number;
  readonly signal: AbortSignal;
  readonly egress: Egress;
  readonly fetch?: GuardedFetch;
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
  /** The address at which its requests were answered. */
  readonly at: string;
  /** @param kept leaves the server's side open: there is work of ours in it */
  close(kept?: 'kept'): Promise<void>;
}

/** A session could not be opened; nothing was asked of any tool. */
export class ConnectFailure extends Error {
  override readonly name = 'ConnectFailure';
  readonly exchange: Exchange;
  readonly stopped: 'cancelled' | 'deadline' | undefined;
  constructor(cause: unknown, exchange: Exchange, stopped: 'cancelled' | 'deadline' | undefined) {
    super('no session with the server', { cause });
    this.exchange = exchange;
    this.stopped = stopped;
  }
}

/** `classify-result.ts` checks results, so the SDK need not build a validator for every call. */
const noValidator: jsonSchemaValidator = {
  // Sound: the SDK asks for T and gets the input back unchanged; its own validators do the same after checking it.
  getValidator:
    <T>(): JsonSchemaValidator<T> =>
    (input) => ({ valid: true, data: input as T, errorMessage: undefined }),
};

/**
 * Connects within `connectMs`.
 * @throws ConnectFailure if no session could be opened
 */
export async function openSession(options: SessionOptions): Promise<Session> {
  const { connection, prior, at = connection.url, connectMs, signal, egress, fetch, asks } = options;
  const wire = openWire({ egress, server: connection, ...defined({ fetch }) });
  const { accessToken, renewal } = connection;
  const http = accessToken === undefined || !renewal ? wire.fetch : renewedFetch(wire.fetch, accessToken, renewal);
  const standing = asks === 'heard' ? standingStream(http) : undefined;
  const transport = new SessionTransport(new URL(at), {
    fetch: standing?.fetch ?? withoutStandingStream(http),
    ...transportOptions(connection),
    reconnectionOptions: RESUME,
    streaming: () => wire.exchange().streamed === true,
    asks: asks !== undefined,
  });
  const client = new Client(
    { name: 'countersign', version: '0.1.0' },
    {
      capabilities: {},
      versionNegotiation: negotiationOf(connection.protocol),
      inputRequired: { autoFulfill: false },
      jsonSchemaValidator: noValidator,
    },
  );
  // A call that a server continues with questions must be another request by its id (MCP 2026-07-28, multi round-trip
  // requests), but the SDK begins at 0 in each session. Its counter is private; the MCP conformance suite fails if this
  // does not reach it.
  client['_requestMessageId'] = firstId();
  let stopped: 'cancelled' | 'deadline' | undefined;
  const stop = (why: 'cancelled' | 'deadline'): void => {
    stopped ??= why;
    // The negotiation probe takes no signal; closing its transport ends it.
    void transport.close().catch(() => {});
  };
  const onCancel = (): void => stop('cancelled');
  const timer = setTimeout(() => stop('deadline'), connectMs);
  signal.addEventListener('abort', onCancel, { once: true });
  try {
    signal.throwIfAborted();
    await client.connect(transport, { timeout: NEVER_MS, ...defined({ prior }) });
    if (client.getProtocolEra() === 'legacy') await standing?.opened();
    if (stopped !== undefined) throw new Error('stopped while the session was opened');
  } catch (error) {
    await transport.close().catch(() => {});
    await wire.close();
    throw new ConnectFailure(error, wire.exchange(), signal.aborted ? 'cancelled' : stopped);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onCancel);
  }
  const close: Session['close'] = (kept) => leaveSession(transport, wire, kept, transport.noticesSent(), client);
  return { client, transport, wire, learned: learnedBy(client), at: wire.movedTo(at), close };
}

/**
 * Ends a session. A server that does not react keeps its side, until that expires.
 * @param kept leaves the server's side open
 * @param before what the server hears first
 * @param client closes the transport by itself
 */
export async function leaveSession(
  transport: StreamableHTTPClientTransport,
  wire: Wire,
  kept?: 'kept',
  before: Promise<void> = Promise.resolve(),
  client: Pick<Client, 'close'> = transport,
): Promise<void> {
  if (kept === undefined) {
    const said = before.then(() => (transport.sessionId === undefined ? undefined : transport.terminateSession()));
    await patiently(said, LEAVE_MS);
  }
  await client.close().catch(() => {});
  await wire.close();
}

/** Waits for it, but not for long, and not for its success. */
async function patiently(waited: Promise<void>, ms: number): Promise<void> {
  const over = new AbortController();
  const patience = pause(ms, undefined, { signal: over.signal });
  await Promise.race([waited, patience]).catch(() => {});
  over.abort();
  await patience.catch(() => {});
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

/** Time in ms for a server to open the stream. A question before that is lost, and so is its time. */
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

function negotiationOf(protocol: ServerConnection['protocol']): VersionNegotiationOptions {
  // The SDK's default is `legacy`, which cannot talk to a server that has only the 2026-07-28 revision.
  return { mode: protocol === '2026-07-28' ? { pin: protocol } : protocol, probe: { timeoutMs: NEVER_MS } };
}

function learnedBy(client: Client): PriorDiscovery {
  const discover = client.getDiscoverResult();
  if (discover === undefined) return { kind: 'legacy' };
  // Instructions and metadata may be large, and are not used.
  const { supportedVersions, capabilities } = discover;
  return { kind: 'modern', discover: { supportedVersions, capabilities } };
}

// Remembers how servers speak, so that a call to a modern server costs no extra round trip. Only protocol era,
// versions, capabilities and the address within the server's origin are kept, and not for long: a server may be
// upgraded.

const MAX_SERVERS = 500;
const MAX_AGE_MS = 10 * 60_000;
const MAX_BYTES = 16_384;

/** The values with which a session is opened. */
export interface Known {
  readonly prior: PriorDiscovery;
  /** Address of the server after its redirects. */
  readonly at: string;
}

export interface Priors {
  recall(connection: ServerConnection): Known | undefined;
  learn(connection: ServerConnection, session: { readonly learned: PriorDiscovery; readonly at: string }): void;
  forget(connection: ServerConnection): void;
}

/** @param now epoch ms */
export function createPriors(now: () => number = Date.now): Priors {
  const known = new LRUCache<string, { readonly session: Known; readonly since: number }>({ max: MAX_SERVERS });
  return {
    recall(connection) {
      const entry = known.get(keyOf(connection));
      return entry === undefined || now() - entry.since > MAX_AGE_MS ? undefined : entry.session;
    },
    learn(connection, { learned: prior, at }) {
      // A server decides how large its capabilities are.
      if (JSON.stringify(prior).length > MAX_BYTES) return;
      known.set(keyOf(connection), { session: { prior, at }, since: now() });
    },
    forget(connection) {
      known.delete(keyOf(connection));
    },
  };
}

/**
 * Key of a server. A server may answer differently with and without authorization, and by header (a tenant, a feature
 * flag). It has no reason to speak another protocol to the holder of another token, and a token minted for one call
 * never comes again.
 */
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
