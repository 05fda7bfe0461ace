/**
 * Serves a legacy MCP server on the v1 SDK that keeps its events: a client with the id of the last event gets
 * the later ones.
 *
 * 1. `executed` is what the server did, even if nobody got the answer.
 * 2. A call is held until the test says so, never for a time.
 */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { type EventStore, StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { CallToolRequestSchema, type JSONRPCMessage, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { Holds } from './holds.ts';
import { bodyOf, listenOnLoopback } from './loopback-server.ts';
import type { ExecutedCall } from './raw-server.ts';

export interface ResumableServer {
  readonly url: string;
  /** Purposes of the calls that the server acted on. */
  readonly executed: readonly string[];
  /** The same calls, whole. */
  readonly calls: readonly ExecutedCall[];
  /** Purposes of the calls that a client has cancelled. */
  readonly cancelled: readonly string[];
  readonly requests: readonly {
    readonly http: string;
    readonly rpc: string | undefined;
    readonly lastEventId?: string;
  }[];
  /** All ids of sessions and events that the server gave. */
  readonly secrets: { readonly sessions: readonly string[]; readonly events: readonly string[] };
  held(purpose: string): Promise<void>;
  progress(purpose: string, progress: number): Promise<void>;
  /** Answers held and later calls with this purpose. */
  release(purpose: string): void;
  /** Ends all connections, as a proxy does; sessions and events stay. */
  disconnect(): void;
  /** Forgets sessions and events, as a restart does. */
  forget(): void;
  close(): Promise<void>;
}

export async function startResumableServer(): Promise<ResumableServer> {
  const executed: string[] = [];
  const calls: ExecutedCall[] = [];
  const cancelled: string[] = [];
  const requests: { http: string; rpc: string | undefined; lastEventId?: string }[] = [];
  const sessions = new Map<string, StreamableHTTPServerTransport>();
  const given = { sessions: [] as string[], events: [] as string[] };
  const holds = new Holds();
  /** Purpose of a call → what tells its client how far it is. */
  const progressing = new Map<string, (progress: number) => Promise<void>>();

  const open = async (): Promise<StreamableHTTPServerTransport> => {
    const server = new Server({ name: 'resumable', version: '1' }, { capabilities: { tools: {} } });
    server.setRequestHandler(ListToolsRequestSchema, () => ({
      tools: [{ name: 'slow', description: 'Takes its time.', inputSchema: { type: 'object' as const } }],
    }));
    server.setRequestHandler(CallToolRequestSchema, async ({ params }, extra) => {
      const purpose = String(params.arguments?.['purpose']);
      executed.push(purpose);
      calls.push({ tool: params.name, arguments: { purpose }, headers: { ...extra.requestInfo?.headers } });
      extra.signal.addEventListener('abort', () => cancelled.push(purpose));
      const token = params._meta?.progressToken;
      progressing.set(purpose, async (progress) => {
        if (token === undefined) throw new Error('the client wants no progress');
        await extra.sendNotification({
          method: 'notifications/progress',
          params: { progressToken: token, progress },
        });
      });
      await new Promise<void>((answer) => holds.hold(answer, purpose));
      const { authorization } = extra.requestInfo?.headers ?? {};
      const by = authorization === undefined ? '' : ` by ${String(authorization)}`;
      return { content: [{ type: 'text', text: `${purpose} is done in ${extra.sessionId}${by}` }] };
    });
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => `session-${randomUUID()}`,
      eventStore: createEventStore(given.events),
      onsessioninitialized: (id) => {
        given.sessions.push(id);
        sessions.set(id, transport);
      },
      onsessionclosed: (id) => void sessions.delete(id),
    });
    await server.connect(transport);
    return transport;
  };

  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const text = await bodyOf(request);
    // Sound: the only client is our adapter, which sends JSON-RPC objects.
    const message = text === '' ? undefined : (JSON.parse(text) as { method?: string });
    const lastEventId = request.headers['last-event-id'];
    requests.push({
      http: request.method ?? '',
      rpc: message?.method,
      ...(typeof lastEventId === 'string' ? { lastEventId } : {}),
    });
    const named = request.headers['mcp-session-id'];
    const known = typeof named === 'string' ? sessions.get(named) : undefined;
    if (named !== undefined && known === undefined) return void response.writeHead(404).end();
    await (known ?? (await open())).handleRequest(request, response, message);
  };

  const http = await listenOnLoopback((request, response) => void serve(request, response));
  return {
    url: `${http.origin}/mcp`,
    executed,
    calls,
    cancelled,
    requests,
    secrets: given,
    held: (purpose) => holds.held(purpose),
    progress: async (purpose, progress) => await progressing.get(purpose)?.(progress),
    release: (purpose) => holds.release(purpose),
    disconnect: http.disconnect,
    forget: () => sessions.clear(),
    close: async () => {
      holds.release();
      await http.close();
    },
  };
}

/**
 * Keeps events in order, each found by its id.
 * @param ids collects all ids that are given
 */
function createEventStore(ids: string[]): EventStore {
  const events: { id: string; streamId: string; message: JSONRPCMessage }[] = [];
  return {
    storeEvent: (streamId, message) => {
      const id = `event-${randomUUID()}`;
      ids.push(id);
      events.push({ id, streamId, message });
      return Promise.resolve(id);
    },
    replayEventsAfter: async (lastEventId, { send }) => {
      const at = events.findIndex(({ id }) => id === lastEventId);
      const from = events[at];
      if (from === undefined) throw new Error('there is no such event');
      for (const { id, streamId, message } of events.slice(at + 1))
        // An event that only says that the stream can be resumed is no message.
        if (streamId === from.streamId && 'jsonrpc' in message) await send(id, message);
      return from.streamId;
    },
  };
}
