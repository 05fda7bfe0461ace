/**
 * An MCP server on loopback whose tools are functions of a test, and which keeps what it was called with. It speaks
 * MCP 2026-07-28 by `node:http` alone, so that users' tests need no package of servers.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { defined } from '../contracts/defined.ts';
import type { JsonObject } from '../contracts/schemas/json.ts';

export interface ScriptedTool {
  readonly description?: string;
  /** JSON Schema of the arguments; default: any object. */
  readonly inputSchema?: JsonObject;
  /** Hints such as `readOnlyHint`. They count only if the configuration trusts the server. */
  readonly annotations?: Readonly<Record<string, boolean | string>>;
  /**
   * Acts on a call. A text is answered as it is, another value as JSON. What it throws is the tool's own error, and
   * what `asking` made is asked of people. Default: answers `done`.
   */
  readonly answer?: (args: JsonObject, call: ScriptedCall) => unknown;
}

/** What a call brings beside its arguments. */
export interface ScriptedCall {
  /** `authorization` of the request, with the token of this call. */
  readonly authorization: string | undefined;
  /** What people answered to the questions of `asking`, by name; absent until they have been asked. */
  readonly answers?: Readonly<Record<string, ScriptedAnswer>>;
}

export interface ScriptedAnswer {
  readonly action: 'accept' | 'decline' | 'cancel';
  /** The fields of the form; only with `accept`. */
  readonly content?: JsonObject;
}

export interface ScriptedQuestion {
  readonly message: string;
  /** Field → its JSON Schema: a text, number, boolean or choice. */
  readonly fields: Readonly<Record<string, JsonObject>>;
  readonly required?: readonly string[];
}

class Asking {
  readonly questions: Readonly<Record<string, ScriptedQuestion>>;

  constructor(questions: Readonly<Record<string, ScriptedQuestion>>) {
    this.questions = questions;
  }
}

/** Has a tool ask people before it goes on (MCP multi-round-trip): it is called again, with their `answers`. */
export function asking(questions: Readonly<Record<string, ScriptedQuestion>>): unknown {
  return new Asking(questions);
}

export interface ReceivedCall extends ScriptedCall {
  readonly tool: string;
  readonly arguments: JsonObject;
}

export interface ScriptedServer {
  readonly url: string;
  /** Calls in the order in which they came. */
  readonly calls: readonly ReceivedCall[];
  stop(): Promise<void>;
}

type Tools = Readonly<Record<string, ScriptedTool>>;

const PROTOCOL = '2026-07-28';
const METHOD_NOT_FOUND = -32_601;
const INVALID_PARAMS = -32_602;

export async function startScriptedServer(tools: Tools): Promise<ScriptedServer> {
  const calls: ReceivedCall[] = [];
  const server = createServer((request, response) => {
    // A client that leaves in the middle needs no answer.
    serve(tools, calls, request, response).catch(() => response.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  // Sound: a listening TCP server has an address of this form.
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    calls,
    stop: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

interface Message {
  readonly id?: unknown;
  readonly method?: string;
  readonly params?: {
    readonly name?: string;
    readonly arguments?: JsonObject;
    readonly inputResponses?: Readonly<Record<string, ScriptedAnswer>>;
  };
}

async function serve(
  tools: Tools,
  calls: ReceivedCall[],
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  if (request.method !== 'POST') return void response.writeHead(405).end();
  const chunks: Buffer[] = [];
  // Sound: without an encoding, chunks are buffers.
  for await (const chunk of request) chunks.push(chunk as Buffer);
  // Sound: the workers' client sends JSON-RPC objects; a field that is missing is handled where it is read.
  const { id, method, params = {} } = JSON.parse(Buffer.concat(chunks).toString('utf8')) as Message;
  const send = (fields: object): void => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ jsonrpc: '2.0', id, ...fields }));
  };
  const answer = (result: object): void => send({ result: { resultType: 'complete', ...result } });
  const { authorization } = request.headers;
  const uncached = { ttlMs: 0, cacheScope: 'private' };
  switch (method) {
    case 'server/discover':
      return answer({ supportedVersions: [PROTOCOL], capabilities: { tools: {} }, ...uncached });
    case 'tools/list':
      return answer({ tools: Object.entries(tools).map(([name, tool]) => definitionOf(name, tool)), ...uncached });
    case 'tools/call': {
      const { name = '', arguments: args = {}, inputResponses: answers } = params;
      const tool = Object.hasOwn(tools, name) ? tools[name] : undefined;
      if (tool === undefined) return send({ error: { code: INVALID_PARAMS, message: `Unknown tool: ${name}` } });
      const call = { authorization, ...defined({ answers }) };
      calls.push({ tool: name, arguments: args, ...call });
      return answer(await resultOf(tool, args, call));
    }
    default:
      if (id === undefined) return void response.writeHead(202).end();
      return send({ error: { code: METHOD_NOT_FOUND, message: 'Method not found' } });
  }
}

function definitionOf(name: string, { description, inputSchema, annotations }: ScriptedTool): object {
  return { name, inputSchema: inputSchema ?? { type: 'object' }, ...defined({ description, annotations }) };
}

async function resultOf(
  { answer = () => 'done' }: ScriptedTool,
  args: JsonObject,
  call: ScriptedCall,
): Promise<object> {
  try {
    const value = await answer(args, call);
    if (value instanceof Asking) return { resultType: 'input_required', inputRequests: formsOf(value) };
    return { content: [{ type: 'text', text: typeof value === 'string' ? value : JSON.stringify(value ?? null) }] };
  } catch (error) {
    return { isError: true, content: [{ type: 'text', text: error instanceof Error ? error.message : String(error) }] };
  }
}

function formsOf({ questions }: Asking): object {
  const forms = Object.entries(questions).map(([name, { message, fields, required = [] }]) => {
    const requestedSchema = { type: 'object', properties: fields, required };
    return [name, { method: 'elicitation/create', params: { mode: 'form', message, requestedSchema } }] as const;
  });
  return Object.fromEntries(forms);
}
