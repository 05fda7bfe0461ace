/**
 * Serves a well-behaved MCP server on loopback that records every `tools/call`: the truth about what was
 * executed.
 *
 * 1. A call is in `calls` from the moment the server acts on it, even if nobody waits for its answer any more.
 * 2. `slow` answers when the test says so, never after a time.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, Server, type Tool } from '@modelcontextprotocol/server';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import { until } from './until.ts';
import { listenerOf, listenOnLoopback } from './loopback-server.ts';

export interface ExecutedCall {
  readonly tool: string;
  readonly arguments: JsonObject;
  readonly headers: IncomingHttpHeaders;
}

export interface RecordingServer {
  readonly url: string;
  readonly calls: readonly ExecutedCall[];
  /** Every JSON-RPC method that came. */
  readonly methods: readonly string[];
  /** Returns the calls with this purpose, an argument that each test sets: one log serves all tests of a file. */
  callsFor(purpose: string, tool?: string): readonly ExecutedCall[];
  /** Waits until this many `slow` calls of this purpose are held. */
  held(purpose: string, count?: number): Promise<void>;
  /** Lets held and later calls of this purpose finish. */
  release(purpose: string): void;
  /** Number of slow calls of this purpose that the client gave up. */
  abandoned(purpose: string): number;
  close(): Promise<void>;
}

const object = { type: 'object' } as const;

/** `pay` changes things, `lookup` declares that it does not, `slow` waits for the test, `fail` reports an error. */
export const TOOLS: readonly Tool[] = [
  { name: 'pay', description: 'Pays an amount.', inputSchema: object, annotations: { destructiveHint: true } },
  { name: 'lookup', description: 'Looks something up.', inputSchema: object, annotations: { readOnlyHint: true } },
  { name: 'odd', description: 'Says "true" where a boolean belongs.', inputSchema: object },
  { name: 'slow', description: 'Takes its time.', inputSchema: object },
  { name: 'fail', description: 'Always fails.', inputSchema: object },
  { name: 'bare', inputSchema: object },
  { name: 'big', description: 'Answers with so many characters.', inputSchema: object },
  { name: 'transfer', inputSchema: { ...object, properties: { amount: { type: 'number' } }, required: ['amount'] } },
];

interface Hold {
  readonly purpose: string;
  readonly release: () => void;
}

export async function startRecordingServer({
  tools = TOOLS,
}: { readonly tools?: readonly Tool[] } = {}): Promise<RecordingServer> {
  const calls: ExecutedCall[] = [];
  const methods: string[] = [];
  const holds: Hold[] = [];
  const released = new Set<string>();
  const abandoned: string[] = [];

  const slow = async (purpose: string, signal: AbortSignal): Promise<void> => {
    if (released.has(purpose)) return;
    await new Promise<void>((resolve) => {
      holds.push({ purpose, release: resolve });
      signal.addEventListener('abort', () => {
        // A request that was answered is aborted too, as part of its clean-up.
        if (!released.has(purpose)) abandoned.push(purpose);
        resolve();
      });
    });
  };

  const handler = createMcpHandler(({ requestInfo }) => {
    const server = new Server({ name: 'recording', version: '1' }, { capabilities: { tools: {} } });
    server.setRequestHandler('tools/list', () => {
      methods.push('tools/list');
      // The SDK's own schema drops an annotation of the wrong type; a real server does not.
      return {
        tools: tools.map((tool) =>
          tool.name === 'odd' ? { ...tool, annotations: { readOnlyHint: 'true' } as object } : tool,
        ),
      };
    });
    server.setRequestHandler('tools/call', async ({ params }, { mcpReq }) => {
      methods.push('tools/call');
      // Sound: arguments come from JSON.
      const args = (params.arguments ?? {}) as JsonObject;
      const purpose = purposeOf(args);
      calls.push({ tool: params.name, arguments: args, headers: Object.fromEntries(requestInfo?.headers ?? []) });
      if (params.name === 'slow') await slow(purpose, mcpReq.signal);
      if (params.name === 'big') return { content: [{ type: 'text', text: 'x'.repeat(Number(args['characters'])) }] };
      if (params.name === 'fail') return { isError: true, content: [{ type: 'text', text: 'no money' }] };
      return { content: [{ type: 'text', text: `${params.name} did ${JSON.stringify(args)}` }] };
    });
    return server;
  });
  const http = await listenOnLoopback(listenerOf(toNodeHandler(handler)));
  return {
    url: `${http.origin}/mcp`,
    calls,
    methods,
    callsFor: (purpose, tool) =>
      calls.filter((call) => purposeOf(call.arguments) === purpose && (tool === undefined || call.tool === tool)),
    held: async (purpose, count = 1) => {
      await until(() => (holds.filter((hold) => hold.purpose === purpose).length >= count ? true : undefined), {
        what: `${count} held calls of ${purpose}`,
      });
    },
    release: (purpose) => {
      released.add(purpose);
      for (const hold of holds) if (hold.purpose === purpose) hold.release();
    },
    abandoned: (purpose) => abandoned.filter((other) => other === purpose).length,
    close: async () => {
      for (const hold of holds) hold.release();
      await handler.close();
      await http.close();
    },
  };
}

function purposeOf(args: JsonObject): string {
  const { purpose } = args;
  return typeof purpose === 'string' ? purpose : '';
}
