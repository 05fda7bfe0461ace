/** How a server is reached, as a hash: what is remembered of one way does not hold for another, and no secret is in it. */
import { expect, test } from '@jest/globals';
import { reachHash } from '../../../../activities/tokens/configured.ts';
import { Config, type ConfigInput } from '../../../../contracts/schemas/config.ts';

type ServerInput = NonNullable<ConfigInput['servers']>[string];
const URL = 'https://bank.example.com/mcp';
const CLIENT = {
  kind: 'client-credentials' as const,
  issuer: 'https://idp.example.com',
  clientId: 'countersign',
  clientSecret: 'canary-secret',
  scopes: { default: ['pay'] },
};
const SERVER = { url: URL, credentials: CLIENT, headers: { 'X-Api-Key': 'canary-key' } } satisfies ServerInput;

function hash(server: ServerInput, named?: string, credentials: ConfigInput['credentials'] = {}): string {
  return reachHash(Config.parse({ servers: { bank: server }, credentials }), { name: 'bank', url: URL }, named);
}

test.each<[string, ServerInput]>([
  ['another client', { ...SERVER, credentials: { ...CLIENT, clientId: 'other' } }],
  ['another issuer', { ...SERVER, credentials: { ...CLIENT, issuer: 'https://other.example.com' } }],
  ['other scopes', { ...SERVER, credentials: { ...CLIENT, scopes: { default: ['pay', 'admin'] } } }],
  [
    'a key in place of a secret',
    {
      ...SERVER,
      credentials: { ...CLIENT, clientSecret: undefined, clientKey: { kid: 'a', privateKeyFile: 'a.pem' } },
    },
  ],
  ['another kind of credentials', { ...SERVER, credentials: { kind: 'given' } }],
  ['another header', { ...SERVER, headers: { 'X-Other-Key': 'canary-key' } }],
])('%s is another way', (_what, server) => {
  expect(hash(server)).not.toBe(hash(SERVER));
});

test('a rotated secret, another value of a header and settings that are no credentials are the same way', () => {
  const rotated = { ...SERVER, credentials: { ...CLIENT, clientSecret: 'canary-rotated' } };
  expect(hash(rotated)).toBe(hash(SERVER));
  expect(hash({ ...SERVER, headers: { 'X-Api-Key': 'canary-new' } })).toBe(hash(SERVER));
  expect(hash({ ...SERVER, trusted: true, recheckSeconds: 0 })).toBe(hash(SERVER));
});

test('the credentials that a catalog names count, and not those of the server', () => {
  const named = (clientId: string) => ({ robot: { use: { ...CLIENT, clientId }, origins: [URL] } });
  expect(hash(SERVER, 'robot', named('one'))).not.toBe(hash(SERVER, 'robot', named('two')));
  expect(hash({ url: URL, credentials: { kind: 'none' } }, 'robot', named('one'))).toBe(
    hash({ url: URL, credentials: { kind: 'given' } }, 'robot', named('one')),
  );
});
