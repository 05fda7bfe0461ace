/** The three provider packages behind one shape. The environment is not read: what a model may use stands in the configuration. */
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import type { streamText } from 'ai';
import type { ModelConfig } from '../../contracts/schemas/config.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { Egress } from '../egress/fetch.ts';
import { createProviderFetch } from './provider-fetch.ts';
import { toPublishedShape } from './responses-shape.ts';

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
