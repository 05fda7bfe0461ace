/**
 * The SDK's HTTP transport, with the three things an at-most-once caller needs of it.
 *
 * 1. A request whose answer can no longer come is reported (`onLost`). The SDK would wait for its timeout instead
 *    (typescript-sdk#2739): its `RequestOptions.onRequestStreamEnd` is typed but not read in 2.4.0.
 * 2. The raw answer is kept (`answer`). The SDK rejects a result that it cannot parse, and a completed side effect would be lost.
 * 3. Cancellation notices are awaitable (`noticesSent`): the SDK sends them without waiting.
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

/** What the base class takes; `TransportSendOptions` differs in optional properties. */
type SendOptions = Parameters<StreamableHTTPClientTransport['send']>[1];

export type RawAnswer =
  | { readonly kind: 'result'; readonly result: Readonly<Record<string, unknown>> }
  /** `reason`: of the error's data, where it is a word. */
  | { readonly kind: 'error'; readonly code: number; readonly message: string; readonly reason?: string };

export interface SessionTransportOptions extends StreamableHTTPClientTransportOptions {
  /** Whether the answer to the request that was sent last is an event stream, which is still being read when `send` returns. */
  readonly streaming: () => boolean;
}

export class SessionTransport extends StreamableHTTPClientTransport {
  /** The answer to the latest `tools/*` request. */
  answer: RawAnswer | undefined;
  onLost: (() => void) | undefined;
  readonly #streaming: () => boolean;
  readonly #notices = new Set<Promise<void>>();
  #awaited: RequestId | undefined;

  constructor(url: URL, { streaming, ...options }: SessionTransportOptions) {
    super(url, options);
    this.#streaming = streaming;
    // Set before `connect`, which chains what it finds here; it sees every message that passed the wire schema of JSON-RPC.
    this.onmessage = (message) => this.#keep(message);
  }

  override async send(message: JSONRPCMessage | JSONRPCMessage[], options?: SendOptions): Promise<void> {
    if (!Array.isArray(message) && isJSONRPCRequest(message) && message.method.startsWith('tools/')) {
      this.answer = undefined;
      this.#awaited = message.id;
      await super.send(message, {
        ...options,
        onRequestStreamEnd: () => {
          options?.onRequestStreamEnd?.();
          this.#ended(message.id);
        },
      });
      if (!this.#streaming()) this.#ended(message.id);
      return;
    }
    const sending = super.send(message, options);
    if (!Array.isArray(message) && 'method' in message && message.method === 'notifications/cancelled') {
      this.#notices.add(sending);
    }
    await sending;
  }

  async noticesSent(): Promise<void> {
    await Promise.allSettled(this.#notices);
  }

  #keep(message: JSONRPCMessage): void {
    if (!('id' in message) || message.id !== this.#awaited) return;
    if (isJSONRPCResultResponse(message)) this.answer = { kind: 'result', result: message.result };
    else if (isJSONRPCErrorResponse(message)) {
      const { code, message: text, data } = message.error;
      this.answer = { kind: 'error', code, message: text, ...reasonIn(data) };
    }
  }

  /** No more can come for this request. Deferred, so that an answer that has just come is handled first. */
  #ended(id: RequestId): void {
    setImmediate(() => {
      if (this.#awaited === id && this.answer === undefined) this.onLost?.();
    });
  }
}

function reasonIn(data: unknown): { readonly reason?: string } {
  if (typeof data !== 'object' || data === null || !('reason' in data)) return {};
  return typeof data.reason === 'string' ? { reason: data.reason } : {};
}
