/**
 * One request to OpenAI's Responses API, and the items of its answer (openai-openapi: `CreateResponse`,
 * `ResponseStreamEvent`). It retries nothing, and owns no deadline.
 *
 * 1. Answers are streamed. An item counts as soon as it is done, whatever becomes of the rest of the stream.
 * 2. Nothing is stored at the provider (`store: false`), unless the body of a request says so.
 */
import { jsonSchema, parseJsonEventStream } from 'ai';
import type { JsonObject, JsonValue } from '../../contracts/schemas/json.ts';
import type { Egress } from '../egress/fetch.ts';
import { fieldsOf, objectsOf, parsedJson, textOf } from '../kit/json.ts';
import { PROVIDER_URLS } from './port.ts';
import { outletTo, type ProviderConfig } from './provider.ts';
import { NotStreamed, streamed } from './streamed.ts';

/** Bound of a refusal, of which a few words are read. */
const MOST_ERROR_CHARACTERS = 10_000;

export interface ResponsesAsk {
  readonly body: JsonObject;
  readonly signal: AbortSignal;
  readonly onItem?: (item: JsonObject) => void;
  /** Called once the provider has begun to answer: whatever fails later, the request was sent. */
  readonly onAnswer?: () => void;
  /** Called with each event as it comes, before it is read. What it throws ends the request. */
  readonly onEvent?: (event: JsonObject) => void;
}

export interface ResponsesAnswer {
  readonly items: readonly JsonObject[];
  /** The closing `response`; absent if the stream broke off. */
  readonly response?: JsonObject;
}

export class ResponsesRefusal extends Error {
  override readonly name = 'ResponsesRefusal';
  /** Absent for an error within a stream. */
  readonly status: number | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: JsonObject;

  constructor(status: number | undefined, headers: Readonly<Record<string, string>>, body: JsonObject) {
    super(status === undefined ? 'the provider reported an error' : `HTTP ${status}`);
    this.status = status;
    this.headers = headers;
    this.body = body;
  }
}

export type ResponsesApi = (ask: ResponsesAsk) => Promise<ResponsesAnswer>;

/** Reads an answer that the provider keeps. It asks the model nothing. */
export type StoredAnswers = (id: string, signal: AbortSignal) => Promise<JsonObject>;

/** @returns what throws `ResponsesRefusal`, `NotStreamed`, `EGRESS_FORBIDDEN`, or an error of the network */
export function createResponsesApi(name: string, config: ProviderConfig, egress: Egress): ResponsesApi {
  const { fetch, url, headers } = placeOf(name, config, egress);
  const { model } = config;
  return async ({ body, signal, onItem, onAnswer, onEvent }) => {
    const request = {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'text/event-stream', ...headers },
      body: JSON.stringify({ model, stream: true, store: false, ...body }),
      signal,
    };
    const response = await fetch(url, request);
    onAnswer?.();
    if (response.status !== 200) throw await refusalIn(response);
    const items: JsonObject[] = [];
    const { body: stream } = await streamed(response).catch((error: unknown) => {
      // Its news is told before it is refused: a call that was made, for instance.
      if (error instanceof NotStreamed) onEvent?.({ response: error.body ?? {} });
      throw error;
    });
    if (stream === null) return { items };
    const events = parseJsonEventStream<JsonObject>({ stream, schema: jsonSchema({}) });
    for await (const read of events) {
      // A broken event counts as a broken stream.
      if (!read.success) throw read.error;
      const event = fieldsOf(read.value);
      onEvent?.(event);
      const { type } = event;
      if (type === 'error') throw new ResponsesRefusal(undefined, {}, event);
      if (type === 'response.output_item.done') {
        const item = fieldsOf(event['item']);
        items.push(item);
        onItem?.(item);
      }
      const closing = fieldsOf(event['response']);
      if (type === 'response.failed') throw new ResponsesRefusal(undefined, {}, closing);
      if (type !== 'response.completed' && type !== 'response.incomplete') continue;
      // Some servers tell the items with the last event alone.
      const all = items.length > 0 ? items : objectsOf(closing['output']);
      if (items.length === 0) for (const item of all) onItem?.(item);
      return { items: all, response: closing };
    }
    return { items };
  };
}

export function createStoredAnswers(name: string, config: ProviderConfig, egress: Egress): StoredAnswers {
  const { fetch, url, headers } = placeOf(name, config, egress);
  return async (id, signal) => {
    const response = await fetch(`${url}/${encodeURIComponent(id)}`, {
      headers: { accept: 'application/json', ...headers },
      signal,
    });
    if (response.status !== 200) throw await refusalIn(response);
    // Sound: JSON.parse returns a JSON value.
    return fieldsOf(JSON.parse(await response.text()) as JsonValue);
  };
}

function placeOf(name: string, config: ProviderConfig, egress: Egress) {
  const { apiKey = '', baseUrl = PROVIDER_URLS.openai } = config;
  const fetch = outletTo(baseUrl, name, config, egress);
  const url = `${baseUrl.replace(/\/+$/, '')}/responses`;
  const headers: Record<string, string> = apiKey === '' ? {} : { authorization: `Bearer ${apiKey}` };
  return { fetch, url, headers };
}

async function refusalIn(response: Response): Promise<ResponsesRefusal> {
  const text = await response.text().catch(() => '');
  // A proxy's page says nothing that is read.
  const body = fieldsOf(parsedJson(text.slice(0, MOST_ERROR_CHARACTERS)));
  return new ResponsesRefusal(response.status, Object.fromEntries(response.headers), body);
}

/** The provider asks before every call: policy is applied here. */
export function mcpTool(
  { server, url, connectorId }: { server: string; url: string; connectorId?: string | undefined },
  more: JsonObject = {},
): JsonObject {
  return {
    type: 'mcp',
    server_label: server,
    ...(connectorId === undefined ? { server_url: url } : { connector_id: connectorId }),
    require_approval: 'always',
    ...more,
  };
}

/**
 * The hosted calls of which an event tells: begun, done, or among the items of the end. Some events name the id alone.
 */
export function toldCalls(event: JsonObject): readonly JsonObject[] {
  const items = [fieldsOf(event['item']), ...objectsOf(fieldsOf(event['response'])['output'])];
  const told = items.filter(({ type }) => type === 'mcp_call');
  if (told.length > 0 || !textOf(event['type']).startsWith('response.mcp_call.')) return told;
  return [{ type: 'mcp_call', id: textOf(event['item_id']) }];
}

/** The id is text of the provider that becomes part of an address, so it has no dot. Relays write more into it. */
export function isAnswerId(text: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9_=+/:~-]{0,499}$/.test(text);
}

/**
 * Reads the arguments of an item: blank ones are none. Returns undefined if they are no JSON, or if something else
 * stands where the API has a text: whoever executes it may read arguments there.
 */
export function argumentsIn({ arguments: given }: JsonObject): JsonValue | undefined {
  const text = given ?? '';
  if (typeof text !== 'string') return undefined;
  return text.trim() === '' ? {} : parsedJson(text);
}

export function mcpList(server: string, tools: readonly JsonObject[]): JsonObject {
  return { type: 'mcp_list_tools', id: `mcpl_${server}`, server_label: server, tools };
}
