/** A server of a catalog as this worker may reach it: the catalog chooses, the configuration allows. */
import { CountersignError } from '../../contracts/errors.ts';
import type { CatalogConnection } from '../../contracts/schemas/catalog.ts';
import type { Config, NamedCredentials } from '../../contracts/schemas/config.ts';
import { canonicalServerUrl } from '../../domain/server-url.ts';

export function isCatalogOrigin({ catalog }: Pick<Config, 'catalog'>, url: string): boolean {
  const { origin } = new URL(url);
  return catalog.origins.some((allowed) => new URL(allowed).origin === origin);
}

export function namedCredentials(config: Pick<Config, 'credentials'>, name: string): NamedCredentials | undefined {
  return Object.hasOwn(config.credentials, name) ? config.credentials[name] : undefined;
}

/** Checked again where it is used: what a catalog holds may have been set under another configuration. @throws CountersignError `DISPATCH_FORBIDDEN` */
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
