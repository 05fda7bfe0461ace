/**
 * Which values of a configuration are secrets, and how a configuration is shown without them (INV-S1).
 *
 * A secret field that is added to the schema is added here too: `test/unit/config/secrets.test.ts` compares the two.
 */
import { secretHeaderValues } from '../activities/tokens/secret-headers.ts';
import { MASK } from '../activities/tools/scrub.ts';
import type { Config } from '../contracts/schemas/config.ts';

/** Every secret of the configuration, for a scrubber. */
export function secretsOf(config: Config): readonly string[] {
  const servers = Object.values(config.servers).flatMap(({ credentials, headers }) => [
    ...(credentials.kind === 'client-credentials' ? [credentials.clientSecret] : []),
    ...secretHeaderValues(headers),
  ]);
  const models = Object.values(config.models).flatMap((model) =>
    model.provider !== 'scripted' && model.apiKey !== undefined ? [model.apiKey] : [],
  );
  return [...new Set([...servers, ...models, ...config.encryption.keys.map(({ key }) => key)])];
}

/** The configuration with every secret masked, and every header value, whether it looks like a secret or not. */
export function describeConfig(config: Config): Config {
  return {
    ...config,
    servers: mapValues(config.servers, (server) => ({
      ...server,
      headers: mapValues(server.headers, () => MASK),
      credentials:
        server.credentials.kind === 'client-credentials'
          ? { ...server.credentials, clientSecret: MASK }
          : server.credentials,
    })),
    models: mapValues(config.models, (model) =>
      model.provider === 'scripted' || model.apiKey === undefined ? model : { ...model, apiKey: MASK },
    ),
    encryption: { keys: config.encryption.keys.map((key) => ({ ...key, key: MASK })) },
  };
}

function mapValues<Value, Mapped>(
  record: Readonly<Record<string, Value>>,
  map: (value: Value) => Mapped,
): Record<string, Mapped> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, map(value)]));
}
