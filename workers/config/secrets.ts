/**
 * Says which values of a configuration are secrets (INV-S1).
 *
 * A secret field that is added to the schema is added here too: `test/unit/workers/config/secrets.test.ts` compares the
 * two.
 */
import { clientsOf, type HeaderSecrets, secretHeaderValues } from '../../activities/tokens/configured.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import type { CodecKey } from '../../contracts/schemas/json.ts';
import type { Channel } from '../../contracts/schemas/channels.ts';

/**
 * Returns every secret of the configuration, for a scrubber.
 * @param headerSecrets undefined if it came from no file
 */
export function secretsOf(config: Config, headerSecrets: HeaderSecrets | undefined): readonly string[] {
  const credentials = clientsOf(config).flatMap(({ client }) => client.clientSecret ?? []);
  const headers = Object.entries(config.servers).flatMap(([name, server]) =>
    secretHeaderValues(server.headers, headerSecrets?.get(name)),
  );
  const models = Object.values(config.models).map((model) => ('apiKey' in model ? model.apiKey : undefined));
  const { s3 } = config.artifacts;
  const signIn = config.gateway?.signIn;
  const others = [
    ...models,
    signIn?.clientSecret,
    config.gateway?.slack?.signingSecret,
    config.ledger?.webhook?.secret,
    s3?.secretAccessKey,
    s3?.sessionToken,
  ];
  const channels = Object.values(config.notify.channels).flatMap(channelSecrets);
  const keys = [...config.encryption.keys, ...vaultKeysOf(config), ...zoneKeysOf(config), ...(signIn?.keys ?? [])].map(
    ({ key }) => key,
  );
  return [...new Set([...credentials, ...headers, ...others, ...channels, ...keys])].filter(
    (secret) => secret !== undefined,
  );
}

function channelSecrets(channel: Channel): readonly (string | undefined)[] {
  switch (channel.kind) {
    case 'webhook':
      return [channel.secret];
    case 'mail':
      return [channel.password];
    case 'slack':
      return [channel.token];
    case 'slack-webhook':
      return [channel.webhookUrl];
  }
}

function vaultKeysOf({ vault }: Config): readonly CodecKey[] {
  return vault?.kind === 'directory' ? vault.keys : [];
}

/** Returns the keys with which workers prove what they write; none in trust mode `temporal`. */
export function zoneKeysOf({ trust }: Partial<Pick<Config, 'trust'>>): readonly CodecKey[] {
  return trust?.mode === 'signed' ? trust.zone.keys : [];
}
