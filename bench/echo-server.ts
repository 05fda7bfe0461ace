/**
 * The tool server of the bench, a process of its own: notes when each call arrived, on the monotonic clock that all
 * processes of a Linux machine share. An answer is as long as its call asks for. `GET /calls` gives and forgets them.
 * A call names its run by its arguments, or by the idempotency key that this service sends with it.
 */
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage } from 'node:http';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { runOf } from './workload.ts';

const inputSchema = {
  type: 'object' as const,
  properties: {
    run: { type: 'string' },
    step: { type: 'integer' },
    bytes: { type: 'integer' },
    text: { type: 'string' },
  },
  required: ['run', 'step'],
};
const tools = [
  { name: 'echo', description: 'Returns what it was given.', inputSchema, annotations: { readOnlyHint: true } },
  { name: 'write', description: 'Stores what it was given.', inputSchema, annotations: { destructiveHint: true } },
];
let calls: { run: string; step: number; tool: string; atMs: number }[] = [];

function makeServer(): Server {
  const server = new Server({ name: 'echo', version: '1.0.0' }, { capabilities: { tools: {} } });
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools }));
  server.setRequestHandler(CallToolRequestSchema, ({ params }) => {
    const { run, step, bytes = 0 } = params.arguments ?? {};
    const key = params._meta?.['countersign/idempotency-key'];
    calls.push({
      run: typeof key === 'string' ? runOf(key) : String(run),
      step: Number(step),
      tool: params.name,
      atMs: Number(process.hrtime.bigint()) / 1e6,
    });
    return {
      content: [{ type: 'text', text: `${params.name} ${String(step)}`.padEnd(Number(bytes), ' lorem ipsum') }],
    };
  });
  return server;
}

const sessions = new Map<string, StreamableHTTPServerTransport>();

const http = createServer((request, response) => {
  if (request.url === '/calls') {
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(calls));
    calls = [];
    return;
  }
  void (async () => {
    const transport = await transportFor(request);
    await transport.handleRequest(request, response);
  })();
});

async function transportFor(request: IncomingMessage): Promise<StreamableHTTPServerTransport> {
  const known = sessions.get(String(request.headers['mcp-session-id']));
  if (known !== undefined) return known;
  const transport: StreamableHTTPServerTransport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    enableJsonResponse: true,
    onsessioninitialized: (id) => void sessions.set(id, transport),
    onsessionclosed: (id) => void sessions.delete(id),
  });
  await makeServer().connect(transport);
  return transport;
}

http.keepAliveTimeout = 60_000;
http.listen(0, '127.0.0.1', () => {
  const address = http.address();
  if (address !== null && typeof address === 'object')
    process.send?.({ kind: 'ready', url: `http://127.0.0.1:${address.port}/mcp` });
});
