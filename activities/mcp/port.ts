/**
 * The port to one MCP server. The gate stands before it: a holder of a `ToolServer` may call (INV-G1), so only the
 * dispatch and discovery activities hold one.
 *
 * 1. `call` never throws for what a server or network does: every ending is one of six kinds, told apart by whether the
 *    tool ran. It throws only for faults of our own.
 * 2. `not-sent` is claimed only if the request provably left no trace at the server.
 * 3. A call of the tool `resources:read` is the protocol's `resources/read` of the argument `uri`. It has no effect
 *    that could be in doubt: the server's answer, an error included, is its end; only a lost answer is `unknown`.
 * 4. No returned value holds a secret of `secrets`, raw, hexadecimal, base64 or URL-encoded (INV-S1).
 */
import type { ErrorCode } from '../../contracts/errors.ts';
import type { ToolResult } from '../../contracts/schemas/call.ts';
import type { ServerConfig } from '../../contracts/schemas/config.ts';
import type { InputAnswer, InputRequests, InputResponse, SealedState } from '../../contracts/schemas/input.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { HostedBy, RefusedTool, ToolDefinition } from '../../contracts/schemas/tool.ts';

export interface ServerConnection {
  readonly name: string;
  /** Canonical server URL. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly protocol: ServerConfig['protocol'];
  readonly accessToken?: string;
  /** Set if the token is bound to a key: it leaves with proofs only. */
  readonly binding?: TokenBinding;
  /** Scrubbed from everything that is returned (INV-S1). */
  readonly secrets: readonly string[];
  /**
   * The server may ask people on the connection of a call. One of 2025-11-25 or before is told so for a listing too: it
   * may offer some tools only then.
   */
  readonly asks?: true;
  /** Gives another token for requests beside the call, if people may be asked in the middle of it. */
  readonly renewal?: TokenRenewal;
  /** Hash of the run and its authority: calls with the same one may share a session. */
  readonly keptFor?: string;
  /** The provider of a model is asked to call the server (`activities/hosted/`). */
  readonly hosted?: HostedBy;
}

export type SendRequest = (url: string, init: RequestInit) => Promise<Response>;

export interface BoundAnswer {
  readonly response: Response;
  /** The server asked for another nonce, and the request was not sent again. */
  readonly nonceWanted?: true;
  /** The server refused the token, and offered no way to show a bound one. */
  readonly declined?: true;
}

/** Proves with each request that this worker has the key to which a token is bound (DPoP, RFC 9449). */
export interface TokenBinding {
  /**
   * Sends a request with the token and a proof; once more if the server refused it for want of its nonce.
   * @param mayRepeat false if anything else speaks against the second time
   */
  send(
    token: string,
    url: string,
    init: RequestInit | undefined,
    send: SendRequest,
    mayRepeat?: () => boolean,
  ): Promise<BoundAnswer>;
  secrets(): readonly string[];
  /** True if the server refused the token last, and offered no way to show a bound one. */
  isDeclined(): boolean;
}

export interface TokenRenewal {
  /**
   * Mints another token; undefined if there is none.
   * @param refused the token that the server has refused
   * @throws CountersignError
   */
  mint(refused: string): Promise<string | undefined>;
  /** The binding of a token that it has given. */
  bindingOf?(token: string): TokenBinding | undefined;
  secrets(): readonly string[];
}

/**
 * Puts a question before people while its call's connection is held open; a question that nobody answers in time gives
 * `cancel`. It does not throw.
 *
 * @param signal aborted once nobody waits for the answer any more
 * @param said resolves once the server was given the answer, with a code if that failed; it may never resolve, and does
 * not reject
 */
export type AskPeople = (
  requests: InputRequests,
  signal: AbortSignal,
  said?: Promise<ErrorCode | undefined>,
) => Promise<InputResponse>;

export interface ToolCall {
  readonly definition: ToolDefinition;
  readonly arguments: JsonObject;
  readonly idempotencyKey: string;
  readonly timeoutMs: number;
  /** Bytes of the result that the model may see. */
  readonly resultBytes: number;
  /** Number of calls that share the turn's room, if `resultBytes` is such a share. */
  readonly sharedBy?: number;
  readonly signal: AbortSignal;
  readonly heartbeat: (details: CallProgress) => void;
  /** Lets a server of 2026-07-28 ask for input instead of giving a result. */
  readonly input?: ToolInput;
  /** Why the server may not ask, for the reader of the outcome. */
  readonly noInput?: string;
  /** Lets a server of 2025-11-25 or before ask on the open connection. The call's time stands still meanwhile. */
  readonly people?: AskPeople;
  /** Seals the place where the answer comes, for heartbeats; absent: they do not tell it. */
  readonly seal?: (point: ResumePoint) => Promise<SealedState>;
  /** Called if the call is cancelled: true if another worker will ask for the answer, and the server hears nothing. */
  readonly isHandedOn?: () => boolean;
  /** The call may run twice, and so leave by a connection that its server is perhaps about to close. */
  readonly repeatable?: boolean;
  readonly task?: WantedTask;
  /** For a hosted call: the id under which the provider asked for approval. */
  readonly approvalRequestId?: string;
  /** For a hosted call: the id of the stored answer that asks for it. Absent: the call states what it approves. */
  readonly storedAnswerId?: string;
}

/** The place of a call's answer in a server's event stream (MCP 2025-11-25, "Resumability"). Secret (INV-S1). */
export interface ResumePoint {
  readonly sessionId: string;
  readonly protocolVersion: string;
  /** Id of the `tools/call`, which the answer repeats. */
  readonly requestId: string | number;
  /** The answer comes after this event. */
  readonly eventId: string;
  /** ISO 8601. */
  readonly sentAt: string;
  /** How long the call's time has stood still while people were asked, in ms. Absent: not at all, or not known. */
  readonly heldMs?: number;
}

export interface WantedTask {
  /** How long the server should keep it, in ms. */
  readonly ttlMs: number;
  readonly only: boolean;
}

/** Ids that find a task at its server. Secret (INV-S1). */
export interface TaskId {
  readonly taskId: string;
  /** Servers keep tasks with the session in which they were begun. */
  readonly sessionId?: string;
  readonly version?: string;
}

/** People's answers to the questions of this call. */
export interface ToolInput {
  readonly answers: readonly InputAnswer[];
  /** The point at which the call continues; absent if it begins. */
  readonly leg?: Leg;
  /** The server no longer took its state, and the call began anew. */
  readonly begunAnew?: true;
  /** Id of this dispatch among those of the call. A call that begins anew has it in its idempotency key. */
  readonly dispatch: string;
}

/** One `tools/call` that continues an earlier one. */
export interface Leg {
  readonly responses: Readonly<Record<string, InputResponse>>;
  /** The state as the server gave it. Secret (INV-S1). */
  readonly state?: string;
  /** Hashes of the questions that were answered since the call began. */
  readonly used: readonly string[];
}

/** Heartbeat details: what is known if this worker dies now. */
export interface CallProgress {
  readonly phase: 'connecting' | 'sent' | 'answered';
  readonly sentAt?: string;
  readonly progress?: number;
  readonly total?: number;
  readonly resume?: SealedState;
}

/** The state of the server that an ending shows: no answer, or one that it cannot serve (5xx). */
export type ServerFault = 'timeout' | 'failure';

/** `neutral`: nothing was learned about the server. */
export type Health = 'up' | 'down' | 'neutral';

export interface ServerSign {
  readonly health: Health;
  /** The time that the server asked for, in ms, and the code of its answer. */
  readonly asked?: { readonly code: ErrorCode; readonly ms: number } | undefined;
}

interface FailedEnding {
  readonly code: ErrorCode;
  readonly message: string;
  readonly fault?: ServerFault;
}

export type CallEnding =
  | (FailedEnding & { readonly kind: 'not-sent'; readonly retryAfterMs?: number })
  /** The server refused before executing (INV-X1). */
  | (FailedEnding & { readonly kind: 'refused'; readonly retryAfterMs?: number; readonly requiredScope?: string })
  | { readonly kind: 'executed'; readonly isError: boolean; readonly result: ToolResult }
  /** The server asks for input that nobody has given yet. `state` is secret. */
  | {
      readonly kind: 'input';
      readonly requests: InputRequests;
      readonly state?: string;
      readonly used: readonly string[];
    }
  /** The server works on it, and its session is left open. */
  | {
      readonly kind: 'task';
      readonly id: TaskId;
      readonly pollMs?: number;
      /** How long the server keeps it from now on, in ms. */
      readonly ttlMs?: number;
      readonly message?: string;
    }
  | (FailedEnding & {
      readonly kind: 'unknown';
      /** Received bytes of a partial answer. */
      readonly bytes?: number;
      /** The answer was asked for with a token that the server refused. */
      readonly unauthorized?: true;
    });

export interface ToolListing {
  readonly tools: readonly ToolDefinition[];
  readonly refused: readonly RefusedTool[];
  readonly resources?: true;
}

export interface ListOptions {
  /** Lets the list use remembered facts about the server. */
  readonly known?: boolean;
}

export interface ToolServer {
  /**
   * @throws CountersignError `DISCOVERY_FAILED`, `EGRESS_FORBIDDEN`, `TOOL_UNAUTHORIZED`, `TOOL_FORBIDDEN`,
   * `TOOL_INSUFFICIENT_SCOPE`
   */
  list(connection: ServerConnection, signal: AbortSignal, options?: ListOptions): Promise<ToolListing>;
  call(connection: ServerConnection, call: ToolCall): Promise<CallEnding>;
  close?(): Promise<void>;
}
