/**
 * Talking to one MCP server. The gate stands before this port: whoever holds a `ToolServer` may call (INV-G1), so only the
 * dispatch and discovery activities hold one.
 *
 * 1. `call` never throws for what a server or network does: every ending is one of six kinds, told apart by whether the
 *    tool ran. It throws only for faults of our own.
 * 2. `not-sent` is claimed only where the request provably left no trace at the server.
 * 3. A call of the tool `resources:read` is the protocol's `resources/read` of the argument `uri`. It has no effect to be unsure
 *    of: what the server answers, an error included, is its end; only a lost answer is `unknown`.
 * 4. Nothing that is returned holds a secret of `secrets`, raw, hexadecimal, base64 or URL-encoded (INV-S1).
 */
import type { ErrorCode } from '../../contracts/errors.ts';
import type { ToolResult } from '../../contracts/schemas/call.ts';
import type { ServerConfig } from '../../contracts/schemas/config.ts';
import type { InputAnswer, InputRequests, InputResponse, SealedState } from '../../contracts/schemas/input.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { RefusedTool, ToolDefinition } from '../../contracts/schemas/tool.ts';

export interface ServerConnection {
  readonly name: string;
  /** Canonical server URL. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly protocol: ServerConfig['protocol'];
  readonly accessToken?: string;
  /** Scrubbed from all that is returned. */
  readonly secrets: readonly string[];
  /**
   * It may ask people on the connection of a call, by the operator's word. Where it speaks 2025-11-25 or before it is told so for a
   * listing, too: such servers offer some tools only to those who say that they can be asked.
   */
  readonly asks?: true;
  /** Another token for what is sent beside the call, where people may be asked in the middle of it. */
  readonly renewal?: TokenRenewal;
}

export interface TokenRenewal {
  /** When the connection's own token ends, where that is known. ISO 8601. */
  readonly expiresAt?: string;
  /** Undefined where there is none. @param refused the server has turned this one away @throws CountersignError */
  mint(
    refused?: string,
  ): Promise<{ readonly accessToken: string; readonly expiresAt?: string | undefined } | undefined>;
  /** Of all that it has given. */
  secrets(): readonly string[];
}

/**
 * Puts a question before people while its call's connection is held open; what nobody answers in time is `cancel`. Does not throw.
 *
 * @param signal nobody waits for the answer any more
 * @param said resolves once the server was given the answer, with a code where that failed; or never, and does not reject
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
  /** What the model may see of the result; the rest goes to the artifact store. */
  readonly resultBytes: number;
  /** Calls of the turn, where they share the turn's room and `resultBytes` is the share. */
  readonly sharedBy?: number;
  readonly signal: AbortSignal;
  readonly heartbeat: (details: CallProgress) => void;
  /** Where the server may ask for input in place of a result. It is told so only in a session of 2026-07-28. */
  readonly input?: ToolInput;
  /** Why it may not, for whoever reads what became of the call. */
  readonly noInput?: string;
  /**
   * Where the server may ask on the open connection, and waits there for the answer. It is told so only in a session of 2025-11-25
   * or before, and the call's time stands still meanwhile.
   */
  readonly people?: AskPeople;
  /** Where the answer comes is said in heartbeats, sealed by this. Absent: it is not said. */
  readonly seal?: (point: ResumePoint) => Promise<SealedState>;
  /** Asked where the call is cancelled: it is wanted still, and another worker will ask for the answer. Then the server hears nothing. */
  readonly isHandedOn?: () => boolean;
  /** It is sent as a task, where the server takes tasks. */
  readonly task?: WantedTask;
}

/** Where in a server's stream of events the answer to a call comes (MCP 2025-11-25, transports, "Resumability"). Secret (INV-S1). */
export interface ResumePoint {
  readonly sessionId: string;
  readonly protocolVersion: string;
  /** Of the `tools/call`; the answer has it. */
  readonly requestId: string | number;
  /** After it the answer comes. */
  readonly eventId: string;
  /** ISO 8601. */
  readonly sentAt: string;
  /** For how long the time of the call has stood still since, while people were asked. Absent: for none; earlier releases know of none. */
  readonly heldMs?: number;
}

/** A call whose answer is asked for, and which is not sent. */
export interface AskedAnswer extends Omit<
  ToolCall,
  'arguments' | 'idempotencyKey' | 'input' | 'noInput' | 'people' | 'task'
> {
  readonly point: ResumePoint;
  /** The same, sealed: said again as long as nothing newer is known. */
  readonly resume: SealedState;
  /** The answer may be a task: its session is left open then. */
  readonly mayBeTask?: true;
}

export interface WantedTask {
  /** How long the server should keep it. */
  readonly ttlMs: number;
  /** The tool cannot be called otherwise. */
  readonly only: boolean;
}

/** By which a task is found at its server. Secret (INV-S1). */
export interface TaskId {
  readonly taskId: string;
  /** Servers keep tasks with the session in which they were begun. */
  readonly sessionId?: string;
  readonly version?: string;
}

/** What people have answered to the questions of this call. */
export interface ToolInput {
  readonly answers: readonly InputAnswer[];
  /** Where the call goes on; absent: it begins. */
  readonly leg?: Leg;
  /** The server did not take its state any more, and the call began anew. */
  readonly begunAnew?: true;
  /** Of this dispatch among those of the call; a call that begins anew has it in its idempotency key, so that it is a new one. */
  readonly dispatch: string;
}

/** One `tools/call` that continues an earlier one. */
export interface Leg {
  readonly responses: Readonly<Record<string, InputResponse>>;
  /** As the server gave it. Secret (INV-S1). */
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
  /** Where another worker can ask for the answer. */
  readonly resume?: SealedState;
}

/** What of an end tells of the server and not of the call: it did not answer, or answered that it cannot (5xx). */
export type ServerFault = 'timeout' | 'failure';

export type CallEnding =
  | {
      readonly kind: 'not-sent';
      readonly code: ErrorCode;
      readonly message: string;
      readonly retryAfterMs?: number;
      readonly fault?: ServerFault;
    }
  /** The server refused before executing. */
  | {
      readonly kind: 'refused';
      readonly code: ErrorCode;
      readonly message: string;
      readonly retryAfterMs?: number;
      readonly requiredScope?: string;
      readonly fault?: ServerFault;
    }
  | { readonly kind: 'executed'; readonly isError: boolean; readonly result: ToolResult }
  /** The server has not finished: it asks for what nobody has answered yet. `state` is secret. */
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
      /** How long the server keeps it, from now on. */
      readonly ttlMs?: number;
      readonly message?: string;
    }
  | {
      readonly kind: 'unknown';
      readonly code: ErrorCode;
      readonly message: string;
      /** Of an answer that came in part. */
      readonly bytes?: number;
      /** The answer was asked for with a token that the server refused. */
      readonly unauthorized?: true;
      readonly fault?: ServerFault;
    };

export interface ToolListing {
  readonly tools: readonly ToolDefinition[];
  readonly refused: readonly RefusedTool[];
  /** The server says that it has resources. */
  readonly resources?: true;
}

export interface ListOptions {
  /** What is known of how the server speaks may be used, so that a modern one is sent the list's request alone. */
  readonly known?: boolean;
}

export interface ToolServer {
  /** Throws `DISCOVERY_FAILED | EGRESS_FORBIDDEN | TOOL_UNAUTHORIZED | TOOL_FORBIDDEN | TOOL_INSUFFICIENT_SCOPE` (`CountersignError`). */
  list(connection: ServerConnection, signal: AbortSignal, options?: ListOptions): Promise<ToolListing>;
  call(connection: ServerConnection, call: ToolCall): Promise<CallEnding>;
}

/** Whoever holds one can learn what a call came to, and send none. */
export interface AnswerSource {
  /** The answer to a call that another worker sent, or `unknown`. */
  resume(connection: ServerConnection, asked: AskedAnswer): Promise<CallEnding>;
}
