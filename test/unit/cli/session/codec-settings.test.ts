/** A codec server reads of the configuration its own part, the payload keys and whose tokens count, and starts only where somebody is named (INV-S1). */
import { expect, test } from '@jest/globals';
import { loadCodecSettings } from '../../../../cli/session/gateway.ts';
import { CodecServerConfig } from '../../../../contracts/schemas/gateway.ts';
import { startCodecServer } from '../../../../gateway/codec/server.ts';
import { useConfigFolders } from '../../../support/config-folder.ts';

const { folder } = useConfigFolders();

const KEYS = `encryption: { keys: [{ id: k1, key: '${Buffer.alloc(32, 1).toString('base64')}' }] }`;
const OIDC = { issuer: 'https://login.example.com', audience: 'https://countersign.example.com' };

async function settings(yaml: string) {
  return await loadCodecSettings({ env: {}, directory: await folder({ 'countersign.yaml': yaml }) }, {});
}

test('it believes the provider of the gateway unless it has its own, and asks for no secret of others', async () => {
  const gateway = `gateway: { oidc: { issuer: '${OIDC.issuer}', audience: a }, signIn: { publicUrl: 'https://x.example', clientId: x, clientSecret: '\${NOT_HERE}' } }`;
  const models = `models: { main: { provider: openai, model: x, apiKey: '\${NOR_HERE}' } }`;
  const inherited = await settings(`${KEYS}\n${gateway}\n${models}\ncodecServer: { may: { groups: [operators] } }\n`);
  expect(inherited.codecServer.oidc).toMatchObject({ issuer: OIDC.issuer, audience: 'a' });
  expect(inherited.models).toEqual({});
  const own = await settings(
    `${KEYS}\n${gateway}\ncodecServer: { oidc: { issuer: 'https://ui.example', audience: b } }\n`,
  );
  expect(own.codecServer.oidc).toMatchObject({ issuer: 'https://ui.example', audience: 'b' });
});

test('without keys there is nothing to decode', async () => {
  await expect(settings('codecServer: { development: true }')).rejects.toMatchObject({
    code: 'CONFIG_INVALID',
    facts: { path: 'encryption.keys' },
  });
});

test.each([
  ['whose tokens count', {}, 'codecServer.oidc'],
  ['who may read', { oidc: { ...OIDC, tenant: 'acme' } }, 'codecServer.may'],
  ['of which tenants', { oidc: OIDC, may: { groups: ['operators'] } }, 'codecServer.tenants'],
])('it does not start until the configuration says %s', async (_what, config, path) => {
  const start = startCodecServer({
    config: CodecServerConfig.parse({ port: 0, ...config }),
    namespace: 'default',
    codec: { decode: async (payloads) => payloads },
    ask: async () => new Response(),
  });
  await expect(start).rejects.toMatchObject({ code: 'CONFIG_INVALID', facts: { path } });
});

test.each(['https://ui.example.com', 'http://localhost:8233', 'http://[::1]:8233'])('an origin: %s', (origin) => {
  expect(CodecServerConfig.parse({ origins: [origin] }).origins).toEqual([origin]);
});

test.each([
  '*',
  'null',
  'https://*.example.com',
  'https://ui.example.com/',
  'https://UI.example.com',
  'https://ui.example.com:443',
  'http://ui.example.com:80',
  'https://me@ui.example.com',
  'ftp://ui.example.com',
  'ui.example.com',
])('no origin that a browser would name: %s', (origin) => {
  expect(CodecServerConfig.safeParse({ origins: [origin] }).success).toBe(false);
});
