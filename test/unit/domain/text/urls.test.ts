/** Canonical server URI (RFC 8707 §2; MCP spec, "Canonical Server URI"): one server, one name. */
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import {
  canonicalServerUrl,
  hasSecretParameter,
  isLocalName,
  isSecurelyReached,
  namesSecret,
} from '../../../../domain/text/urls.ts';
import { unicodeText } from '../../../support/builders/arbitraries.ts';
import { forAll } from '../../../support/for-all.ts';

describe('canonical server URL', () => {
  test.each([
    ['HTTPS://Files.Example/Mcp', 'https://files.example/Mcp'],
    ['https://files.example/', 'https://files.example'],
    ['https://files.example', 'https://files.example'],
    ['https://files.example/mcp/', 'https://files.example/mcp/'],
    ['https://files.example:443/mcp', 'https://files.example/mcp'],
    ['http://files.example:80/mcp', 'http://files.example/mcp'],
    ['https://files.example:80/mcp', 'https://files.example:80/mcp'],
    ['http://files.example:443', 'http://files.example:443'],
    ['https://files.example:8443/', 'https://files.example:8443'],
    ['https://files.example/mcp#part', 'https://files.example/mcp'],
    ['https://files.example#part', 'https://files.example'],
    ['https://files.example/mcp?team=A', 'https://files.example/mcp?team=A'],
    ['http://[::1]:80/mcp', 'http://[::1]/mcp'],
  ])('%s is %s', (url, canonical) => {
    expect(canonicalServerUrl(url)).toBe(canonical);
  });

  test('what is no HTTP URL is left as it is, to be refused by whoever must refuse it', () => {
    for (const url of ['files', 'ftp://files.example', 'stdio:files', '']) expect(canonicalServerUrl(url)).toBe(url);
  });

  test('agrees with the WHATWG parser on every URL that it writes, but for the slash of an empty path', () => {
    forAll(fc.webUrl({ validSchemes: ['http', 'https'], withQueryParameters: true, withFragments: true }), (given) => {
      const url = new URL(given);
      const fragment = url.hash;
      // Setting them also takes a lone `?` or `#` away.
      url.hash = '';
      if (url.search === '') url.search = '';
      const isBare = url.pathname === '/' && url.search === '';
      expect(canonicalServerUrl(`${url.href}${fragment}`)).toBe(isBare ? url.origin : url.href);
    });
  });

  test('a canonical URL stays as it is', () => {
    forAll(fc.webUrl({ withQueryParameters: true, withFragments: true }), (url) => {
      const once = canonicalServerUrl(url);
      expect(canonicalServerUrl(once)).toBe(once);
    });
  });
});

// Parameters of URLs that hold secrets.

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
    forAll(unicodeText(), (text) => typeof hasSecretParameter(text) === 'boolean');
  });
});

/** Where secrets may be sent: over TLS, or to this machine, or where the operator says so (INV-S1). */
describe('transport', () => {
  test.each([
    ['https://s3.example.com', true, true],
    ['http://s3.example.com', false, true],
    ['http://10.0.0.1:9000', false, true],
    ['http://127.0.0.1:9000', true, true],
    ['http://127.1', true, true],
    ['http://[::1]:9000', true, true],
    ['http://localhost', true, true],
    ['http://s3.localhost.', true, true],
    ['http://localhost.example.com', false, true],
    ['http://127.0.0.1.example.com', false, true],
    ['ftp://127.0.0.1', false, false],
  ])('%s: %s, and where it may be in clear: %s', (url, secure, allowed) => {
    expect(isSecurelyReached(new URL(url), false)).toBe(secure);
    expect(isSecurelyReached(new URL(url), true)).toBe(allowed);
  });

  test('a name is of this machine by its last label alone', () => {
    expect(['localhost', 'a.localhost', 'LOCALHOST.'].every(isLocalName)).toBe(true);
    expect(['localhost.example', 'mylocalhost', ''].some(isLocalName)).toBe(false);
  });
});
