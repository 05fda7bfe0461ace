/**
 * Talking to one MCP server. The gate stands before this port: whoever holds a `ToolServer` may call (INV-G1), so only the
 * dispatch and discovery activities hold one.
 *
 * 1. `call` never throws for what a server or network does: every ending is one of five kinds, told apart by whether the
 *    tool ran. It throws only for faults of our own.
 * 2. `not-sent` is claimed only where the request provably left no trace at the server.
 * 3. Nothing that is returned holds a secret of `secrets`, raw, hexadecimal, base64 or URL-encoded (INV-S1).
 */
import type { ErrorCode } from '../../contracts/errors.ts';
import type { ToolResult } from '../../contracts/schemas/call.ts';
import type { ServerConfig } from '../../contracts/schemas/config.ts';
import type { InputAnswer, InputRequests, InputResponse } from '../../contracts/schemas/input.ts';
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
}

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
  | {
      readonly kind: 'unknown';
      readonly code: ErrorCode;
      readonly message: string;
      /** Of an answer that came in part. */
      readonly bytes?: number;
      readonly fault?: ServerFault;
    };

export interface ToolListing {
  readonly tools: readonly ToolDefinition[];
  readonly refused: readonly RefusedTool[];
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
