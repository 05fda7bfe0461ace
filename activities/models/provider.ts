/**
 * Puts the three provider packages behind one shape, with the HTTP requests that they send.
 *
 * 1. The environment is not read: the configuration says what a model may use.
 * 2. A model may think for long without a word: only the adapter's deadline and the run's cancellation end a request.
 * 3. Assistant messages are sent in the shape that OpenAI publishes (OpenAPI, `OutputMessage` and `EasyInputMessage`).
 *    The provider package leaves out required fields; OpenAI is lenient, but other servers that speak the protocol need
 *    not be.
 */
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import type { streamText } from 'ai';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { ModelConfig } from '../../contracts/schemas/config.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { Egress, GuardedFetch } from '../egress/fetch.ts';
import { objectsOf, textOf } from '../kit/json.ts';
import { PROVIDER_URLS } from './port.ts';
import { streamed } from './streamed.ts';

/** Bound of a whole answer. */
const MOST_BYTES = 67_108_864;

export type ProviderConfig = Exclude<ModelConfig, { provider: 'scripted' }>;

type StreamOptions = Parameters<typeof streamText>[0];

export interface Provider {
  readonly model: StreamOptions['model'];
  readonly providerOptions: NonNullable<StreamOptions['providerOptions']>;
  /** The `strict` field of each tool; undefined if the provider does not know the field. */
  readonly strict?: boolean;
}

/** @param name of the model in the configuration, for errors */
export function providerOf(name: string, config: ProviderConfig, egress: Egress): Provider {
  // An empty key stops the package from reading an environment variable.
  const { apiKey = '', baseUrl, model } = config;
  const fetchOf = (url: string, rewrite = (body: string) => body) =>
    createProviderFetch(outletTo(url, name, config, egress), apiKey !== '', rewrite);
  switch (config.provider) {
    case 'openai': {
      const baseURL = baseUrl ?? PROVIDER_URLS.openai;
      const openai = createOpenAI({ apiKey, baseURL, fetch: fetchOf(baseURL, toPublishedShape) });
      // Nothing is stored at the provider, so reasoning travels encrypted. The API makes tools strict unless told
      // otherwise, and the schemas of MCP servers are not written for that.
      return { model: openai.responses(model), providerOptions: { openai: { store: false } }, strict: false };
    }
    case 'anthropic': {
      const baseURL = baseUrl ?? PROVIDER_URLS.anthropic;
      const anthropic = createAnthropic({ apiKey, baseURL, fetch: fetchOf(baseURL) });
      return { model: anthropic.messages(model), providerOptions: {} };
    }
    case 'openai-compatible': {
      if (baseUrl === undefined)
        throw missing(`models.${name}.baseUrl`, 'an OpenAI-compatible server has no usual address');
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

/** Opens the way to the provider at this address. @throws CountersignError `CONFIG_INVALID` */
export function outletTo(
  url: string,
  name: string,
  { provider, apiKey = '', baseUrl }: ProviderConfig,
  egress: Egress,
): GuardedFetch {
  if (apiKey === '' && baseUrl === undefined)
    throw missing(`models.${name}.apiKey`, `${provider} is not asked without one`);
  return egress.outlet({ what: `models.${name}`, to: [url], maxBytes: MOST_BYTES, wholeStreams: true }).fetch;
}

function missing(path: string, why: string): CountersignError {
  return new CountersignError('CONFIG_INVALID', `${path} is missing: ${why}.`, { path });
}

const KEY_HEADERS = new Set(['authorization', 'x-api-key']);

/** @param hasKey without one no header for it is sent: the server in front of the model may add its own */
function createProviderFetch(
  fetch: GuardedFetch,
  hasKey: boolean,
  rewrite: (body: string) => string,
): typeof globalThis.fetch {
  const send = async (url: string, init: RequestInit = {}): Promise<Response> => {
    const headers = Object.entries(init.headers ?? {}).filter(
      ([name]) => hasKey || !KEY_HEADERS.has(name.toLowerCase()),
    );
    const body = typeof init.body === 'string' ? rewrite(init.body) : init.body;
    return streamed(await fetch(url, { ...init, headers, ...defined({ body }) }));
  };
  // Sound: the provider packages call it with a URL string and a plain init.
  return send as typeof globalThis.fetch;
}

/** @param body JSON of a Responses request as the provider package writes it */
function toPublishedShape(body: string): string {
  // Sound: the provider package wrote it, and its `input` is a list of items.
  const request = JSON.parse(body) as { readonly input: readonly JsonObject[] };
  return JSON.stringify({ ...request, input: request.input.map(publishedItem) });
}

function publishedItem(item: JsonObject): JsonObject {
  const { role, id, content, ...rest } = item;
  if (role !== 'assistant' || !Array.isArray(content)) return item;
  const parts = objectsOf(content);
  const text = parts.map((part) => textOf(part['text'])).join('');
  if (id === undefined) return { type: 'message', role, content: text, ...rest };
  const published = parts.map((part) => ({ annotations: [], logprobs: [], ...part }));
  return { type: 'message', id, role, status: 'completed', content: published, ...rest };
}
