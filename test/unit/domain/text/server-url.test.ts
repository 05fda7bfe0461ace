/** Canonical server URI (RFC 8707 §2; MCP spec, "Canonical Server URI"): one server, one name. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { canonicalServerUrl } from '../../../../domain/text/urls.ts';

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
    fc.assert(
      fc.property(
        fc.webUrl({ validSchemes: ['http', 'https'], withQueryParameters: true, withFragments: true }),
        (given) => {
          const url = new URL(given);
          const fragment = url.hash;
          // Setting them also takes a lone `?` or `#` away.
          url.hash = '';
          if (url.search === '') url.search = '';
          const isBare = url.pathname === '/' && url.search === '';
          expect(canonicalServerUrl(`${url.href}${fragment}`)).toBe(isBare ? url.origin : url.href);
        },
      ),
    );
  });

  test('a canonical URL stays as it is', () => {
    fc.assert(
      fc.property(fc.webUrl({ withQueryParameters: true, withFragments: true }), (url) => {
        const once = canonicalServerUrl(url);
        expect(canonicalServerUrl(once)).toBe(once);
      }),
    );
  });
});
