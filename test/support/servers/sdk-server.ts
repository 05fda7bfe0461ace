/** Serves a server of the MCP SDK (2026-07-28) on loopback: it keeps the rules, in code that is not ours. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, type Server } from '@modelcontextprotocol/server';
import { bodyOf, listenOnLoopback } from './loopback-server.ts';

export interface SdkServer {
  readonly url: string;
  close(): Promise<void>;
}

/**
 * @param make makes the server of one request, with its headers
 * @param guard sees each request first; returns true if it has answered
 */
export async function serveSdk(
  make: (headers: Headers) => Server,
  guard: (request: IncomingMessage, response: ServerResponse, body: string) => Promise<boolean> = async () => false,
): Promise<SdkServer> {
  const handler = createMcpHandler(({ requestInfo }) => make(new Headers(requestInfo?.headers)));
  const answer = toNodeHandler(handler);
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await bodyOf(request);
    if (await guard(request, response, body)) return;
    const message: unknown = body === '' ? undefined : JSON.parse(body);
    // Sound: a request that a server was given has all that it reads; Node's types leave out what only clients lack.
    await answer(request as Parameters<typeof answer>[0], response, message);
  };
  const http = await listenOnLoopback((request, response) => void serve(request, response));
  return {
    url: `${http.origin}/mcp`,
    close: async () => {
      await handler.close();
      await http.close();
    },
  };
}
