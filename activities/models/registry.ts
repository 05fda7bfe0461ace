/** Finds configured models by name. What asks providers is loaded only if one is configured: it is large. */
import type { ModelConfig } from '../../contracts/schemas/config.ts';
import type { Egress } from '../egress/fetch.ts';
import { ownValue } from '../kit/json.ts';
import { CALLER_MODEL } from '../../contracts/names.ts';
import { CALLER } from './caller.ts';
import type { Model } from './port.ts';
import { createScriptedModel } from './scripted.ts';

/** @param configs `models` of the configuration, with the secrets for `${NAME}` put in */
export async function createModelRegistry(
  configs: Readonly<Record<string, ModelConfig>>,
  egress: Egress,
): Promise<(name: string) => Model | undefined> {
  const asksProviders = Object.values(configs).some(({ provider }) => provider !== 'scripted');
  const sdk = asksProviders ? await import('./ai-sdk.ts') : undefined;
  const responses = asksProviders ? await import('./responses.ts') : undefined;
  const built = new Map<string, Model>([[CALLER_MODEL, CALLER]]);
  return (name) => {
    const known = built.get(name);
    if (known !== undefined) return known;
    const config = ownValue(configs, name);
    if (config === undefined) return undefined;
    const model =
      config.provider === 'scripted'
        ? createScriptedModel(config.script)
        : eitherOf(
            sdk?.createAiSdkModel(name, config, egress),
            config.provider === 'openai' ? responses?.createResponsesModel(name, config, egress) : undefined,
          );
    if (model !== undefined) built.set(name, model);
    return model;
  };
}

/** Steps with hosted tools are asked by the adapter that knows them. */
function eitherOf(plain: Model | undefined, hosting: Model | undefined): Model | undefined {
  if (plain === undefined || hosting === undefined) return plain;
  return {
    step: async (request) =>
      await (request.tools.some(({ hosted }) => hosted !== undefined) ? hosting : plain).step(request),
  };
}
