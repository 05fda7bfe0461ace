/** Configured models by name. */
import { describe, expect, test } from '@jest/globals';
import { createModelRegistry } from '../../../../activities/models/ai-sdk.ts';
import { ModelConfig } from '../../../../contracts/schemas/config.ts';
import { loopbackEgress } from '../../../support/egress.ts';
import { modelRequest } from '../../../support/models/request.ts';

describe('the registry of models', () => {
  test('builds each model once, and only when it is asked for', () => {
    const models = createModelRegistry(
      {
        a: ModelConfig.parse({ provider: 'openai', model: 'gpt-5.1', apiKey: 'k'.repeat(20) }),
        broken: ModelConfig.parse({ provider: 'openai', model: 'gpt-5.1' }),
      },
      loopbackEgress(),
    );
    expect(models('a')).toBeDefined();
    expect(models('a')).toBe(models('a'));
  });

  test('knows no other names, nor what every object has', () => {
    const models = createModelRegistry({}, loopbackEgress());
    for (const name of ['main', 'constructor', '__proto__', 'toString']) expect(models(name)).toBeUndefined();
  });

  test('runs scripts', async () => {
    const models = createModelRegistry(
      {
        demo: ModelConfig.parse({ provider: 'scripted', script: { steps: [{ text: 'Hi.' }] } }),
      },
      loopbackEgress(),
    );
    expect(await models('demo')?.step(modelRequest())).toMatchObject({ parts: [{ type: 'text', text: 'Hi.' }] });
  });

  test.each([
    ['openai', 'models.main.apiKey'],
    ['anthropic', 'models.main.apiKey'],
  ])('%s at its usual address needs a key, and says where it is missing', (provider, path) => {
    const models = createModelRegistry({ main: ModelConfig.parse({ provider, model: 'm' }) }, loopbackEgress());
    expect(() => models('main')).toThrow(expect.objectContaining({ code: 'CONFIG_INVALID', facts: { path } }));
  });

  test('an OpenAI-compatible server needs an address', () => {
    const models = createModelRegistry(
      {
        main: ModelConfig.parse({ provider: 'openai-compatible', model: 'm', apiKey: 'k' }),
      },
      loopbackEgress(),
    );
    expect(() => models('main')).toThrow(
      expect.objectContaining({ code: 'CONFIG_INVALID', facts: { path: 'models.main.baseUrl' } }),
    );
  });
});
