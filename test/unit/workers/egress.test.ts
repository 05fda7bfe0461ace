/** Which origins a worker may contact: those that its configuration names, and no others. */
import { expect, test } from '@jest/globals';
import { Config } from '../../../contracts/schemas/config.ts';
import { openEgress } from '../../../workers/composition.ts';

const credentials = {
  kind: 'client-credentials',
  issuer: 'https://login.a.example',
  clientId: 'c',
  clientSecret: 's',
} as const;
// No look-up is needed to tell: the port is one that is never asked (WHATWG Fetch, "bad port"), or the origin is
// refused.
const config = Config.parse({
  servers: {
    a: { url: 'https://a.example:1/mcp', credentials: { ...credentials, issuer: 'https://login.example:1' } },
  },
  credentials: { b: { use: { ...credentials, issuer: 'https://other.example:1' }, origins: ['https://b.example:1'] } },
  catalog: { origins: ['https://c.example:1'] },
  egress: { runServers: ['https://d.example:1'], issuerEndpoints: ['https://tokens.example:1'] },
  models: {
    own: { provider: 'openai-compatible', model: 'm', baseUrl: 'https://m.example:1/v1' },
    openai: { provider: 'openai', model: 'm', apiKey: 'k' },
  },
  artifacts: {
    s3: { endpoint: 'https://store.example:1', bucket: 'artifacts', accessKeyId: 'a', secretAccessKey: 's' },
  },
  trust: { mode: 'signed', jwks: 'https://keys.example:1/jwks' },
  ledger: {
    sign: { kid: 'k', privateKeyFile: 'k.pem' },
    webhook: { url: 'https://siem.example:1/in', secret: `whsec_${'a'.repeat(32)}` },
  },
});

async function refusalAt(url: string): Promise<unknown> {
  const outlet = openEgress(config).outlet({ what: 'a test', to: [url], maxBytes: 1 });
  try {
    return await outlet.fetch(url, { signal: AbortSignal.abort() }).catch((error: unknown) => error);
  } finally {
    await outlet.close();
  }
}

test.each([
  'https://a.example:1',
  'https://login.example:1',
  'https://other.example:1',
  'https://b.example:1',
  'https://c.example:1',
  'https://d.example:1',
  'https://tokens.example:1',
  'https://m.example:1',
  'https://api.openai.com',
  'https://keys.example:1',
  'https://siem.example:1',
  'https://store.example:1',
])('%s is named', async (origin) => {
  expect(await refusalAt(`${origin}/anything`)).not.toMatchObject({ code: 'EGRESS_FORBIDDEN' });
});

test.each(['https://e.example:1', 'https://a.example:2', 'https://api.anthropic.com', 'https://example:1'])(
  '%s is not',
  async (origin) => {
    expect(await refusalAt(`${origin}/anything`)).toMatchObject({ code: 'EGRESS_FORBIDDEN' });
  },
);
