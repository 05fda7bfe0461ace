/** What a token is asked for, and how its client says who it is. */
import { expect, test } from '@jest/globals';
import { ResponseBodyError } from 'oauth4webapi';
import { askedFor } from '../../../../activities/tokens/asked.ts';
import { type Exchange, oauthFailure } from '../../../../activities/tokens/exchange.ts';
import { basicCredentials } from '../../../../activities/tokens/oauth-client.ts';
import { READ_RESOURCE } from '../../../../contracts/names.ts';
import { ScopeTemplates } from '../../../../contracts/schemas/credentials.ts';

// What a token is asked for: the scopes of one tool and of nothing else (INV-S2).

const request = {
  run: { namespace: 'default', workflowId: 'run-1', specHash: '' },
  server: 'docs',
  serverUrl: 'https://docs.example/mcp',
};
const asked = (scopes: Partial<ScopeTemplates>, over: object) =>
  askedFor({ scopes: ScopeTemplates.parse(scopes) }, { ...request, ...over }).scopes;

test('reading a linked resource has scopes of its own: no other stands in for them', () => {
  const scopes = { discovery: ['list'], default: ['call'], tools: { [READ_RESOURCE]: ['mistaken'] } };
  expect(asked({ ...scopes, resources: ['read'] }, { tool: READ_RESOURCE })).toEqual(['read']);
  expect(asked(scopes, { tool: READ_RESOURCE })).toEqual([]);
  expect(asked({ ...scopes, resources: ['read'] }, { tool: 'search' })).toEqual(['call']);
  expect(asked({ ...scopes, resources: ['read'] }, {})).toEqual(['list']);
});

test('people may consent to more for a read, too, where the operator lists it', () => {
  const scopes = { resources: ['read'], consentable: ['archive'] };
  expect(asked(scopes, { tool: READ_RESOURCE, consented: ['archive'] })).toEqual(['read', 'archive']);
  expect(() => asked(scopes, { tool: READ_RESOURCE, consented: ['admin'] })).toThrow('may not consent');
});

// Client id and secret as authorization servers read them, those that decode and those that do not (RFC 6749 §2.3.1).

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

// A refusal says what is to be done next (RFC 6749 §5.2).

const refusal = (grantType: string): string => {
  const exchange = { status: () => 400, retryAfterMs: () => undefined, endedBy: () => undefined };
  const refused = new ResponseBodyError('refused', { cause: { error: 'invalid_grant' }, response: new Response() });
  // Sound: nothing is sent.
  const unsent = exchange as unknown as Exchange;
  return oauthFailure(refused, { server: 'docs', issuer: 'https://login.example', grantType, exchange: unsent })
    .message;
};

test('a grant that is refused is its owner’s to renew; a client that asks in its own name has none', () => {
  expect(refusal('refresh_token')).toMatch(/answered invalid_grant\. .+its owner authorizes anew/);
  expect(refusal('client_credentials')).toMatch(/answered invalid_grant\. Check servers\.docs\.credentials/);
});
