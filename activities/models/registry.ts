/** The registry finds configured models by name; each is built when it is first asked for. */
import type { ModelConfig } from '../../contracts/schemas/config.ts';
import type { Egress } from '../egress/fetch.ts';
import { createAiSdkModel } from './ai-sdk.ts';
import type { Model } from './port.ts';
import { createScriptedModel } from './scripted.ts';

export type ModelLookup = (name: string) => Model | undefined;

/** @param configs `models` of the configuration, with the secrets for `${NAME}` put in */
export function createModelRegistry(configs: Readonly<Record<string, ModelConfig>>, egress: Egress): ModelLookup {
  const built = new Map<string, Model>();
  return (name) => {
    const known = built.get(name);
    if (known !== undefined) return known;
    const config = Object.hasOwn(configs, name) ? configs[name] : undefined;
    if (config === undefined) return undefined;
    const model =
      config.provider === 'scripted' ? createScriptedModel(config.script) : createAiSdkModel(name, config, egress);
    built.set(name, model);
    return model;
  };
}
