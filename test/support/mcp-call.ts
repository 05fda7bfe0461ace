/** Builds the arguments of a `ToolServer`, with defaults for what a test does not name. */
import type { CallProgress, ServerConnection, ToolCall } from '../../activities/mcp/port.ts';
import type { ToolDefinition } from '../../contracts/schemas/tool.ts';

export function aConnection(fields: Partial<ServerConnection> & Pick<ServerConnection, 'url'>): ServerConnection {
  return { name: 'files', headers: {}, protocol: 'auto', secrets: [], ...fields };
}

export function aDefinition(fields: Partial<ToolDefinition> = {}): ToolDefinition {
  return { name: 'write_file', inputSchema: { type: 'object' }, ...fields };
}

export interface RecordedCall extends ToolCall {
  /** Heartbeat details, in order. */
  readonly beats: readonly CallProgress[];
}

export function aCall(fields: Partial<ToolCall> = {}): RecordedCall {
  const beats: CallProgress[] = [];
  return {
    definition: aDefinition(),
    arguments: {},
    idempotencyKey: 'run-1/t1.c0',
    timeoutMs: 20_000,
    resultBytes: 65_536,
    signal: new AbortController().signal,
    heartbeat: (details) => beats.push(details),
    beats,
    ...fields,
  };
}
