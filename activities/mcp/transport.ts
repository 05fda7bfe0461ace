/**
 * The SDK's HTTP transport, with the six things that an at-most-once caller needs, and the check of `x-mcp-header`
 * declarations.
 *
 * 1. A request whose answer can no longer come is reported (`onLost`). The SDK would wait for its timeout instead
 *    (typescript-sdk#2739): its `RequestOptions.onRequestStreamEnd` is typed but not read in 2.4.0.
 * 2. The raw answer is kept (`answer`). The SDK rejects a result that it cannot parse, and a completed side effect
 *    would be lost.
 * 3. Events that have passed in the stream of the answer are told (`onPassed`), up to the answer itself, which comes
 *    after them.
 * 4. Cancellation notices are awaitable (`noticesSent`): the SDK sends them without waiting.
 * 5. That people may be asked is declared with `initialize` alone (`asks`), which only servers before 2026-07-28 are
 *    sent. The SDK's client would declare it to every server.
 * 6. A request of the server in the middle of a request is noted (`asked`), even if the SDK answers it by itself.
 */
import {
  isJSONRPCErrorResponse,
  isJSONRPCRequest,
  isJSONRPCResultResponse,
  type JSONRPCMessage,
  type RequestId,
  StreamableHTTPClientTransport,
  type StreamableHTTPClientTransportOptions,
} from '@modelcontextprotocol/client';
import type { JsonObject, JsonValue } from '../../contracts/schemas/json.ts';

/**
 * A server's `retry` (HTML, "Server-sent events") is a number of any size: beyond the range of a timer it would be no
 * pause at all.
 */
export const LONGEST_RETRY_MS = 60_000;
const SHORTEST_RETRY_MS = 100;

/** The parameter of the base class; `TransportSendOptions` differs in optional properties. */
type SendOptions = Parameters<StreamableHTTPClientTransport['send']>[1];

export type RawAnswer =
  | { readonly kind: 'result'; readonly result: Readonly<Record<string, unknown>> }
  /** `reason` is that of the error's data, if it is a word. */
  | { readonly kind: 'error'; readonly code: number; readonly message: string; readonly reason?: string };

export interface SessionTransportOptions extends StreamableHTTPClientTransportOptions {
  /** True if the answer to the last request sent is an event stream, which is still being read when `send` returns. */
  readonly streaming: () => boolean;
  /** The server may ask people. */
  readonly asks?: boolean;
}

/** Questions in the terms of a client's capabilities. Sampling and roots are not among them. */
export const ASKING = { elicitation: { form: {}, url: {} } };

/** Transport of one session; it keeps the answer to one request at a time. */
export class SessionTransport extends StreamableHTTPClientTransport {
  /** The answer to the latest request about a tool, a task or a resource. */
  answer: RawAnswer | undefined;
  /** The server has made a request of its own since then: it works on the call, whatever it says in the end. */
  asked = false;
  onLost: (() => void) | undefined;
  onPassed: ((requestId: RequestId, eventId: string) => void) | undefined;
  /** Called when our answer to a request of the server was sent, or could not be given to it. */
  onSaid: ((requestId: RequestId, failure?: { readonly error: unknown }) => void) | undefined;
  /** For callers without the SDK's client, which waits for answers by itself. */
  onAnswer: (() => void) | undefined;
  readonly #streaming: () => boolean;
  readonly #asks: boolean;
  readonly #notices = new Set<Promise<void>>();
  #awaited: RequestId | undefined;

  constructor(url: URL, { streaming, asks = false, ...options }: SessionTransportOptions) {
    super(url, { reconnectionScheduler: withinBounds, ...options });
    this.#streaming = streaming;
    this.#asks = asks;
    // Set before `connect`, which chains the handler it finds; it sees every message that passed the wire schema of
    // JSON-RPC.
    this.onmessage = (message) => this.#keep(message);
  }

  override async send(message: JSONRPCMessage | JSONRPCMessage[], options?: SendOptions): Promise<void> {
    if (!Array.isArray(message) && isJSONRPCRequest(message) && isAwaited(message.method)) {
      this.answer = undefined;
      this.asked = false;
      this.#awaited = message.id;
      await super.send(message, {
        ...options,
        onresumptiontoken: (eventId) => this.#passed(message.id, eventId),
        onRequestStreamEnd: () => {
          options?.onRequestStreamEnd?.();
          this.#ended(message.id);
        },
      });
      if (!this.#streaming()) this.#ended(message.id);
      return;
    }
    const sending = super.send(this.#asks ? declaring(message) : message, options);
    if (!Array.isArray(message) && !('method' in message) && message.id !== undefined) {
      const { id } = message;
      void sending.then(
        () => this.onSaid?.(id),
        (error: unknown) => this.onSaid?.(id, { error }),
      );
    }
    if (!Array.isArray(message) && 'method' in message && message.method === 'notifications/cancelled') {
      this.#notices.add(sending);
    }
    await sending;
  }

  async noticesSent(): Promise<void> {
    await Promise.allSettled(this.#notices);
  }

  #keep(message: JSONRPCMessage): void {
    // A ping is about the connection, and comes at any time.
    if (isJSONRPCRequest(message) && message.method !== 'ping' && this.#awaited !== undefined) this.asked = true;
    if (!('id' in message) || message.id !== this.#awaited) return;
    if (isJSONRPCResultResponse(message)) this.answer = { kind: 'result', result: message.result };
    else if (isJSONRPCErrorResponse(message)) {
      const { code, message: text, data } = message.error;
      this.answer = { kind: 'error', code, message: text, ...reasonIn(data) };
    }
    if (this.answer !== undefined) this.onAnswer?.();
  }

  /** Deferred, so that an event which holds the answer is recognised: nothing comes after it. */
  #passed(id: RequestId, eventId: string): void {
    setImmediate(() => {
      if (this.#awaited === id && this.answer === undefined) this.onPassed?.(id, eventId);
    });
  }

  /** No more can come for this request. Deferred, so that an answer that has just come is handled first. */
  #ended(id: RequestId): void {
    setImmediate(() => {
      if (this.#awaited === id && this.answer === undefined) this.onLost?.();
    });
  }
}

function declaring(message: JSONRPCMessage | JSONRPCMessage[]): JSONRPCMessage | JSONRPCMessage[] {
  if (Array.isArray(message) || !isJSONRPCRequest(message) || message.method !== 'initialize') return message;
  return { ...message, params: { ...message.params, capabilities: ASKING } };
}

function withinBounds(reconnect: () => void, delayMs: number): () => void {
  const timer = setTimeout(reconnect, Math.min(Math.max(delayMs, SHORTEST_RETRY_MS), LONGEST_RETRY_MS));
  return () => clearTimeout(timer);
}

function reasonIn(data: unknown): { readonly reason?: string } {
  if (typeof data !== 'object' || data === null || !('reason' in data)) return {};
  return typeof data.reason === 'string' ? { reason: data.reason } : {};
}

function isAwaited(method: string): boolean {
  return /^(?:tools|tasks)\//.test(method) || method === 'resources/read';
}

// A client MUST leave out a tool whose `x-mcp-header` declarations are not legal (MCP 2026-07-28, Streamable HTTP
// "Schema Extension"; SEP-2243): its calls could not carry the headers that the server asks for.
//
// The SDK applies the rule only inside its own `listTools`, which fails as a whole on one malformed tool.

const KEY = 'x-mcp-header';
/** RFC 9110 §5.6.2. */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const PRIMITIVES: readonly JsonValue[] = ['string', 'integer', 'boolean'];

/** Keywords whose value is data, not a schema. */
const DATA = new Set(['default', 'const', 'enum', 'examples']);
/** Keywords whose value maps names to schemas. */
const NAMED = new Set(['properties', 'patternProperties', 'dependentSchemas', '$defs', 'definitions']);

/** Describes the fault; undefined if there is none. */
export function paramHeaderFault(inputSchema: JsonObject): string | undefined {
  const seen = new Set<string>();

  const faultOf = (declared: JsonValue, type: JsonValue | undefined): string | undefined => {
    if (typeof declared !== 'string' || !TOKEN.test(declared)) return `${KEY} is no HTTP token`;
    if (type === undefined || !PRIMITIVES.includes(type))
      return `${KEY} "${declared}" is not on a string, integer or boolean`;
    const name = declared.toLowerCase();
    if (seen.has(name)) return `${KEY} "${declared}" is declared twice`;
    seen.add(name);
    return undefined;
  };

  /** `reachable` means reached by a chain of `properties` alone, below the root. */
  const visit = (node: JsonValue | undefined, reachable: boolean): string | undefined => {
    if (Array.isArray(node)) return first(node, (item: JsonValue) => visit(item, false));
    if (!isObject(node)) return undefined;
    const declared = node[KEY];
    if (declared !== undefined) {
      const fault = reachable ? faultOf(declared, node['type']) : `${KEY} stands where no chain of properties leads`;
      if (fault !== undefined) return fault;
    }
    const chained = node === inputSchema || reachable;
    return first(Object.entries(node), ([keyword, below]) => {
      if (DATA.has(keyword)) return undefined;
      if (!NAMED.has(keyword)) return visit(below, false);
      return isObject(below)
        ? first(Object.values(below), (named) => visit(named, chained && keyword === 'properties'))
        : undefined;
    });
  };

  return visit(inputSchema, false);
}

function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function first<Item>(items: readonly Item[], faultOf: (item: Item) => string | undefined): string | undefined {
  for (const item of items) {
    const fault = faultOf(item);
    if (fault !== undefined) return fault;
  }
  return undefined;
}
