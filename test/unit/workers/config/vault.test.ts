/** The vault of a configuration, and credentials that need one. */
import { describe, expect, test } from '@jest/globals';
import { Config, type ConfigInput } from '../../../../contracts/schemas/config.ts';
import { checkConfig } from '../../../../workers/config/checks.ts';
import { secretsOf } from '../../../../workers/config/secrets.ts';
import { warningsOf } from '../../../../workers/config/warnings.ts';
import { VAULT_KEYS } from '../../../support/builders/vault.ts';

const refresh = {
  kind: 'refresh' as const,
  issuer: 'https://idp.example.com',
  clientId: 'a',
  clientSecret: 'canary-secret',
  scopes: { discovery: ['read'], default: ['write'] },
};
const directory = { kind: 'directory' as const, directory: 'vault', keys: VAULT_KEYS };
const environment = { kind: 'environment' as const, variables: { 'ann-notes': 'ANN' } };
const withServer = (credentials: object, over: ConfigInput = {}): ConfigInput => ({
  // Sound: each case writes credentials of the schema, which is what parses them.
  servers: { notes: { url: 'https://notes.example.com/mcp', credentials: credentials as typeof refresh } },
  ...over,
});
const checked = (input: ConfigInput) => () => checkConfig(Config.parse(input), 'configuration');

describe('a configuration with refresh tokens', () => {
  test.each<[string, ConfigInput, string]>([
    ['no vault', withServer(refresh), 'servers.notes.credentials'],
    [
      'a vault that keeps nothing, for tokens that are replaced',
      withServer(refresh, { vault: environment }),
      'servers.notes.credentials.refreshTokens',
    ],
    ['a key id twice', { vault: { ...directory, keys: [...VAULT_KEYS, ...VAULT_KEYS] } }, 'vault.keys[2].id'],
    [
      'an issuer without TLS',
      withServer({ ...refresh, issuer: 'http://idp.example.com' }, { vault: directory }),
      'servers.notes.credentials.issuer',
    ],
    [
      'a resource with a fragment',
      withServer({ ...refresh, resource: 'https://notes.example.com/#x' }, { vault: directory }),
      'servers.notes.credentials.resource',
    ],
  ])('is refused with %s', (_, input, path) => {
    expect(checked(input)).toThrow(expect.objectContaining({ code: 'CONFIG_INVALID', facts: { path } }));
  });

  test.each<[string, ConfigInput]>([
    ['a directory', withServer(refresh, { vault: directory })],
    [
      'an environment, where tokens are reusable',
      withServer({ ...refresh, refreshTokens: 'reusable' }, { vault: environment }),
    ],
  ])('is good with %s', (_, input) => {
    expect(checked(input)).not.toThrow();
  });

  test.each<[string, object]>([
    ['scopes', { scopes: undefined }],
    ['scopes.discovery', { scopes: { default: ['write'] } }],
    ['scopes.default', { scopes: { discovery: ['read'], tools: { pay: ['pay'] } } }],
    ['scopes.default', { scopes: { discovery: ['read'], default: [] } }],
    ['scopes.tools.pay', { scopes: { ...refresh.scopes, tools: { pay: [] } } }],
  ])('INV-S2: is refused where an exchange would ask for no scope, which is all of the grant (%s)', (path, over) => {
    const { error } = Config.safeParse(withServer({ ...refresh, ...over }, { vault: directory }));
    expect(error?.issues.map((issue) => issue.path.join('.'))).toEqual([`servers.notes.credentials.${path}`]);
  });

  test.each([true, false])('is refused with revoke: %s: an issuer may end the grant with the token', (revoke) => {
    const { error } = Config.safeParse(withServer({ ...refresh, revoke }, { vault: directory }));
    expect(error?.issues).toMatchObject([{ code: 'unrecognized_keys', keys: ['revoke'] }]);
  });

  test('grants may come from the vault where no sealing key is configured', () => {
    const given = withServer({ kind: 'given' });
    expect(warningsOf(Config.parse(given))).toHaveLength(1);
    expect(warningsOf(Config.parse({ ...given, vault: directory }))).toEqual([]);
  });

  test('INV-S1: its secrets are known', () => {
    const config = Config.parse(withServer(refresh, { vault: directory }));
    const secrets = ['canary-secret', ...VAULT_KEYS.map(({ key }) => key)];
    expect([...secretsOf(config, undefined)].toSorted()).toEqual(secrets.toSorted());
  });
});
