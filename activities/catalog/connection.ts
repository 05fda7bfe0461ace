/** Checks a catalog's server as this worker may reach it: the catalog chooses, the configuration allows. */
import { CountersignError } from '../../contracts/errors.ts';
import type { CatalogConnection } from '../../contracts/schemas/catalog.ts';
import type { Config, NamedCredentials } from '../../contracts/schemas/config.ts';
import { hashOf } from '../../domain/text/canonical.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';

export function isCatalogOrigin({ catalog }: Pick<Config, 'catalog'>, url: string): boolean {
  const { origin } = new URL(url);
  return catalog.origins.some((allowed) => new URL(allowed).origin === origin);
}

export function namedCredentials(config: Pick<Config, 'credentials'>, name: string): NamedCredentials | undefined {
  return Object.hasOwn(config.credentials, name) ? config.credentials[name] : undefined;
}

/**
 * Checks the connection again where it is used: the catalog may have been set under another configuration.
 * @throws CountersignError `DISPATCH_FORBIDDEN`
 */
export function assertConnectable(config: Config, server: string, { url }: CatalogConnection): void {
  const configured = Object.hasOwn(config.servers, server) ? config.servers[server] : undefined;
  const isAllowed =
    configured === undefined ? isCatalogOrigin(config, url) : canonicalServerUrl(configured.url) === url;
  if (isAllowed) return;
  throw new CountersignError(
    'DISPATCH_FORBIDDEN',
    configured === undefined
      ? `The catalog has ${server} at an origin that catalog.origins of this worker does not list.`
      : `The catalog has ${server} under another URL than this worker.`,
  );
}

/** Hashes address and credentials of the catalog's connection: what is remembered of one does not hold for another. */
export function connectionHash(
  catalog: { readonly connection?: CatalogConnection | undefined } | undefined,
): string | undefined {
  if (catalog?.connection === undefined) return undefined;
  const { url, credentials, taskQueue } = catalog.connection;
  return hashOf({ url, credentials, taskQueue });
}
