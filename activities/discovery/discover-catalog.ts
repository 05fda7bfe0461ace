/**
 * Lists a server's tools for its catalog: definitions go to the artifact store, history gets names and hashes.
 *
 * 1. All tools or none: an incomplete listing fails.
 * 2. It serves catalogs only, with the credentials that the catalog names, or none. It never has a run's token.
 */
import { cancellationSignal } from '@temporalio/activity';
import { CountersignError } from '../../contracts/errors.ts';
import { CATALOG_WORKFLOW } from '../../contracts/names.ts';
import type { CatalogDiscovery, DiscoverCatalogInput } from '../../contracts/wire/catalog.ts';
import { catalogId } from '../../domain/catalog/state.ts';
import { assertConnectable } from '../catalog/connection.ts';
import { accessTo, connectionOf, credentialsOf } from '../gate/server-access.ts';
import { currentScheduler } from '../kit/scheduler.ts';
import { waitsForTasks, withTaskSupport } from '../mcp/legacy-2025/tasks.ts';
import type { ServerConnection } from '../mcp/port.ts';
import type { MintedToken, TokenRequest } from '../tokens/port.ts';
import { listAuthorized, withinListLimits } from './authorized-list.ts';
import { type DiscoverToolsParts, pinnedTools, shownRefusals, stored, withReading } from './discover-tools.ts';

export function createDiscoverCatalog({
  config,
  artifacts,
  broker,
  server: port,
  limits,
}: Omit<DiscoverToolsParts, 'readCatalog' | 'liveTools'>): (input: DiscoverCatalogInput) => Promise<CatalogDiscovery> {
  return async ({ tenant, server, connection }) => {
    const { workflowType, workflowId, namespace } = currentScheduler();
    if (workflowType !== CATALOG_WORKFLOW || workflowId !== catalogId({ tenant, server }))
      throw new CountersignError('DISPATCH_FORBIDDEN', 'The tools of a catalog are listed for that catalog only.');
    assertConnectable(config, server, connection);
    const binding = { name: server, url: connection.url };
    const access = accessTo(config, binding, { connection, status: 'connected' });
    const signal = cancellationSignal();
    const request: TokenRequest = {
      run: { namespace, workflowId, specHash: '' },
      server,
      serverUrl: connection.url,
      signal,
      ...credentialsOf({ connection }, tenant),
    };
    const connect = (token: MintedToken, held: readonly string[]): ServerConnection =>
      connectionOf(binding, access, token, held);
    const asked = { broker, server: port, request, connect, signal };
    const place = { name: server, url: connection.url, tenant };
    const listed = await withinListLimits(limits, place, async () => await listAuthorized(asked));
    const listing = withTaskSupport(config, server, listed.listing, waitsForTasks(config));
    // Our own tool is added, so that operators can set for it what they set for any other.
    const pinned = pinnedTools(binding, withReading(config, server, listing));
    return {
      listing: await stored(artifacts, pinned),
      tools: pinned.tools.map(({ definition, hash }) => ({ name: definition.name, hash })),
      refused: shownRefusals(listing.refused),
    };
  };
}
