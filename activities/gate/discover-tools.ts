/**
 * Lists one server's tools and pins them: definitions and hashes go to the artifact store, history gets a reference.
 *
 * 1. The list uses the authorization of the calls. A grant that replaced the run's own is proven first.
 * 2. If only the grant is missing or refused, and the run can ask for another one, the answer says so. Every other
 *    failure fails.
 */
import { cancellationSignal } from '@temporalio/activity';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { CATALOG_WORKFLOW } from '../../contracts/names.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import type { ArtifactRef } from '../../contracts/schemas/json.ts';
import type {
  Discovery,
  RefusedTool,
  ServerBinding,
  ServerTools,
  ToolDefinition,
} from '../../contracts/schemas/tool.ts';
import type { CatalogDiscovery, DiscoverCatalogInput } from '../../contracts/wire/catalog.ts';
import type { AuthorizationNeed } from '../../contracts/wire/proofs.ts';
import type { DiscoverInput, TurnedAway } from '../../contracts/wire/tools.ts';
import { catalogId } from '../../domain/catalog/state.ts';
import { isOffered } from '../../domain/catalog/layer.ts';
import { definitionHash } from '../../domain/request/digest.ts';
import { READ_RESOURCE_TOOL, readsLinks } from '../../domain/run/resource-link.ts';
import { canonicalJson } from '../../domain/text/canonical.ts';
import { bounded } from '../../domain/text/escape.ts';
import { nearNames } from '../../domain/text/match.ts';
import type { ArtifactStore } from '../artifacts/port.ts';
import { assertConnectable, type ReadCatalog } from '../catalog/reader.ts';
import {
  accessTo,
  credentialsOf,
  listAuthorized,
  tokenRequest,
  type LiveTools,
  needOf,
  type ServerAccess,
} from '../discovery/access.ts';
import { currentScheduler } from '../kit/activity.ts';
import { type ServerLimits, withinListLimits } from '../limits/server-limits.ts';
import { waitsForTasks, withTaskSupport } from '../mcp/legacy-2025/tasks.ts';
import type { ToolListing, ToolServer } from '../mcp/port.ts';
import { reachHash } from '../tokens/configured.ts';
import type { TokenBroker, TokenRequest } from '../tokens/port.ts';
import type { SaidAuthorizations } from '../trust/dispatch-proof.ts';
import { proveRun, type StartProofParts } from '../trust/start-proof.ts';
import { checkCatalog, checkRun } from './dispatch-check.ts';
import { provenGrant } from './statement.ts';

export const TOOLS_TYPE = 'application/vnd.countersign.tools+json';
const MOST_REFUSED_SHOWN = 50;
const MOST_MISSING_SHOWN = 20;

interface DiscoverToolsParts {
  readonly config: Config;
  readonly artifacts: ArtifactStore;
  readonly broker: TokenBroker;
  readonly server: ToolServer;
  readonly limits: ServerLimits;
  readonly liveTools: Pick<LiveTools, 'learn'>;
  readonly readCatalog: ReadCatalog;
  /** In trust mode `signed`. */
  readonly signing?: StartProofParts;
  readonly saidAuthorizations?: SaidAuthorizations;
}

export function createDiscoverTools(
  parts: DiscoverToolsParts,
): (input: DiscoverInput) => Promise<Discovery | TurnedAway> {
  const { config, artifacts, liveTools, readCatalog, signing, saidAuthorizations } = parts;
  return async (input) => {
    const { run, server: binding, signedSpec } = input;
    const scheduler = currentScheduler();
    const mistaken = checkRun(run, scheduler);
    if (mistaken !== undefined) throw new CountersignError('DISPATCH_FORBIDDEN', mistaken.message);
    if (signing !== undefined)
      await proveRun(signing, signedSpec, { run, server: binding, grant: input.grant }, scheduler);
    const said = (await saidAuthorizations?.(input, scheduler)) ?? input.authorizations ?? [];
    const grant = provenGrant({ decidedIn: [], ...input }, said) ?? input.grant;
    const catalog = await readCatalog({ tenant: run.initiator.tenant, server: binding.name });
    const gone = checkCatalog(binding, catalog);
    if (gone !== undefined) throw new CountersignError('CATALOG_NOT_FOUND', gone.message);
    const access = accessTo(config, binding, catalog);
    const request = tokenRequest({ run, server: binding, grant }, catalog, cancellationSignal());
    let listed: Awaited<ReturnType<typeof listAuthorized>>;
    try {
      listed = await listOnce(parts, request, access, run.initiator.tenant, scheduler.runId);
    } catch (error) {
      const authorization = input.mayAsk === true ? grantWanting(config, request, error) : undefined;
      if (authorization === undefined) throw error;
      return { server: binding.name, authorization };
    }
    const { token } = listed;
    liveTools.learn({ run, server: binding, grant }, listed.listing, catalog);
    const listing = withTaskSupport(config, binding.name, listed.listing, input.tasks === true);
    const { refused } = listing;
    const offered = input.links === true ? withReading(config, binding.name, listing) : listing.tools;
    const tools = offered.filter(({ name }) => catalog === undefined || isOffered(catalog, name));
    const pinned: ServerTools = {
      ...pinnedTools(binding, tools),
      ...defined({ hosted: access.hosted }),
      ...(catalog === undefined ? {} : { catalogRefreshes: catalog.lastRefresh?.refresh ?? 0 }),
      reachedBy: reachHash(config, binding, request.credentials?.name),
    };
    return {
      server: binding.name,
      tools: await stored(artifacts, pinned),
      count: tools.length,
      refused: shownRefusals(refused),
      ...missingIn(binding, tools),
      ...defined({ grantExpiresAt: token.grantExpiresAt }),
    };
  };
}

async function listOnce(
  { broker, server, limits }: Pick<DiscoverToolsParts, 'broker' | 'server' | 'limits'>,
  request: TokenRequest,
  access: ServerAccess,
  tenant: string,
  runId?: string,
): ReturnType<typeof listAuthorized> {
  const place = { name: request.server, url: request.serverUrl, tenant };
  const signal = cancellationSignal();
  return await withinListLimits(limits, place, () =>
    listAuthorized(broker, server, request, access, signal, { runId }),
  );
}

/** Consent to another try is not asked for: a run that has done nothing is started again. */
function grantWanting(config: Config, request: TokenRequest, error: unknown): AuthorizationNeed | undefined {
  const need = error instanceof CountersignError ? needOf(config, request, error) : undefined;
  return need?.wants === 'grant' ? need : undefined;
}

function withReading(
  { servers }: Pick<Config, 'servers'>,
  server: string,
  { tools, resources }: ToolListing,
): readonly ToolDefinition[] {
  return resources === true && readsLinks(servers, server) ? [...tools, READ_RESOURCE_TOOL] : tools;
}

export function pinnedTools(
  { name, url }: Pick<ServerBinding, 'name' | 'url'>,
  tools: readonly ToolDefinition[],
): ServerTools {
  return {
    server: name,
    serverUrl: url,
    tools: tools.map((definition) => ({ definition, hash: definitionHash(definition) })),
  };
}

/** Lists the tools that a run allows itself and cannot have, mostly mistyped names. */
function missingIn({ allowedTools = [] }: ServerBinding, tools: readonly ToolDefinition[]): Pick<Discovery, 'missing'> {
  const names = tools.map(({ name }) => name);
  const known = new Set(names);
  const missing = [...new Set(allowedTools)].filter((name) => !known.has(name)).slice(0, MOST_MISSING_SHOWN);
  if (missing.length === 0) return {};
  return { missing: missing.map((name) => ({ name, near: nearNames(name, names).map((near) => bounded(near, 128)) })) };
}

export async function stored(artifacts: ArtifactStore, tools: ServerTools): Promise<ArtifactRef> {
  return await artifacts.put(new TextEncoder().encode(canonicalJson(tools)), TOOLS_TYPE);
}

function shownRefusals(refused: readonly RefusedTool[]): RefusedTool[] {
  return refused
    .slice(0, MOST_REFUSED_SHOWN)
    .map(({ name, reason }) => ({ name: bounded(name, 128), reason: bounded(reason, 300) }));
}

// Lists a server's tools for its catalog: definitions go to the artifact store, history gets names and hashes.
//
// 1. All tools or none: an incomplete listing fails.
// 2. It serves catalogs only, with the credentials that the catalog names, or none. It never has a run's token.

export function createDiscoverCatalog(
  parts: Omit<DiscoverToolsParts, 'readCatalog' | 'liveTools'>,
): (input: DiscoverCatalogInput) => Promise<CatalogDiscovery> {
  const { config, artifacts } = parts;
  return async ({ tenant, server, connection }) => {
    const { workflowType, workflowId, namespace } = currentScheduler();
    if (workflowType !== CATALOG_WORKFLOW || workflowId !== catalogId({ tenant, server }))
      throw new CountersignError('DISPATCH_FORBIDDEN', 'The tools of a catalog are listed for that catalog only.');
    assertConnectable(config, server, connection);
    const binding = { name: server, url: connection.url };
    const access = accessTo(config, binding, { connection, status: 'connected' });
    const request: TokenRequest = {
      run: { namespace, workflowId, specHash: '' },
      server,
      serverUrl: connection.url,
      signal: cancellationSignal(),
      ...credentialsOf({ connection }, tenant),
    };
    const listed = await listOnce(parts, request, access, tenant);
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
