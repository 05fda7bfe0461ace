import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { Config } from '../../../../contracts/schemas/config.ts';
import type { Execute } from '../../../../contracts/schemas/run-spec.ts';
import { type Executing, executionOf, hostedBy, mayHost, requiresBoundTokens } from '../../../../domain/run/hosted.ts';
import { isRefusal } from '../../../../domain/text/refusal.ts';
import { forAll } from '../../../support/for-all.ts';

const base: Executing = {
  server: 'bank',
  model: 'gpt',
  canHost: true,
  isBound: false,
  hasCatalog: false,
  path: 'servers[0]',
};
const ways: readonly (Execute | undefined)[] = ['local', 'hosted', 'auto', undefined];
const given = fc.record({
  configured: fc.constantFrom(...ways),
  asked: fc.constantFrom(...ways),
  canHost: fc.boolean(),
  isBound: fc.boolean(),
  hasCatalog: fc.boolean(),
});

function said(over: Partial<Executing>): string {
  const found = executionOf({ ...base, ...over });
  return isRefusal(found) ? found.code : found;
}

describe('who calls a server', () => {
  test('is this service, unless the operator says otherwise', () => {
    forAll(given, (each) => {
      if (each.configured === undefined || each.configured === 'local') expect(said(each)).not.toBe('hosted');
    });
  });

  test('is a provider only where it asks before each call, can show the token, and no catalog sets the tools', () => {
    forAll(given, (each) => {
      if (said(each) === 'hosted') expect(each).toMatchObject({ canHost: true, isBound: false, hasCatalog: false });
    });
  });

  test('is never this service where the operator wants the provider', () => {
    forAll(given, (each) => {
      if (each.configured === 'hosted') expect(said(each)).not.toBe('local');
    });
  });

  test.each([
    [{ configured: 'auto' }, 'hosted'],
    [{ configured: 'auto', canHost: false }, 'local'],
    [{ configured: 'auto', hasCatalog: true }, 'local'],
    [{ configured: 'hosted', hasCatalog: true }, 'HOSTED_UNSUPPORTED'],
    [{ configured: 'auto', isBound: true }, 'local'],
    [{ configured: 'auto', asked: 'hosted', isBound: true }, 'HOSTED_UNSUPPORTED'],
    [{ configured: 'hosted', isBound: true }, 'HOSTED_UNSUPPORTED'],
    [{ configured: 'auto', asked: 'local' }, 'local'],
    [{ configured: 'auto', asked: 'hosted', canHost: false }, 'HOSTED_UNSUPPORTED'],
    [{ configured: 'hosted', canHost: false }, 'HOSTED_UNSUPPORTED'],
    [{ configured: 'hosted', asked: 'local' }, 'SPEC_INVALID'],
    [{ configured: 'local', asked: 'hosted' }, 'SPEC_INVALID'],
    [{ configured: 'local', asked: 'auto' }, 'local'],
    [{ asked: 'hosted' }, 'SPEC_INVALID'],
  ] as const)('%j is %s', (over, expected) => {
    expect(said(over)).toBe(expected);
  });
});

test.each([
  ['of OpenAI itself', { provider: 'openai', model: 'gpt' }, true],
  ['behind another address', { provider: 'openai', model: 'gpt', baseUrl: 'https://models.example/v1' }, false],
  [
    'of which the operator says that it asks',
    { provider: 'openai', model: 'gpt', baseUrl: 'https://m.example', asksBeforeCalls: true },
    true,
  ],
  ['of which the operator says that it does not', { provider: 'openai', model: 'gpt', asksBeforeCalls: false }, false],
  ['of another provider', { provider: 'anthropic', model: 'claude' }, false],
])('a model %s may call servers: %j', (_, model, expected) => {
  // Sound: these are the fields that the rule reads.
  const models = { own: model } as unknown as Parameters<typeof mayHost>[0]['models'];
  expect([mayHost({ models }, 'own'), mayHost({ models }, 'toString')]).toEqual([expected, false]);
});

test('how a provider is reached is its address and its connector, each where it is configured', () => {
  const config = Config.parse({
    servers: {
      bank: { url: 'https://bank.example', execute: 'hosted' },
      mail: { url: 'https://mail.example', execute: 'hosted', connectorId: 'connector_gmail' },
    },
    models: {
      gpt: { provider: 'openai', model: 'gpt' },
      near: { provider: 'openai', model: 'gpt', baseUrl: 'https://m.example/v1' },
      claude: { provider: 'anthropic', model: 'claude', baseUrl: 'https://a.example/v1' },
    },
  });
  expect(hostedBy(config, 'bank', 'gpt')).toEqual({ model: 'gpt' });
  expect(hostedBy(config, 'mail', 'near')).toEqual({
    model: 'near',
    connectorId: 'connector_gmail',
    baseUrl: 'https://m.example/v1',
  });
  expect(hostedBy(config, 'constructor', 'toString')).toEqual({ model: 'toString' });
  expect(hostedBy(config, 'bank', 'claude')).toEqual({ model: 'claude' });
});

test('tokens must be bound where the credentials of the server say so', () => {
  const client = {
    kind: 'client-credentials',
    issuer: 'https://idp.example',
    clientId: 'a',
    clientSecret: 'b',
  } as const;
  const { servers } = Config.parse({
    servers: {
      bound: { url: 'https://a.example', credentials: { ...client, senderConstrained: 'required' } },
      plain: { url: 'https://b.example', credentials: client },
      given: { url: 'https://c.example' },
    },
  });
  expect(Object.values(servers).map(requiresBoundTokens)).toEqual([true, false, false]);
  expect(requiresBoundTokens(undefined)).toBe(false);
});
