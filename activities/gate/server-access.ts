/** Finds a server of a run in this worker's own configuration: its address, and how tokens for it are obtained. */
import { CountersignError } from '../../contracts/errors.ts';
import type { CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import type { Config, ServerConfig } from '../../contracts/schemas/config.ts';
import type { Grant } from '../../contracts/schemas/run-spec.ts';
import type { ServerBinding } from '../../contracts/schemas/tool.ts';
import type { RunIdentity } from '../../contracts/wire/identity.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import { assertConnectable } from '../catalog/connection.ts';
import type { ServerConnection } from '../mcp/port.ts';
import { assertReachable } from '../run/bind-server.ts';
import type { MintedToken, TokenRequest } from '../tokens/port.ts';

export interface ServerAccess {
  readonly headers: Readonly<Record<string, string>>;
  readonly protocol: ServerConfig['protocol'];
  readonly elicitation?: ServerConfig['elicitation'];
}

/** @throws if the binding differs from this configuration, because of a queue for another zone or a forged input */
export function accessTo(
  config: Config,
  { name, url }: ServerBinding,
  catalog: Pick<CatalogSnapshot, 'connection' | 'status'> | undefined,
): ServerAccess {
  const configured = Object.hasOwn(config.servers, name) ? config.servers[name] : undefined;
  if (configured === undefined && catalog?.connection !== undefined) {
    assertConnectable(config, name, catalog.connection);
    if (catalog.status !== 'connected' || catalog.connection.url !== url)
      throw new CountersignError('DISPATCH_FORBIDDEN', `The catalog has ${name} at another address, or disconnected.`);
    return { headers: {}, protocol: 'auto' };
  }
  if (configured === undefined) {
    assertReachable(config, url, `servers.${name}`);
    return { headers: {}, protocol: 'auto' };
  }
  if (canonicalServerUrl(configured.url) !== url) {
    throw new CountersignError(
      'DISPATCH_FORBIDDEN',
      `The run knows server ${name} under another URL than this worker.`,
    );
  }
  return configured;
}

/**
 * Returns the credentials that the catalog names. The configuration defines them and says to which servers they may go.
 */
export function credentialsOf(
  catalog: Pick<CatalogSnapshot, 'connection'> | undefined,
  tenant: string,
): Pick<TokenRequest, 'credentials'> {
  const name = catalog?.connection?.credentials;
  return name === undefined ? {} : { credentials: { name, tenant } };
}

/** Builds the request for a token with which the tools of a server are listed for a run. */
export function listingRequest(
  {
    run,
    server,
    grant,
  }: { readonly run: RunIdentity; readonly server: ServerBinding; readonly grant?: Grant | undefined },
  catalog: Pick<CatalogSnapshot, 'connection'> | undefined,
  signal: AbortSignal,
): TokenRequest {
  return {
    run,
    server: server.name,
    serverUrl: server.url,
    initiator: run.initiator,
    signal,
    ...(grant === undefined ? {} : { grant }),
    ...credentialsOf(catalog, run.initiator.tenant),
  };
}

/** @param held secrets used earlier in this activity: the server has seen them and may echo them now */
export function connectionOf(
  { name, url }: ServerBinding,
  { headers, protocol, elicitation }: ServerAccess,
  token: MintedToken,
  held: readonly string[],
): ServerConnection {
  return {
    name,
    url,
    headers,
    protocol,
    secrets: [...token.secrets, ...held],
    ...(elicitation === undefined ? {} : { asks: true }),
    ...(token.accessToken === undefined ? {} : { accessToken: token.accessToken }),
  };
}

/** Lists all secrets that a holder of the connection must not pass on. */
export function secretsOf({
  accessToken,
  secrets,
}: Pick<MintedToken | ServerConnection, 'accessToken' | 'secrets'>): readonly string[] {
  return accessToken === undefined ? secrets : [...secrets, accessToken];
}
