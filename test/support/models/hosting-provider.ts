/**
 * Serves OpenAI's Responses API on loopback as far as hosted MCP tools go: it lists and calls MCP servers itself, with
 * the official MCP client, and asks before each call if the request says so.
 *
 * 1. Every request and every item of an answer is checked against the published shape
 *    (`schemas/openai-responses.json`).
 * 2. It keeps nothing between requests, unless a request says `store: true`: then an answer is kept with all that it
 *    was given. It can be read, and continued any number of times, until it is forgotten.
 * 3. In a continued answer it executes what is kept, whatever the request says besides. What waits for something in
 *    that answer must be answered, and is no longer known by any other id.
 * 4. What its model says is scripted by the first words of the user. What it was asked besides is answered with "ok".
 */
import { readFileSync } from 'node:fs';
import { Validator } from '@cfworker/json-schema';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import type OpenAI from 'openai';
import type { JsonObject, JsonValue } from '../../../contracts/schemas/json.ts';
import { bodyOf, listenOnLoopback } from '../servers/loopback-server.ts';
import { object, objects, sse, stringOf } from './dialect.ts';

/** What the model says next, once it has the results of what it said before. */
export type HostedSaid =
  | { readonly text: string }
  | {
      readonly calls: readonly (
        | { readonly server: string; readonly tool: string; readonly arguments: JsonObject }
        | { readonly function: string; readonly arguments: JsonObject }
      )[];
    };

/**
 * `lose`: makes the call, and breaks the connection. `stall`: does nothing and never answers. `wrong`: calls, and tells
 * of another call. `refuse`: HTTP 429 in place of the call, once. `fail`: breaks the connection before the call.
 */
export type HostedFault = 'lose' | 'stall' | 'wrong' | 'refuse' | 'fail';

export interface HostedAsk {
  readonly body: JsonObject;
  readonly violations: readonly string[];
  /** True if the request carries `approve: true`. */
  readonly approves: boolean;
  /** The conversation: the items of the continued answer, if there is one, and those of the request. */
  readonly context: readonly JsonObject[];
}

export interface HostingProvider {
  readonly baseUrl: string;
  readonly asked: readonly HostedAsk[];
  /** Approved requests that it has taken, by the approval request's id. */
  readonly executed: readonly string[];
  /** Ids of answers that were read, whether it had them or not. */
  readonly read: readonly string[];
  /** Ids of the answers that it keeps, oldest first. */
  stored(): readonly string[];
  /** Forgets the answers in which, or in whose conversation, a text stands. */
  forget(text: string): void;
  /** Keeps nothing from now on, and says so in its answers. */
  stopStoring(): void;
  script(name: string, steps: readonly HostedSaid[]): void;
  /** @param purpose argument `purpose` of the call */
  fault(purpose: string, fault: HostedFault): void;
  /** From now on it calls without asking, whatever a request says. */
  stopAsking(): void;
  close(): Promise<void>;
}

export const HOSTING_KEY = 'sk-CANARY-hosting-key-8f2a';

/** The model of a provider that calls servers, as a configuration has it. */
export function hostingModel({ baseUrl }: Pick<HostingProvider, 'baseUrl'>) {
  return { provider: 'openai', model: 'gpt-5.1', baseUrl, asksBeforeCalls: true, apiKey: HOSTING_KEY } as const;
}

export async function startHostingProvider(): Promise<HostingProvider> {
  // Sound: the file beside this one is a JSON Schema.
  const shape = JSON.parse(
    readFileSync(new URL('schemas/openai-responses.json', import.meta.url), 'utf8'),
  ) as JsonObject;
  const requests = new Validator(shape, '2020-12', false);
  const items = new Validator({ $defs: shape['$defs'], $ref: '#/$defs/InputItem' }, '2020-12', false);
  const asked: HostedAsk[] = [];
  const executed: string[] = [];
  const read: string[] = [];
  const kept = new Map<string, KeptAnswer>();
  const scripts = new Map<string, readonly HostedSaid[]>();
  const faults = new Map<string, HostedFault>();
  let asks = true;
  let stores = true;
  let ids = 0;
  const id = (prefix: string): string => `${prefix}_${(ids += 1).toString(16).padStart(8, '0')}`;

  const server = await listenOnLoopback((request, response) => {
    const answer = async (): Promise<void> => {
      const refuse = (status: number, message: string, code: string | null = null): void => {
        response.writeHead(status, { 'content-type': 'application/json', 'retry-after': '0' });
        response.end(JSON.stringify({ error: { type: 'invalid_request_error', code, message, param: null } }));
      };
      const isKnown = request.headers.authorization === `Bearer ${HOSTING_KEY}`;
      const [, wantedId] = /^\/v1\/responses\/([^/?]+)$/.exec(request.url ?? '') ?? [];
      if (request.method === 'GET' && wantedId !== undefined) {
        const sought = decodeURIComponent(wantedId);
        read.push(sought);
        const found = kept.get(sought);
        if (!isKnown) return refuse(401, 'Incorrect API key provided.');
        if (found === undefined) return refuse(404, `Response with id '${sought}' not found.`);
        response.writeHead(200, { 'content-type': 'application/json' });
        return void response.end(JSON.stringify(found.response));
      }
      const body = object(JSON.parse(await bodyOf(request)) as JsonValue);
      const { valid, errors } = requests.validate(body);
      const given = objects(body['input']);
      const { previous_response_id: previousId } = body;
      const previous = kept.get(stringOf(previousId));
      const before = previous === undefined ? [] : [...previous.context, ...objects(previous.response['output'])];
      const input = [...before, ...given];
      const approved = given.filter((item) => item['type'] === 'mcp_approval_response' && item['approve'] === true);
      const violations = valid ? [] : errors.map(({ instanceLocation, error }) => `${instanceLocation}: ${error}`);
      asked.push({ body, violations, approves: approved.length > 0, context: input });
      if (!isKnown) return refuse(401, 'Incorrect API key provided.');
      if (!valid) return refuse(400, violations.join('; '));
      if (previousId !== undefined && previous === undefined)
        return refuse(
          400,
          `Previous response with id '${stringOf(previousId)}' not found.`,
          'previous_response_not_found',
        );
      const requestOf = ({ approval_request_id: of }: JsonObject): JsonObject | undefined =>
        (previous === undefined ? given : before).find(
          (item) => item['type'] === 'mcp_approval_request' && item['id'] === of,
        );
      const unanswered = previous === undefined ? undefined : waitingIn(previous.response, given)[0];
      if (unanswered !== undefined) return refuse(400, `No output found for ${unanswered}.`);
      const unknown = approved.find((each) => requestOf(each) === undefined);
      if (unknown !== undefined)
        return refuse(400, `No approval request found with id '${stringOf(unknown['approval_request_id'])}'.`);
      const fault = approved.map((each) => faultOf(object(requestOf(each)), faults))[0];
      if (fault === 'refuse') return refuse(429, 'Rate limit reached.');
      const output: JsonObject[] = [];
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const isStored = stores && body['store'] === true;
      const answerId = id('resp');
      const responseAs = (status: 'in_progress' | 'completed'): JsonObject =>
        responseOf(answerId, status, output, isStored);
      let events = 0;
      const emit = (type: string, data: JsonObject): void => {
        response.write(sse(type, { type, sequence_number: events, ...data }));
        events += 1;
      };
      const begin = (item: JsonObject): void =>
        emit('response.output_item.added', { output_index: output.length, item: begun(item) });
      const done = (item: JsonObject): void => {
        const checked = items.validate(item);
        if (!checked.valid) throw new Error(`not published: ${JSON.stringify([item, checked.errors])}`);
        emit('response.output_item.done', { output_index: output.length, item });
        output.push(item);
      };
      const give = (item: JsonObject): void => {
        begin(item);
        done(item);
      };
      emit('response.created', { response: responseAs('in_progress') });
      const tools = objects(body['tools']).filter(({ type }) => type === 'mcp');
      for (const tool of tools) {
        const label = stringOf(tool['server_label']);
        if (input.some((item) => item['type'] === 'mcp_list_tools' && item['server_label'] === label)) continue;
        give(await listOf(tool, id('mcpl')));
      }
      for (const each of approved) {
        const { approval_request_id: of } = each;
        const wanted = object(requestOf(each));
        if (fault === 'stall') return;
        if (fault === 'fail') return void response.socket?.resetAndDestroy();
        executed.push(stringOf(of));
        const callId = id('mcp');
        begin({ ...calling(wanted, callId), approval_request_id: of ?? null });
        const made = await callOf(toolOf(tools, wanted), wanted, callId);
        if (fault === 'lose') return void response.socket?.resetAndDestroy();
        done({ ...made, approval_request_id: of ?? null, ...(fault === 'wrong' ? { name: 'another' } : {}) });
      }
      const said = nextOf(input, scripts);
      for (const call of 'calls' in said ? said.calls : []) {
        if ('function' in call) {
          const args = JSON.stringify(call.arguments);
          give({ type: 'function_call', id: id('fc'), call_id: id('call'), name: call.function, arguments: args });
          continue;
        }
        const wanted = { server_label: call.server, name: call.tool, arguments: JSON.stringify(call.arguments) };
        const requestId = id('mcpr');
        if (asks) {
          give({ type: 'mcp_approval_request', id: requestId, ...wanted });
          continue;
        }
        give(await callOf(toolOf(tools, wanted), wanted, id('mcp')));
        if (faultOf(wanted, faults) !== 'lose') continue;
        // What was told has left before the connection breaks.
        await new Promise<void>((resolve) => response.write(':\n\n', () => resolve()));
        return void response.socket?.resetAndDestroy();
      }
      if ('text' in said) {
        const content = [{ type: 'output_text', text: said.text, annotations: [], logprobs: [] }];
        give({ type: 'message', id: id('msg'), role: 'assistant', status: 'completed', content });
      }
      if (isStored) kept.set(answerId, { context: input, response: responseAs('completed') });
      emit('response.completed', { response: responseAs('completed') });
      response.end();
    };
    // A fault of the stand-in is an answer that nobody takes for a good one.
    answer().catch((error: unknown) => response.destroy(error instanceof Error ? error : undefined));
  });
  return {
    baseUrl: `${server.origin}/v1`,
    asked,
    executed,
    read,
    stored: () => [...kept.keys()],
    forget: (text) => {
      for (const [each, answer] of kept) if (JSON.stringify(answer).includes(text)) kept.delete(each);
    },
    stopStoring: () => {
      stores = false;
    },
    script: (name, steps) => void scripts.set(name, steps),
    fault: (purpose, fault) => void faults.set(purpose, fault),
    stopAsking: () => {
      asks = false;
    },
    close: server.close,
  };
}

interface KeptAnswer {
  /** All that it was given. */
  readonly context: readonly JsonObject[];
  readonly response: JsonObject;
}

/** Names what waits in an answer for something that the request does not give. */
function waitingIn(answer: JsonObject, given: readonly JsonObject[]): string[] {
  const answered = new Set(given.map(({ approval_request_id: request, call_id: call }) => request ?? call));
  const ids = objects(answer['output']).flatMap(({ type, id, call_id: call }) =>
    type === 'function_call' ? [call] : type === 'mcp_approval_request' ? [id] : [],
  );
  return ids.filter((each) => !answered.has(each)).map(stringOf);
}

/** A response as the package of the provider declares it, whose items are checked against the published shape. */
function responseOf(
  id: string,
  status: 'in_progress' | 'completed',
  output: readonly JsonObject[],
  store: boolean,
): JsonObject {
  const response = {
    id,
    object: 'response',
    created_at: 1_760_000_000,
    status,
    model: 'gpt-5.1',
    error: null,
    incomplete_details: null,
    instructions: null,
    metadata: null,
    output: [],
    output_text: '',
    parallel_tool_calls: true,
    temperature: null,
    tool_choice: 'auto',
    tools: [],
    top_p: null,
  } satisfies OpenAI.Responses.Response;
  const usage = {
    input_tokens: 21,
    input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
    output_tokens: 7,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 28,
  } satisfies OpenAI.Responses.ResponseUsage;
  // The package declares no `store`; the published document has it in its examples.
  return { ...response, store, output: [...output], ...(status === 'completed' ? { usage } : {}) };
}

/** An item before anything is done about it. */
function begun(item: JsonObject): JsonObject {
  switch (item['type']) {
    case 'mcp_call':
      return { ...item, status: 'in_progress', output: null, error: null };
    case 'mcp_list_tools':
      return { ...item, tools: [] };
    case 'message':
      return { ...item, status: 'in_progress', content: [] };
    default:
      return item;
  }
}

function faultOf(wanted: JsonObject, faults: Map<string, HostedFault>): HostedFault | undefined {
  const args = object(JSON.parse(stringOf(wanted['arguments'])) as JsonValue);
  const purpose = stringOf(args['purpose']);
  const fault = faults.get(purpose);
  faults.delete(purpose);
  return fault;
}

/** Finds the next words of the script: results that are there tell how far it has come. */
function nextOf(input: readonly JsonObject[], scripts: ReadonlyMap<string, readonly HostedSaid[]>): HostedSaid {
  const first = input.find(({ role }) => role === 'user');
  const steps = scripts.get(stringOf(first?.['content']));
  const done = ['mcp_call', 'mcp_approval_response', 'function_call_output'];
  let results = input.filter(({ type }) => done.includes(stringOf(type))).length;
  for (const step of steps ?? []) {
    if (!('calls' in step) || results < step.calls.length) return step;
    results -= step.calls.length;
  }
  return { text: 'ok' };
}

function toolOf(tools: readonly JsonObject[], { server_label: label }: JsonObject): JsonObject {
  const tool = tools.find(({ server_label: stated }) => stated === label);
  if (tool === undefined) throw new Error(`no server ${stringOf(label)}`);
  return tool;
}

async function listOf(tool: JsonObject, id: string): Promise<JsonObject> {
  const { server_label: label = '' } = tool;
  const base = { type: 'mcp_list_tools', id, server_label: label };
  try {
    const tools = await asking(tool, async (client) => (await client.listTools()).tools);
    return {
      ...base,
      tools: tools.map(({ name, description, inputSchema, annotations }) => ({
        name,
        description: description ?? null,
        // Sound: both are JSON that came from the server.
        input_schema: inputSchema as JsonObject,
        annotations: (annotations ?? null) as JsonObject | null,
      })),
    };
  } catch (error) {
    return { ...base, tools: [], error: `Error retrieving tool list from MCP server: ${String(error)}` };
  }
}

function calling({ server_label: label = '', name = '', arguments: args = '' }: JsonObject, id: string) {
  return { type: 'mcp_call', id, server_label: label, name, arguments: args };
}

async function callOf(tool: JsonObject, wanted: JsonObject, id: string): Promise<JsonObject> {
  const base = calling(wanted, id);
  const { name, arguments: args } = base;
  const called = { name: stringOf(name), arguments: object(JSON.parse(stringOf(args)) as JsonValue) };
  const result = await asking(tool, async (client) => await client.callTool(called));
  const content = objects(result.content as unknown as JsonValue);
  const text = content.map((part) => stringOf(part['text'])).join('\n');
  if (result.isError === true)
    return { ...base, status: 'failed', output: null, error: { type: 'mcp_tool_execution_error', content } };
  return { ...base, status: 'completed', output: text, error: null };
}

async function asking<T>(tool: JsonObject, use: (client: Client) => Promise<T>): Promise<T> {
  const { authorization, headers } = tool;
  const client = new Client({ name: 'provider', version: '1.0.0' }, { versionNegotiation: { mode: 'auto' } });
  const given = object(headers) as Readonly<Record<string, string>>;
  const init = authorization === undefined ? given : { ...given, authorization: `Bearer ${stringOf(authorization)}` };
  await client.connect(
    new StreamableHTTPClientTransport(new URL(stringOf(tool['server_url'])), { requestInit: { headers: init } }),
  );
  try {
    return await use(client);
  } finally {
    await client.close();
  }
}
