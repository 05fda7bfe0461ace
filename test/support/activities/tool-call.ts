/** Builds the arguments of a `ToolServer`, with defaults for what a test does not name. */
import { createMemoryStore } from '../../../activities/artifacts/memory.ts';
import type { ArtifactStore } from '../../../activities/artifacts/port.ts';
import type { Egress } from '../../../activities/egress/fetch.ts';
import type { CallProgress, ServerConnection, ToolCall, ToolServer } from '../../../activities/mcp/port.ts';
import type { ToolDefinition } from '../../../contracts/schemas/tool.ts';

/** An adapter of the port as its conformance suites need it. */
export interface ToolServerHarness {
  readonly name: string;
  /** A new one, which has not spoken to anybody yet. */
  create(parts?: {
    readonly artifacts?: ArtifactStore;
    readonly egress?: Egress;
    readonly connectMs?: number;
  }): ToolServer;
}

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

// Makes an artifact store that remembers everything put into it, for tests that ask what was stored.

export interface ObservedArtifacts extends ArtifactStore {
  readonly stored: readonly { readonly bytes: Uint8Array; readonly contentType: string }[];
}

export function observedArtifacts(): ObservedArtifacts {
  const store = createMemoryStore();
  const stored: { readonly bytes: Uint8Array; readonly contentType: string }[] = [];
  return {
    stored,
    put(bytes, contentType) {
      stored.push({ bytes: Uint8Array.from(bytes), contentType });
      return store.put(bytes, contentType);
    },
    get: (ref) => store.get(ref),
  };
}
