/**
 * Offers an MCP server over the transport of 2024 (HTTP+SSE), for clients that know no other one. `mcp-proxy` speaks
 * it; what is ours is that each client is connected with the authorization that it shows.
 */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Server } from '@modelcontextprotocol/server';
import { startHTTPServer } from 'mcp-proxy';
import { freePort } from '../../../workers/dev-server.ts';

/** Longer than any call of a test. */
const CALL_MS = 300_000;
const TOOLS = { tools: {} } as const;

export interface SseBridge {
  /** Address of the event stream. */
  readonly url: string;
  close(): Promise<void>;
}

/** @param upstream URL of the server, read for each client: it may move */
export async function startSseBridge(upstream: () => string): Promise<SseBridge> {
  const port = await freePort();
  const host = '127.0.0.1';
  const clients = new Map<Server, Client>();
  const bridge = await startHTTPServer<Server>({
    port,
    host,
    streamEndpoint: null,
    createServer: async ({ headers: { authorization } }) => {
      const client = new Client({ name: 'bridge', version: '1' }, { versionNegotiation: { mode: 'auto' } });
      const headers = authorization === undefined ? {} : { authorization };
      await client.connect(new StreamableHTTPClientTransport(new URL(upstream()), { requestInit: { headers } }));
      const server = new Server({ name: 'bridge', version: '1' }, { capabilities: TOOLS });
      server.setRequestHandler('tools/list', async ({ params }) => await client.listTools(params));
      server.setRequestHandler('tools/call', async ({ params }) => await client.callTool(params, { timeout: CALL_MS }));
      clients.set(server, client);
      return server;
    },
    onClose: async (server) => {
      await clients.get(server)?.close();
      clients.delete(server);
    },
  });
  return { url: `http://${host}:${port}/sse`, close: async () => await bridge.close() };
}
