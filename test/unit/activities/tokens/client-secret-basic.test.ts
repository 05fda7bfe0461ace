/** Client id and secret as authorization servers read them, those that decode and those that do not (RFC 6749 §2.3.1). */
import { expect, test } from '@jest/globals';
import { basicCredentials } from '../../../../activities/tokens/oauth-client.ts';

const plain = (header: string): string => Buffer.from(header, 'base64').toString('utf8');

test('ids and secrets of letters, digits, - . _ * are sent as they are: not every server decodes', () => {
  expect(plain(basicCredentials('my-client_1.test', 's3cret*-'))).toBe('my-client_1.test:s3cret*-');
});

test('all else is form-encoded, so that a server that decodes gets it back, a colon included', () => {
  const [id, secret] = ['a:b c+d%é', '~!/=&'];
  const [left = '', right = '', ...more] = plain(basicCredentials(id, secret)).split(':');
  expect(more).toEqual([]);
  const decoded = (text: string): string => decodeURIComponent(text.replaceAll('+', ' '));
  expect([decoded(left), decoded(right)]).toEqual([id, secret]);
});
