/**
 * Serves the Responses API as a provider that says whatever a request shows it wherever its answer says anything: the
 * key of the model, and tokens and headers of the servers that it calls, in definitions, requests for approval, texts,
 * reasoning, results and errors.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { JsonObject, JsonValue } from '../../../contracts/schemas/json.ts';
import { bodyOf, listenOnLoopback } from '../servers/loopback-server.ts';
import { object, objects, sse, stringOf } from '../models/dialect.ts';
import { formsOf } from './server.ts';

/** What becomes of a call, by the name of its tool. */
export const HOSTED_ENDINGS = [
  'words',
  'error',
  'in-words',
  'protocol',
  'strange',
  'refused',
  'broken',
  'lost',
] as const;

export interface LeakingProvider {
  readonly baseUrl: string;
  /** Bodies of requests, with the header that names the key. */
  readonly asked: readonly { readonly authorization: string; readonly body: JsonObject; readonly executes: boolean }[];
  /** Number of stored answers that were read, the first of which was refused. */
  reads(): number;
  /** Refuses every model step from now on, or no longer. */
  refuseSteps(refused: boolean): void;
  close(): Promise<unknown>;
}

export async function startLeakingProvider(): Promise<LeakingProvider> {
  let reads = 0;
  const asked: { authorization: string; body: JsonObject; executes: boolean }[] = [];
  let isRefusing = false;
  const server = await listenOnLoopback((request, response) => {
    const answer = async (): Promise<void> => {
      const body = request.method === 'GET' ? {} : object(JSON.parse(await bodyOf(request)) as JsonValue);
      const input = objects(body['input']);
      const executes = input.some((item) => item['type'] === 'mcp_approval_response' && item['approve'] === true);
      const authorization = String(request.headers.authorization);
      asked.push({ authorization, body, executes });
      const echo = secretsIn(request.headers, body).flatMap(formsOf).join('\n');
      const approved = input.find((item) => item['approve'] === true)?.['approval_request_id'];
      const wanted = [...input, ...questionsOf(LABEL, '{}')].find(
        (item) => item['type'] === 'mcp_approval_request' && item['id'] === approved,
      );
      const tool = stringOf(wanted?.['name']);
      const refuse = (status: number): void => {
        response.writeHead(status, {
          'content-type': 'application/json',
          'x-echo': encodeURIComponent(echo).slice(0, 4_000),
        });
        response.end(
          JSON.stringify({ error: { type: 'invalid_request_error', message: echo, code: null, param: null } }),
        );
      };
      if (request.method === 'GET') {
        reads += 1;
        if (reads === 1) return refuse(500);
        response.writeHead(200, { 'content-type': 'application/json' });
        const output = [reasoningOf(echo), messageOf(echo), ...questionsOf(LABEL, '{}')];
        return void response.end(JSON.stringify({ id: echo, status: echo, output }));
      }
      const isStep = body['include'] !== undefined;
      if (isStep && isRefusing) return refuse(400);
      if (executes && tool === 'refused') return refuse(400);
      if (executes && tool === 'broken') return refuse(500);
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const emit = (type: string, data: JsonObject): void => void response.write(sse(type, { type, ...data }));
      const items = isStep
        ? stepOf(input, echo, body['store'] === true ? '{}' : JSON.stringify({ note: echo }))
        : executes
          ? [
              {
                ...object(wanted),
                type: 'mcp_call',
                id: 'mcp_1',
                approval_request_id: wanted?.['id'] ?? null,
                ...ENDINGS[tool]?.(echo),
              },
            ]
          : [listOf(object(objects(body['tools'])[0]), echo)];
      if (executes && tool === 'lost') return void response.socket?.resetAndDestroy();
      for (const [output_index, item] of items.entries()) emit('response.output_item.done', { output_index, item });
      const usage = { input_tokens: 21, output_tokens: 7, total_tokens: 28 };
      // An id that holds a secret passes for one; a model is served under the name of what its ids hold.
      const id = body['model'] === 'keyed' ? authorization.replace('Bearer ', 'resp_') : 'resp_1';
      emit('response.completed', {
        response: {
          id: body['store'] === true ? id : echo,
          status: 'completed',
          output: items,
          incomplete_details: null,
          usage,
        },
      });
      response.end();
    };
    answer().catch((error: unknown) => response.destroy(error instanceof Error ? error : undefined));
  });
  return {
    baseUrl: `${server.origin}/v1`,
    asked,
    reads: () => reads,
    refuseSteps: (refused) => {
      isRefusing = refused;
    },
    close: server.close,
  };
}

const text = (value: string): JsonObject => ({ type: 'text', text: value });

const ENDINGS: Readonly<Record<string, (echo: string) => JsonObject>> = {
  words: (echo) => ({ status: 'completed', output: echo, error: null }),
  error: (echo) => ({
    status: 'failed',
    output: null,
    error: { type: 'mcp_tool_execution_error', content: [text(echo)] },
  }),
  'in-words': (echo) => ({ status: 'failed', output: null, error: echo }),
  protocol: (echo) => ({
    status: 'failed',
    output: null,
    error: { type: 'mcp_protocol_error', code: -32_603, message: echo },
  }),
  strange: (echo) => ({ status: echo, output: echo, error: { type: echo, message: echo } }),
};

function listOf({ server_label: label = '' }: JsonObject, echo: string): JsonObject {
  const tools = HOSTED_ENDINGS.map((name, index) => {
    // One place for each tool: a definition that leaked everywhere would be too large.
    const at = (place: number): string => (index % 4 === place ? echo : '');
    const properties = { note: { type: 'string', description: at(0), default: at(1) } };
    const input_schema = { type: 'object', description: at(2), properties };
    return { name, description: at(3), input_schema, annotations: { title: at(3) } };
  });
  return { type: 'mcp_list_tools', id: 'mcpl_1', server_label: label, tools };
}

/** Asks for every call at once, and then says all it knows. */
function stepOf(input: readonly JsonObject[], echo: string, args: string): JsonObject[] {
  const message = messageOf(echo);
  const isOver = input.some(({ type }) => type === 'mcp_call' || type === 'mcp_approval_response');
  const label = stringOf(input.find(({ type }) => type === 'mcp_list_tools')?.['server_label']);
  if (isOver || label === '') return [message];
  return [reasoningOf(echo), message, ...questionsOf(label, args)];
}

function messageOf(echo: string): JsonObject {
  const content = [{ type: 'output_text', text: echo, annotations: [], logprobs: [] }];
  return { type: 'message', id: 'msg_1', role: 'assistant', status: 'completed', content };
}

function reasoningOf(echo: string): JsonObject {
  return {
    type: 'reasoning',
    id: 'rs_1',
    summary: [{ type: 'summary_text', text: echo }],
    encrypted_content: echo,
  };
}

/** The server of which stored answers ask. */
const LABEL = 'mine';

function questionsOf(label: string, args: string): JsonObject[] {
  return HOSTED_ENDINGS.map((name) => ({
    type: 'mcp_approval_request',
    id: `mcpr_${name}`,
    server_label: label,
    name,
    arguments: args,
  }));
}

function secretsIn({ authorization = '' }: IncomingHttpHeaders, { tools }: JsonObject): string[] {
  const ofServers = objects(tools).flatMap(({ authorization: token, headers }) => [
    stringOf(token),
    ...Object.entries(object(headers)).flatMap(([name, value]) => (name.startsWith('x-') ? [stringOf(value)] : [])),
  ]);
  return [authorization.replace(/^Bearer /, ''), ...ofServers].filter((secret) => secret !== '');
}
