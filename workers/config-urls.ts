/** The URLs of a configuration by what they are for: each kind has its own checks (`config-checks.ts`). */
import type { Config, Credentials } from '../contracts/schemas/config.ts';
import { pathText } from '../contracts/schemas/issues.ts';
import { isTrustUrl } from '../contracts/schemas/trust.ts';

export interface ConfiguredUrl {
  readonly path: string;
  readonly url: string;
}

/** Addresses to which this process connects. */
export function contactedUrls(config: Config): ConfiguredUrl[] {
  const servers = Object.entries(config.servers).map(([name, { url }]) => ({
    path: pathText(['servers', name, 'url']),
    url,
  }));
  const issuers = credentialsOf(config).flatMap(({ path, credentials }) =>
    'issuer' in credentials ? [{ path: pathText([...path, 'issuer']), url: credentials.issuer }] : [],
  );
  const models = Object.entries(config.models).flatMap(([name, model]) =>
    model.provider === 'scripted' || model.baseUrl === undefined
      ? []
      : [{ path: pathText(['models', name, 'baseUrl']), url: model.baseUrl }],
  );
  const webhook = config.ledger?.webhook;
  const webhooks = webhook === undefined ? [] : [{ path: 'ledger.webhook.url', url: webhook.url }];
  const { trust } = config;
  const keys =
    trust.mode === 'signed' && isTrustUrl(trust.jwks) ? [{ path: pathText(['trust', 'jwks']), url: trust.jwks }] : [];
  return [...servers, ...issuers, ...models, ...webhooks, ...keys, ...origins(config)];
}

/** Of servers that runs and catalogs may name, and of those to which credentials may go. */
export function origins(config: Config): ConfiguredUrl[] {
  const listed = (path: readonly PropertyKey[], urls: readonly string[]): ConfiguredUrl[] =>
    urls.map((url, index) => ({ path: pathText([...path, index]), url }));
  return [
    ...listed(['egress', 'runServers'], config.egress.runServers),
    ...listed(['catalog', 'origins'], config.catalog.origins),
    ...Object.entries(config.credentials).flatMap(([name, named]) =>
      listed(['credentials', name, 'origins'], named.origins),
    ),
  ];
}

/** URIs that are only names. */
export function identifiers(config: Config): ConfiguredUrl[] {
  return credentialsOf(config).flatMap(({ path, credentials }) =>
    'resource' in credentials && credentials.resource !== undefined
      ? [{ path: pathText([...path, 'resource']), url: credentials.resource }]
      : [],
  );
}

interface PlacedCredentials {
  readonly path: readonly string[];
  /** Whose they are, for warnings. */
  readonly name: string;
  readonly credentials: Credentials;
}

/** Credentials of servers, and those that catalogs may name. */
export function credentialsOf(config: Config): PlacedCredentials[] {
  return [
    ...Object.entries(config.servers).map(([name, { credentials }]) => ({
      path: ['servers', name, 'credentials'],
      name,
      credentials,
    })),
    ...Object.entries(config.credentials).map(([name, { use }]) => ({
      path: ['credentials', name, 'use'],
      name,
      credentials: use,
    })),
  ];
}
