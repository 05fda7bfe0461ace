/**
 * Serves an MCP server of 2025-11-25 that keeps its events: a client that comes back for a call gets the
 * answer. It shares the address of the tool server.
 *
 * Its ids come from the scenarios, and open nothing.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';

/** Path below the address of the tool server. */
export const KEPT_PATH = '/kept';

const SESSION = 'a-session-of-the-corpus';
const SCHEMA = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };

export interface KeptMessage {
  readonly id?: unknown;
  readonly method?: string;
  readonly params?: { readonly name?: string; readonly arguments?: { readonly name?: string } };
}

/** Returns a handler that answers each request. */
export function createKeptAnswers(): (
  request: IncomingMessage,
  message: KeptMessage,
  response: ServerResponse,
) => void {
  /** Event id → the answer that came after that event. */
  const answers = new Map<string, string>();
  const stream = (response: ServerResponse, text: string): void => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(text);
  };
  return (request, { id, method, params }, response) => {
    const json = (result: object): void =>
      void response
        .writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': SESSION })
        .end(JSON.stringify({ jsonrpc: '2.0', id, result }));
    const last = String(request.headers['last-event-id']);
    if (request.method === 'GET') {
      const answer = answers.get(last);
      if (answer === undefined) return void response.writeHead(404).end();
      stream(response, answer);
      return void response.end();
    }
    switch (method) {
      case 'initialize':
        return json({
          protocolVersion: '2025-11-25',
          capabilities: { tools: {} },
          serverInfo: { name: 'kept', version: '1' },
        });
      case 'tools/list':
        return json({ tools: [{ name: 'keep_note', description: 'Keeps one note.', inputSchema: SCHEMA }] });
      case 'tools/call': {
        const text = `${params?.arguments?.name ?? ''} is kept`;
        const answer = { jsonrpc: '2.0', id, result: { content: [{ type: 'text', text }] } };
        answers.set('event-1', `id: event-2\ndata: ${JSON.stringify(answer)}\n\n`);
        return stream(response, 'id: event-1\ndata: \n\n');
      }
      default:
        return void response.writeHead(202).end();
    }
  };
}
