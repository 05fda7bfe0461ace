/**
 * One connection to one MCP server, for one discovery or one call.
 *
 * Owns the choice of protocol era and an orderly end. Does not own what is asked over it.
 *
 * 1. A fresh client and transport every time: the SDK does not recover lost sessions (typescript-sdk#1708).
 * 2. The SDK never authorizes by itself: the token is given, and 403 insufficient_scope is an error (INV-S2). Its default would
 *    fetch a wider token and run the tool.
 * 3. No client capability is declared, so a server may not ask for elicitation, sampling or roots while a call is held open.
 */
import { randomInt } from 'node:crypto';
import {
  Client,
  type DiscoverResult,
  type JsonSchemaValidator,
  type jsonSchemaValidator,
  type PriorDiscovery,
  type VersionNegotiationOptions,
} from '@modelcontextprotocol/client';
import type { Egress, GuardedFetch } from '../egress/fetch.ts';
import type { ServerConnection } from './port.ts';
import { SessionTransport } from './transport.ts';
import { type Exchange, openWire, type Wire } from './wire.ts';

/** What a server may take to be left: to hear of a cancellation and to forget the session. */
const LEAVE_MS = 250;

/** How long a server that gave event ids is asked to resume a broken stream; the call's deadline holds all the same. */
const RESUME = {
  initialReconnectionDelay: 250,
  maxReconnectionDelay: 5_000,
  reconnectionDelayGrowFactor: 2,
  maxRetries: 4,
};

/** Far beyond every deadline of ours: the SDK's own 60 s timer must never be the one that ends a call. */
export const NEVER_MS = 2_147_483_647;

/** Below what servers with 32-bit ids hold, with room for the requests of a session. */
const FIRST_IDS = 2_000_000_000;

export interface SessionOptions {
  readonly connection: ServerConnection;
  readonly prior?: PriorDiscovery;
  readonly connectMs: number;
  readonly signal: AbortSignal;
  readonly egress: Egress;
  readonly fetch?: GuardedFetch;
}

export interface Session {
  readonly client: Client;
  readonly transport: SessionTransport;
  readonly wire: Wire;
  /** What the next session with this server may take as known. */
  readonly learned: PriorDiscovery;
  close(): Promise<void>;
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

/** Results are checked by `output-schema.ts`, so the SDK need not build a validator for every call. */
const noValidator: jsonSchemaValidator = {
  // Sound: the SDK asks for T and gets the input back as it came; its own validators do the same after looking at it.
  getValidator:
    <T>(): JsonSchemaValidator<T> =>
    (input) => ({ valid: true, data: input as T, errorMessage: undefined }),
};

export async function openSession(options: SessionOptions): Promise<Session> {
  const { connection, prior, connectMs, signal, egress, fetch } = options;
  const wire = openWire({ egress, server: connection, ...(fetch === undefined ? {} : { fetch }) });
  const { accessToken } = connection;
  const transport = new SessionTransport(new URL(connection.url), {
    fetch: withoutStandingStream(wire.fetch),
    reconnectionOptions: RESUME,
    requestInit: { headers: { ...connection.headers } },
    redirectPolicy: 'same-origin',
    onInsufficientScope: 'throw',
    streaming: () => wire.exchange().streamed === true,
    ...(accessToken === undefined ? {} : { authProvider: { token: () => Promise.resolve(accessToken) } }),
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
  // A call that a server continues with questions must be another request by its id (MCP 2026-07-28, multi round-trip requests), and
  // the SDK begins at 0 in each session. Its counter is private; the suite of MCP conformance fails where this does not reach it.
  client['_requestMessageId'] = randomInt(1, FIRST_IDS);
  let stopped: 'cancelled' | 'deadline' | undefined;
  const stop = (why: 'cancelled' | 'deadline'): void => {
    stopped ??= why;
    // The negotiation probe takes no signal; closing its transport is what ends it.
    void transport.close().catch(() => {});
  };
  const onCancel = (): void => stop('cancelled');
  const timer = setTimeout(() => stop('deadline'), connectMs);
  signal.addEventListener('abort', onCancel, { once: true });
  try {
    signal.throwIfAborted();
    await client.connect(transport, { timeout: NEVER_MS, ...(prior === undefined ? {} : { prior }) });
  } catch (error) {
    await transport.close().catch(() => {});
    await wire.close();
    throw new ConnectFailure(error, wire.exchange(), signal.aborted ? 'cancelled' : stopped);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onCancel);
  }
  return { client, transport, wire, learned: learnedBy(client), close: () => leave(client, transport, wire) };
}

async function leave(client: Client, transport: SessionTransport, wire: Wire): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const farewell = transport
    .noticesSent()
    .then(() => (transport.sessionId === undefined ? undefined : transport.terminateSession()));
  const patience = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, LEAVE_MS);
  });
  // A server that will not be left in peace keeps its session; its own expiry ends it.
  await Promise.race([farewell.catch(() => {}), patience]);
  clearTimeout(timer);
  await client.close().catch(() => {});
  await wire.close();
}

/**
 * The SDK opens a standing GET stream for a server's own messages in every legacy session. Nothing here listens to them, and a
 * client need not have one (MCP 2025-11-25, transports): it is answered as a server without it would. Resuming needs GET.
 */
function withoutStandingStream(fetch: Wire['fetch']): Wire['fetch'] {
  return (url, init) =>
    init?.method === 'GET' && !new Headers(init.headers).has('last-event-id')
      ? Promise.resolve(new Response(null, { status: 405 }))
      : fetch(url, init);
}

function negotiationOf(protocol: ServerConnection['protocol']): VersionNegotiationOptions {
  // The SDK's default is `legacy`, which cannot talk to a server of the 2026-07-28 revision alone.
  return { mode: protocol === '2026-07-28' ? { pin: protocol } : protocol, probe: { timeoutMs: NEVER_MS } };
}

function learnedBy(client: Client): PriorDiscovery {
  const discover = client.getDiscoverResult();
  return discover === undefined ? { kind: 'legacy' } : { kind: 'modern', discover: essenceOf(discover) };
}

/** Without instructions and metadata, which may be large and are not used. */
function essenceOf({ supportedVersions, capabilities }: DiscoverResult): DiscoverResult {
  return { supportedVersions, capabilities };
}
