/**
 * Says which values of a configuration are secrets, and shows a configuration without them (INV-S1).
 *
 * A secret field that is added to the schema is added here too: `test/unit/workers/config/secrets.test.ts` compares the
 * two.
 */
import { MASK } from '../../activities/scrubbing/scrubber.ts';
import { clientsOf, secretHeaderValues } from '../../activities/tokens/configured.ts';
import type { Config, Credentials } from '../../contracts/schemas/config.ts';
import type { OAuthClient } from '../../contracts/schemas/credentials.ts';
import type { CodecKey } from '../../contracts/schemas/json.ts';
import type { BucketConfig } from '../../contracts/schemas/stores.ts';

/** Returns every secret of the configuration, for a scrubber. */
export function secretsOf(config: Config): readonly string[] {
  const credentials = clientsOf(config).flatMap(({ client }) => client.clientSecret ?? []);
  const headers = Object.values(config.servers).flatMap((server) => secretHeaderValues(server.headers));
  const models = Object.values(config.models).flatMap((model) =>
    model.provider !== 'scripted' && model.apiKey !== undefined ? [model.apiKey] : [],
  );
  const webhooks = config.ledger?.webhook === undefined ? [] : [config.ledger.webhook.secret];
  const { s3 } = config.artifacts;
  const bucket =
    s3 === undefined ? [] : [s3.secretAccessKey, ...(s3.sessionToken === undefined ? [] : [s3.sessionToken])];
  const keys = [...config.encryption.keys, ...vaultKeysOf(config), ...zoneKeysOf(config)].map(({ key }) => key);
  return [...new Set([...credentials, ...headers, ...models, ...webhooks, ...bucket, ...keys])];
}

/** Masks every secret, and every header value, whether it looks like a secret or not. */
export function describeConfig(config: Config): Config {
  return {
    ...config,
    servers: mapValues(config.servers, (server) => ({
      ...server,
      headers: mapValues(server.headers, () => MASK),
      credentials: masked(server.credentials),
    })),
    credentials: mapValues(config.credentials, (named) => ({ ...named, use: masked(named.use) })),
    models: mapValues(config.models, (model) =>
      model.provider === 'scripted' || model.apiKey === undefined ? model : { ...model, apiKey: MASK },
    ),
    ...(config.artifacts.s3 === undefined
      ? {}
      : { artifacts: { ...config.artifacts, s3: maskedBucket(config.artifacts.s3) } }),
    ...(config.ledger?.webhook === undefined
      ? {}
      : { ledger: { ...config.ledger, webhook: { ...config.ledger.webhook, url: MASK, secret: MASK } } }),
    ...(config.vault?.kind === 'directory' ? { vault: { ...config.vault, keys: maskedKeys(config.vault.keys) } } : {}),
    ...(config.trust.mode === 'signed'
      ? { trust: { ...config.trust, zone: { keys: maskedKeys(config.trust.zone.keys) } } }
      : {}),
    encryption: { keys: maskedKeys(config.encryption.keys) },
  };
}

function maskedBucket(bucket: BucketConfig): BucketConfig {
  const { sessionToken } = bucket;
  return { ...bucket, secretAccessKey: MASK, ...(sessionToken === undefined ? {} : { sessionToken: MASK }) };
}

function maskedKeys(keys: readonly CodecKey[]): CodecKey[] {
  return keys.map((key) => ({ ...key, key: MASK }));
}

function vaultKeysOf({ vault }: Config): readonly CodecKey[] {
  return vault?.kind === 'directory' ? vault.keys : [];
}

/** Returns the keys with which workers prove what they write; none in trust mode `temporal`. */
export function zoneKeysOf({ trust }: Partial<Pick<Config, 'trust'>>): readonly CodecKey[] {
  return trust?.mode === 'signed' ? trust.zone.keys : [];
}

function masked(credentials: Credentials): Credentials {
  switch (credentials.kind) {
    case 'client-credentials':
    case 'refresh':
    case 'token-exchange':
      return { ...credentials, ...maskedSecret(credentials) };
    case 'enterprise-managed': {
      const { identityProvider: own } = credentials;
      return { ...credentials, ...maskedSecret(credentials), identityProvider: { ...own, ...maskedSecret(own) } };
    }
    case 'none':
    case 'given':
    case 'issued':
      return credentials;
  }
}

function maskedSecret({ clientSecret }: Pick<OAuthClient, 'clientSecret'>): Pick<OAuthClient, 'clientSecret'> {
  return clientSecret === undefined ? {} : { clientSecret: MASK };
}

function mapValues<Value, Mapped>(
  record: Readonly<Record<string, Value>>,
  map: (value: Value) => Mapped,
): Record<string, Mapped> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, map(value)]));
}
