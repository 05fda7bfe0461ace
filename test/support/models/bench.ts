/** Makes an AI SDK model that asks a provider on loopback. */
import { createAiSdkModel } from '../../../activities/models/ai-sdk.ts';
import type { Model } from '../../../activities/models/port.ts';
import type { ProviderConfig } from '../../../activities/models/provider.ts';
import { loopbackEgress } from '../egress.ts';
import type { Dialect, Said } from './dialect.ts';
import { type ModelProvider, type Reply, startModelProvider } from './provider.ts';

export const API_KEY = 'key-CANARY/5+1=?&Zq8rT2wXyV7uS0pLkJhGfDs';

export interface ModelBench {
  readonly server: ModelProvider;
  model(config?: Partial<Omit<ProviderConfig, 'provider'>>): Model;
  reply(...answers: readonly Said[]): void;
}

export async function startModelBench(dialect: Dialect): Promise<ModelBench> {
  const server = await startModelProvider(dialect.schema);
  return {
    server,
    model: (config = {}) =>
      createAiSdkModel(
        'main',
        {
          provider: dialect.provider,
          model: dialect.model,
          baseUrl: server.baseUrl,
          apiKey: API_KEY,
          maxOutputTokens: 256,
          timeoutSeconds: 30,
          ...config,
        },
        loopbackEgress(),
      ),
    reply: (...answers) => server.enqueue(...answers.map((said) => answered(dialect.events(said)))),
  };
}

export function answered(events: readonly string[], ending: Reply['ending'] = 'end'): Reply {
  return { status: 200, chunks: events, ending };
}

export function failed(status: number, body: string, headers: Readonly<Record<string, string>> = {}): Reply {
  return { status, headers, chunks: [body], ending: 'end' };
}

/** Returns the error of a rejected promise as any code that prints errors sees it. */
export async function rejection(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => {
      throw new Error('it did not fail');
    },
    (error: unknown) => error,
  );
}
