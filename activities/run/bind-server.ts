/**
 * Resolves the name of a server in a run: configured, in the catalog of its tenant, or brought by the run as
 * a URL.
 *
 * 1. One name is one server: if several of these sources know the name, they agree on its URL, or the run is refused.
 */
import { CountersignError } from '../../contracts/errors.ts';
import type { CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import type { ServerRef } from '../../contracts/schemas/run-spec.ts';
import type { ServerBinding } from '../../contracts/schemas/tool.ts';
import { bounded, visible } from '../../domain/text/escape.ts';
import { nearNames } from '../../domain/text/near-names.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import { assertConnectable } from '../catalog/connection.ts';

export function bindServer(
  config: Config,
  { name, url, allowedTools }: ServerRef,
  catalog: CatalogSnapshot | undefined,
  path: string,
): ServerBinding {
  if (catalog !== undefined) assertConnected(catalog, url, path);
  const configured = Object.hasOwn(config.servers, name) ? config.servers[name] : undefined;
  const allowed = allowedTools === undefined ? {} : { allowedTools };
  if (configured !== undefined) {
    const own = canonicalServerUrl(configured.url);
    if (catalog?.connection !== undefined) assertConnectable(config, name, catalog.connection);
    if (url !== undefined && canonicalServerUrl(url) !== own) {
      throw new CountersignError(
        'SPEC_INVALID',
        `${path}.url differs from the configured URL of ${name}; leave it out or choose another name.`,
        { path: `${path}.url` },
      );
    }
    return {
      name,
      url: own,
      ...queueOf(configured.taskQueue ?? catalog?.connection?.taskQueue),
      ...allowed,
      ...(catalog === undefined ? {} : { catalog: true }),
      ...(configured.startWaitSeconds === undefined ? {} : { startWaitSeconds: configured.startWaitSeconds }),
      ...(configured.elicitation === undefined ? {} : { holdSeconds: configured.elicitation.holdSeconds }),
    };
  }
  if (catalog?.connection !== undefined) {
    assertConnectable(config, name, catalog.connection);
    return { name, url: catalog.connection.url, ...queueOf(catalog.connection.taskQueue), ...allowed, catalog: true };
  }
  if (url === undefined) {
    throw new CountersignError(
      'SERVER_UNKNOWN',
      `${path}.name: no server is configured as ${quotedName(name)}, and no url is given.${hint(name, config.servers)}`,
      { path: `${path}.name` },
    );
  }
  assertReachable(config, url, `${path}.url`);
  return { name, url: canonicalServerUrl(url), ...allowed };
}

function queueOf(taskQueue: string | undefined): { readonly taskQueue?: string } {
  return taskQueue === undefined ? {} : { taskQueue };
}

function assertConnected({ status, server, connection }: CatalogSnapshot, url: string | undefined, path: string): void {
  if (status !== 'connected' || connection === undefined)
    throw new CountersignError(
      'SERVER_UNKNOWN',
      `${path}.name: the catalog has disconnected ${server}, and no run may use it. Ask an administrator of the catalog.`,
      { path: `${path}.name` },
    );
  if (url !== undefined && canonicalServerUrl(url) !== connection.url)
    throw new CountersignError(
      'SPEC_INVALID',
      `${path}.url differs from the URL of ${server} in the catalog; leave it out or choose another name.`,
      { path: `${path}.url` },
    );
}

/** Refuses servers of a run whose origin the operator has not listed. */
export function assertReachable(config: Pick<Config, 'egress'>, url: string, path: string): void {
  const { origin } = new URL(url);
  if (!config.egress.runServers.some((allowed) => new URL(allowed).origin === origin)) {
    throw new CountersignError(
      'SPEC_INVALID',
      `${path}: egress.runServers does not list the origin ${origin}; ask the operator, or name a configured server.`,
      { path },
    );
  }
}

/** Quotes a name that somebody has chosen, for a message. */
export function quotedName(name: string): string {
  return `"${visible(bounded(name, 128))}"`;
}

/** Suggests known names that are close to the wanted one. */
export function hint(wanted: string, known: Readonly<Record<string, unknown>>): string {
  const near = nearNames(wanted, Object.keys(known));
  return near.length > 0
    ? ` Did you mean ${near.join(', ')}?`
    : ` Configured: ${Object.keys(known).slice(0, 10).join(', ') || 'none'}.`;
}
