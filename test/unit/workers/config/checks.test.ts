/** What the shape of a configuration cannot say: headers, transport security, parts that must fit (S1.2, INV-S1). */
import { describe, expect, test } from '@jest/globals';
import { stringify } from 'yaml';
import { warningsOf } from '../../../../workers/config/warnings.ts';
import { useConfigFolders } from '../../../support/config-folder.ts';
import { withCode, refusalOf } from '../../../support/refusal.ts';

const { load, refusedAt } = useConfigFolders();
const MINIMAL = 'servers:\n  notes:\n    url: https://notes.example.com/mcp\n';

describe('a configuration whose parts are right and whole is wrong', () => {
  test.each(['Authorization', 'authorization', 'AUTHORIZATION'])(
    'S1.2: a header %s is refused, naming the field to use',
    async (name) => {
      const error = await refusalOf(load(`${MINIMAL}    headers: {${name}: Bearer canary}\n`));
      expect(error).toMatchObject(withCode('AUTHORIZATION_IN_HEADERS', 'Use servers.notes.credentials'));
      expect(error.facts.path).toBe(`servers.notes.headers.${name}`);
      expect(error.message).not.toContain('canary');
    },
  );

  const clientCredentials = (more: object) => ({
    servers: {
      notes: {
        url: 'https://a.example.com',
        credentials: {
          kind: 'client-credentials',
          issuer: 'https://i.example.com',
          clientId: 'a',
          clientSecret: 'b',
          ...more,
        },
      },
    },
  });
  const server = (url: string) => ({ servers: { notes: { url } } });

  test.each([
    ['servers.notes.url', server('http://notes.example.com/mcp')],
    ['servers.notes.url', server('http://127.0.0.1.example.com/mcp')],
    ['servers.notes.url', server('http://localhost.example.com/mcp')],
    ['servers.notes.credentials.issuer', clientCredentials({ issuer: 'http://i.example.com' })],
    [
      'models.m.baseUrl',
      { models: { m: { provider: 'openai-compatible', model: 'x', baseUrl: 'http://llm.example.com/v1' } } },
    ],
    ['egress.runServers[0]', { egress: { runServers: ['http://x.example.com'] } }],
    ['egress.issuerEndpoints[0]', { egress: { issuerEndpoints: ['http://x.example.com'] } }],
  ])(
    'plain http to another host is refused at %s, and allowed by egress.allowInsecure',
    async (path, config: object) => {
      expect(await refusedAt(path, config)).toContain('must use https');
      const allowed = {
        ...config,
        egress: { ...('egress' in config ? (config.egress as object) : {}), allowInsecure: true },
      };
      await expect(load(stringify(allowed))).resolves.toBeDefined();
    },
  );

  test.each([
    'http://127.0.0.1:8080/mcp',
    'http://127.9.9.9/mcp',
    'http://[::1]:8080/mcp',
    'http://localhost/mcp',
    'HTTP://LOCALHOST/mcp',
    'https://127.0.0.1/mcp',
    'https://localhost./mcp',
  ])('this machine is refused, and allowed by egress.allowLoopback, in clear too: %s', async (url) => {
    expect(await refusedAt('servers.notes.url', server(url))).toContain('set egress.allowLoopback: true');
    await expect(load(stringify({ ...server(url), egress: { allowLoopback: true } }))).resolves.toBeDefined();
  });

  test.each([
    ['https://10.0.0.5/mcp', '10.0.0.0/16', 'name its range in egress.allowPrivate'],
    ['https://[fd12::5]/mcp', 'fd12::/16', 'name its range in egress.allowPrivate'],
  ])('a private address is refused, and allowed by egress.allowPrivate: %s', async (url, range, next) => {
    expect(await refusedAt('servers.notes.url', server(url))).toContain(next);
    await expect(load(stringify({ ...server(url), egress: { allowPrivate: [range] } }))).resolves.toBeDefined();
  });

  test.each(['http://169.254.169.254/', 'https://[::ffff:10.0.0.5]/', 'https://0.0.0.0/'])(
    'F28: %s is refused whatever the rest says',
    async (url) => {
      const egress = { allowLoopback: true, allowInsecure: true, allowPrivate: ['10.0.0.0/8', '100.64.0.0/10'] };
      await refusedAt('servers.notes.url', { ...server(url), egress });
    },
  );

  test.each(['0.0.0.0/0', '::/0', '8.8.8.0/24', '169.254.0.0/16', '127.0.0.0/8'])(
    'egress.allowPrivate takes private ranges only: %s is none',
    async (range) => {
      await refusedAt('egress.allowPrivate[1]', { egress: { allowPrivate: ['10.0.0.0/8', range] } });
    },
  );

  test.each([
    ['servers.notes.url', server('https://user:canary@a.example.com/mcp')],
    ['servers.notes.url', server('https://canary@a.example.com/mcp')],
    ['servers.notes.url', server('https://a.example.com/mcp#canary')],
    ['servers.notes.url', server('https://a.example.com/mcp?team=7&API_KEY=canary')],
    ['servers.notes.url', server('https://a.example.com/mcp?access%5Ftoken=canary')],
    ...['key', 'code', 'sig', 'auth', 'client_secret', 'exaApiKey'].map((name): [string, object] => [
      'servers.notes.url',
      server(`https://a.example.com/mcp?${name}=canary`),
    ]),
    ['servers.notes.credentials.issuer', clientCredentials({ issuer: 'https://u:canary@i.example.com' })],
    ['servers.notes.credentials.resource', clientCredentials({ resource: 'https://a.example.com/#canary' })],
    ['egress.runServers[1]', { egress: { runServers: ['https://a.example.com', 'https://b.example.com/canary'] } }],
    [
      'grants.keys[1].kid',
      {
        grants: {
          keys: [
            { kid: 'a', privateKeyFile: 'x' },
            { kid: 'a', privateKeyFile: 'y' },
          ],
        },
      },
    ],
    ['encryption.keys[1].id', { encryption: { keys: [0, 1].map(() => ({ id: 'a', key: `${'A'.repeat(43)}=` })) } }],
  ])('%s is refused for what it holds, without showing it', async (path, config) => {
    await refusedAt(path, config);
  });

  test('what is allowed and probably not meant is a warning', async () => {
    const warnings = async (config: object): Promise<string> =>
      warningsOf((await load(stringify(config))).config).join('\n');
    expect(await warnings({})).toBe('');
    expect(await warnings({ policy: { servers: { brought: { default: 'deny' } } } })).toContain(
      'policy.servers.brought applies only where a run or a catalog has a server of that name',
    );
    expect(await warnings(server('https://a.example.com'))).toContain(
      'servers.notes.credentials is given, and grants.keys is empty',
    );
    expect(await warnings({ ...server('https://a.example.com'), policy: { givenTokens: 'deny' } })).toContain(
      'policy.givenTokens: deny forbids',
    );
    const secret = await warnings(server('https://a.example.com/s/cAnArY0123456789/mcp'));
    expect(secret).toContain('servers.notes.url has a part that looks like a secret');
    expect(secret).not.toContain('cAnArY');
  });
});
