/** An authorization as callers write it, and where it may not stand (S1.2, S1.3, S1.8, INV-S1). */
import { describe, expect, test } from '@jest/globals';
import { assertNoAuthorizationHeader, readAuthorization } from '../../../contracts/access-token.ts';
import { seal, TOKEN } from '../../support/signing/grants.ts';
import { refusalOf } from '../../support/refusal.ts';
import { zoneKey } from '../../support/signing/keys.ts';

describe('an authorization as its caller writes it', () => {
  test.each([
    ['plain', TOKEN],
    ['with the scheme', `Bearer ${TOKEN}`],
    ['with the scheme in capitals', `BEARER ${TOKEN}`],
    ['with the scheme in small letters and spaces around', `  bearer \t  ${TOKEN}  `],
  ])('S1.3: is the same token %s', (_how, written) => {
    expect(readAuthorization(written)).toEqual({ kind: 'token', token: TOKEN });
  });

  test.each(['a', 'a=', 'YWJj/+==', 'a.b.c', 'x-_~'])('keeps every character a bearer token may have: %s', (token) => {
    expect(readAuthorization(token)).toEqual({ kind: 'token', token });
  });

  test.each([
    ['', 'empty'],
    ['  ', 'empty'],
    ['Bearer', 'empty'],
    ['bearer  ', 'empty'],
    ['canary-x\ncanary-y', 'line break'],
    ['canary-x\r\nX-Admin: 1', 'line break'],
    ['canary-x\n', 'line break'],
    ['Basic canary-x', 'spaces'],
    ['Bearer Bearer canary-x', 'spaces'],
    ['canary-x\u0000', 'characters'],
    ['canary-xé', 'characters'],
    ['"canary-x"', 'characters'],
    ['canary=x', 'characters'],
    [`canary-${'x'.repeat(20_000)}`, 'longer'],
  ])('refuses %j without showing it (INV-S1)', async (written, reason) => {
    const read = readAuthorization(written);
    expect(read).toMatchObject({ kind: 'refused', reason: expect.stringContaining(reason) });
    expect(JSON.stringify(read)).not.toContain('canary');
    const error = await refusalOf(seal(await zoneKey(), { authorization: written }));
    expect(error).toMatchObject({ code: 'SPEC_INVALID', facts: { path: 'authorization' } });
    expect(`${error.message}${String(error.cause)}${String(error.stack)}`).not.toContain('canary');
  });
});

describe('free headers', () => {
  test.each(['Authorization', 'authorization', 'AUTHORIZATION', 'aUtHoRiZaTiOn', ' Authorization '])(
    'S1.2: %j is refused with an error that names the field to use',
    (name) => {
      const check = (): void =>
        assertNoAuthorizationHeader(
          { Accept: 'x', [name]: 'Bearer canary' },
          'servers.notes.headers',
          'servers.notes.credentials',
        );
      expect(check).toThrow(expect.objectContaining({ code: 'AUTHORIZATION_IN_HEADERS' }));
      expect(check).toThrow(/servers\.notes\.headers .* Use servers\.notes\.credentials/);
      expect(check).not.toThrow(/canary/);
    },
  );

  test('S1.2: other headers pass', () => {
    expect(() => assertNoAuthorizationHeader({ 'X-Authorization-Hint': 'a', Accept: 'b' }, 'h', 'f')).not.toThrow();
  });
});
