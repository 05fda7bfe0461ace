/** Where secrets may be sent: over TLS, or to this machine, or where the operator says so (INV-S1). */
import { expect, test } from '@jest/globals';
import { isLocalName, isSecurelyReached } from '../../../../domain/text/urls.ts';

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
