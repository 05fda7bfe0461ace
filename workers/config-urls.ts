/** The URLs of a configuration by what they are for: each kind has its own checks (`config-checks.ts`). */
import { clientsOf, credentialsOf } from '../activities/tokens/clients.ts';
import type { Config } from '../contracts/schemas/config.ts';
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
  const issuers = clientsOf(config).map(({ path, client }) => ({ path: `${path}.issuer`, url: client.issuer }));
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
  const resources = credentialsOf(config).flatMap(({ path, credentials }) =>
    'resource' in credentials && credentials.resource !== undefined
      ? [{ path: pathText([...path, 'resource']), url: credentials.resource }]
      : [],
  );
  return [...resources, ...(config.issuer === undefined ? [] : [{ path: 'issuer.url', url: config.issuer.url }])];
}
