/** The three provider packages behind one shape. The environment is not read: what a model may use stands in the configuration. */
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import type { streamText } from 'ai';
import { CountersignError } from '../../contracts/errors.ts';
import type { ModelConfig } from '../../contracts/schemas/config.ts';
import type { JsonObject, JsonValue } from '../../contracts/schemas/json.ts';
import type { Egress, GuardedFetch } from '../egress/fetch.ts';

/** A whole answer, of whatever kind: tokens are limited, and a stream that goes on for ever is not an answer. */
const MOST_BYTES = 67_108_864;

/** Where a provider is asked unless a `baseUrl` says otherwise. */
export const PROVIDER_URLS = {
  openai: 'https://api.openai.com/v1',
  anthropic: 'https://api.anthropic.com/v1',
} as const;

export type ProviderConfig = Exclude<ModelConfig, { provider: 'scripted' }>;

type StreamOptions = Parameters<typeof streamText>[0];

export interface Provider {
  readonly model: StreamOptions['model'];
  readonly providerOptions: NonNullable<StreamOptions['providerOptions']>;
  /** Said of each tool; undefined where the provider does not know the field. */
  readonly strict?: boolean;
}

/** @param name of the model in the configuration, for errors. */
export function providerOf(name: string, config: ProviderConfig, egress: Egress): Provider {
  // An empty key, and no environment variable, where the package would look for one.
  const { apiKey = '', baseUrl, model } = config;
  if (apiKey === '' && baseUrl === undefined) {
    throw new CountersignError(
      'CONFIG_INVALID',
      `models.${name}.apiKey is missing: ${config.provider} is not asked without one.`,
      { path: `models.${name}.apiKey` },
    );
  }
  const fetchOf = (url: string, rewrite?: (body: string) => string) =>
    createProviderFetch({
      ...egress.outlet({ what: `models.${name}`, to: [url], maxBytes: MOST_BYTES, wholeStreams: true }),
      hasKey: apiKey !== '',
      ...(rewrite === undefined ? {} : { rewrite }),
    });
  switch (config.provider) {
    case 'openai': {
      const baseURL = baseUrl ?? PROVIDER_URLS.openai;
      const openai = createOpenAI({
        apiKey,
        baseURL,
        fetch: fetchOf(baseURL, toPublishedShape),
      });
      // Nothing is stored at the provider, so reasoning travels encrypted and comes back with the next step. The Responses
      // API makes tools strict unless told otherwise, and the schemas of MCP servers are not written for that.
      return { model: openai.responses(model), providerOptions: { openai: { store: false } }, strict: false };
    }
    case 'anthropic': {
      const baseURL = baseUrl ?? PROVIDER_URLS.anthropic;
      const anthropic = createAnthropic({
        apiKey,
        baseURL,
        fetch: fetchOf(baseURL),
      });
      return { model: anthropic.messages(model), providerOptions: {} };
    }
    case 'openai-compatible': {
      if (baseUrl === undefined) {
        throw new CountersignError(
          'CONFIG_INVALID',
          `models.${name}.baseUrl is missing: an OpenAI-compatible server has no usual address.`,
          { path: `models.${name}.baseUrl` },
        );
      }
      const compatible = createOpenAICompatible({
        name: 'compatible',
        apiKey,
        baseURL: baseUrl,
        includeUsage: true,
        fetch: fetchOf(baseUrl),
      });
      return { model: compatible.chatModel(model), providerOptions: {} };
    }
  }
}

// The HTTP requests to a provider. A model may think for long without a word: the adapter's deadline and the run's cancellation
// end a request, and nothing else.

export interface ProviderFetchOptions {
  readonly fetch: GuardedFetch;
  /** Without a key no header for one is sent: the server in front of the model may add its own. */
  readonly hasKey: boolean;
  /** Last word on the JSON of a request. */
  readonly rewrite?: (body: string) => string;
}

const KEY_HEADERS = new Set(['authorization', 'x-api-key']);

function createProviderFetch({ fetch, hasKey, rewrite }: ProviderFetchOptions): typeof globalThis.fetch {
  const send = async (url: string, init: RequestInit = {}): Promise<Response> => {
    const headers = Object.entries(init.headers ?? {}).filter(
      ([name]) => hasKey || !KEY_HEADERS.has(name.toLowerCase()),
    );
    const body = rewrite !== undefined && typeof init.body === 'string' ? rewrite(init.body) : init.body;
    return fetch(url, { ...init, headers, ...(body === undefined ? {} : { body }) });
  };
  // Sound: the provider packages call it with a URL string and a plain init.
  return send as typeof globalThis.fetch;
}

// Assistant messages in the shape that OpenAI publishes for them (OpenAPI, `OutputMessage` and `EasyInputMessage`). The
// provider package leaves out required fields; OpenAI is lenient, servers that speak the same protocol need not be.

/** @param body JSON of a Responses request as the provider package writes it. */
function toPublishedShape(body: string): string {
  // Sound: the provider package wrote it, and its `input` is a list of items.
  const request = JSON.parse(body) as { readonly input: readonly JsonObject[] };
  return JSON.stringify({ ...request, input: request.input.map(publishedItem) });
}

function publishedItem(item: JsonObject): JsonObject {
  const { role, id, content, ...rest } = item;
  if (role !== 'assistant' || !isList(content)) return item;
  if (id === undefined) return { type: 'message', role, content: content.map(textOf).join(''), ...rest };
  const parts = content.map((part) => ({ annotations: [], logprobs: [], ...fieldsOf(part) }));
  return { type: 'message', id, role, status: 'completed', content: parts, ...rest };
}

function textOf(part: JsonValue): string {
  const { text } = fieldsOf(part);
  return typeof text === 'string' ? text : '';
}

/** `Array.isArray` alone does not narrow a readonly array. */
function isList(value: JsonValue | undefined): value is readonly JsonValue[] {
  return Array.isArray(value);
}

function fieldsOf(value: JsonValue): JsonObject {
  return value !== null && typeof value === 'object' && !isList(value) ? value : {};
}
