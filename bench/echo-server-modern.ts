/** The tool server of `mcp.ts` as a server of MCP 2026-07-28, a process of its own. */
import { createServer } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, Server } from '@modelcontextprotocol/server';

const tools = [{ name: 'echo', description: 'Returns what it was given.', inputSchema: { type: 'object' as const } }];

const answer = toNodeHandler(
  createMcpHandler(() => {
    const server = new Server({ name: 'echo', version: '1.0.0' }, { capabilities: { tools: {} } });
    server.setRequestHandler('tools/list', () => ({ tools }));
    server.setRequestHandler('tools/call', ({ params }) => ({
      content: [{ type: 'text', text: `${params.name} ${String(params.arguments?.['step'])}` }],
    }));
    return server;
  }),
);

const http = createServer((request, response) => {
  // Sound: a request that a server was given has all that it reads; Node's types leave out what only clients lack.
  void answer(request as Parameters<typeof answer>[0], response);
});
http.listen(0, '127.0.0.1', () => {
  const address = http.address();
  if (address !== null && typeof address === 'object')
    process.send?.({ kind: 'ready', url: `http://127.0.0.1:${address.port}/mcp` });
});
