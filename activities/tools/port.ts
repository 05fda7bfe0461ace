/**
 * Talking to one MCP server. The gate stands before this port: whoever holds a `ToolServer` may call (INV-G1), so only the
 * dispatch and discovery activities hold one.
 *
 * 1. `call` never throws for what a server or network does: every ending is one of four kinds, told apart by whether the
 *    tool ran. It throws only for faults of our own.
 * 2. `not-sent` is claimed only where the request provably left no trace at the server.
 * 3. Nothing that is returned holds a secret of `secrets`, raw, hexadecimal, base64 or URL-encoded (INV-S1).
 */
import type { ErrorCode } from '../../contracts/errors.ts';
import type { ToolResult } from '../../contracts/schemas/call.ts';
import type { ServerConfig } from '../../contracts/schemas/config.ts';
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
  readonly signal: AbortSignal;
  readonly heartbeat: (details: CallProgress) => void;
}

/** Heartbeat details: what is known if this worker dies now. */
export interface CallProgress {
  readonly phase: 'connecting' | 'sent' | 'answered';
  readonly sentAt?: string;
  readonly progress?: number;
}

export type CallEnding =
  | { readonly kind: 'not-sent'; readonly code: ErrorCode; readonly message: string; readonly retryAfterMs?: number }
  /** The server refused before executing. */
  | {
      readonly kind: 'refused';
      readonly code: ErrorCode;
      readonly message: string;
      readonly retryAfterMs?: number;
      readonly requiredScope?: string;
    }
  | { readonly kind: 'executed'; readonly isError: boolean; readonly result: ToolResult }
  | {
      readonly kind: 'unknown';
      readonly code: ErrorCode;
      readonly message: string;
      /** Of an answer that came in part. */
      readonly bytes?: number;
    };

export interface ToolListing {
  readonly tools: readonly ToolDefinition[];
  readonly refused: readonly RefusedTool[];
}

export interface ToolServer {
  /** Throws `DISCOVERY_FAILED | TOOL_UNAUTHORIZED | TOOL_FORBIDDEN | TOOL_INSUFFICIENT_SCOPE` (`CountersignError`). */
  list(connection: ServerConnection, signal: AbortSignal): Promise<ToolListing>;
  call(connection: ServerConnection, call: ToolCall): Promise<CallEnding>;
}
