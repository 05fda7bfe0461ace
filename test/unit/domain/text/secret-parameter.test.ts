/** Parameters of URLs that hold secrets. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { hasSecretParameter, namesSecret } from '../../../../domain/text/urls.ts';
import { unicodeText } from '../../../support/builders/arbitraries.ts';

describe('a parameter', () => {
  test.each([
    'key',
    'code',
    'sig',
    'auth',
    'token',
    'secret',
    'signature',
    'password',
    'credential',
    'credentials',
    'api_key',
    'apikey',
    'API-KEY',
    'exaApiKey',
    'client_secret',
    'access_token',
    'X-Amz-Signature',
    'authorization',
  ])('INV-S1: that is called %s holds a secret', (name) => {
    expect(namesSecret(name)).toBe(true);
    for (const url of [`https://a.test/mcp?${name}=x`, `https://a.test/?team=7&${name}=x`, `https://a.test/#${name}=x`])
      expect(hasSecretParameter(url)).toBe(true);
  });

  test.each(['team', 'keys', 'max_tokens', 'author', 'keyword', 'codec', 'secretary', ''])(
    'that is called "%s" does not',
    (name) => {
      expect(namesSecret(name)).toBe(false);
      expect(hasSecretParameter(`https://a.test/mcp?${name}=x`)).toBe(false);
    },
  );

  test('is found however its name is encoded, and where its encoding is broken', () => {
    expect(hasSecretParameter('https://a.test/?access%5Ftoken=x')).toBe(true);
    expect(hasSecretParameter('https://a.test/?%6Bey=x')).toBe(true);
    expect(hasSecretParameter('https://a.test/?%zz_key=x')).toBe(true);
  });

  test('is none without a value, in the path, or in a sentence', () => {
    for (const text of [
      'https://a.test/?key',
      'https://a.test/key=x',
      'Questions & answers: the key=value form',
      'key=x',
    ])
      expect(hasSecretParameter(text)).toBe(false);
  });

  test('may be looked for in any text', () => {
    fc.assert(fc.property(unicodeText(), (text) => typeof hasSecretParameter(text) === 'boolean'));
  });
});
