/**
 * Reads catalogs as they are now, or were seconds ago.
 *
 * 1. It fails closed (INV-G4): a catalog that cannot be read is an error that may pass, never "no catalog".
 * 2. It sends at most one query for each catalog at a time, and none while the last answer is fresh.
 */
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { LRUCache } from 'lru-cache';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { QUERIES } from '../../contracts/names.ts';
import { type CatalogConnection, CatalogSnapshot, CatalogUnchanged } from '../../contracts/schemas/catalog.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { ServerTools } from '../../contracts/schemas/tool.ts';
import type { CatalogIdentity } from '../../contracts/wire/catalog.ts';
import type { ToolsetRef } from '../../contracts/wire/identity.ts';
import { catalogId, entryOf } from '../../domain/catalog/state.ts';
import { catalogSays } from '../../domain/catalog/layer.ts';
import { assembleToolset, type OfferedTool } from '../../domain/run/toolset.ts';
import { byteLength, hashOf } from '../../domain/text/canonical.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import type { ArtifactStore } from '../artifacts/port.ts';
import type { CatalogSay } from '../../domain/policy/judge.ts';
import { ownValue } from '../kit/json.ts';

/** Returns undefined if there is no catalog, or none that was ever connected. */
export type ReadCatalog = (identity: CatalogIdentity) => Promise<CatalogSnapshot | undefined>;

/** A worker may miss a change of a catalog for this long. */
const FRESH_MS = 2_000;
const DEADLINE_MS = 10_000;
/** Limits of the kept catalogs, by number and by bytes as JSON: one may have a megabyte. */
const MOST_KEPT = 500;
const MOST_CATALOG_BYTES = 67_108_864;

interface Kept {
  readonly at: number;
  readonly snapshot: CatalogSnapshot | undefined;
  readonly bytes: number;
}

export function createCatalogReader(client: Client, now: () => number = Date.now): ReadCatalog {
  const kept = new LRUCache<string, Kept>({ max: MOST_KEPT, maxSize: MOST_CATALOG_BYTES });
  const asking = new Map<string, Promise<CatalogSnapshot | undefined>>();
  const ask = async (id: string): Promise<CatalogSnapshot | undefined> => {
    // The time is taken before the question: a change during the answer counts as not seen.
    const at = now();
    const known = kept.get(id);
    const snapshot = await askCatalog(client, id, known?.snapshot);
    const isKnown = known !== undefined && known.snapshot === snapshot;
    const bytes = isKnown ? known.bytes : byteLength(JSON.stringify(snapshot ?? null));
    // The newest stays, however large: somebody asks for it.
    kept.set(id, { at, snapshot, bytes }, { size: Math.min(bytes, MOST_CATALOG_BYTES) });
    return snapshot;
  };
  return async (identity) => {
    const id = catalogId(identity);
    const known = kept.get(id);
    if (known !== undefined && now() - known.at < FRESH_MS) return known.snapshot;
    const running = asking.get(id);
    if (running !== undefined) return await running;
    const question = ask(id).finally(() => asking.delete(id));
    asking.set(id, question);
    return await question;
  };
}

async function askCatalog(
  client: Client,
  id: string,
  known: CatalogSnapshot | undefined,
): Promise<CatalogSnapshot | undefined> {
  let answer: unknown;
  try {
    answer = await client.connection.withDeadline(
      Date.now() + DEADLINE_MS,
      async () => await client.workflow.getHandle(id).query<unknown, [string]>(QUERIES.snapshot, known?.mark ?? ''),
    );
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined;
    throw unavailable(id, error);
  }
  if (known !== undefined && CatalogUnchanged.safeParse(answer).data?.mark === known.mark) return known;
  let snapshot: CatalogSnapshot;
  try {
    snapshot = parseAs(CatalogSnapshot, answer, 'CATALOG_UNAVAILABLE', 'catalog');
  } catch (error) {
    throw unavailable(id, error);
  }
  return snapshot.status === 'new' ? undefined : snapshot;
}

function unavailable(id: string, cause: unknown): CountersignError {
  return new CountersignError(
    'CATALOG_UNAVAILABLE',
    `${id} could not be read, so nothing is let pass. It is tried again; see the workflow in Temporal UI if this stays.`,
    { catalog: id },
    { cause },
  );
}

// Shows one tool as its catalog sees it now. A run pins definitions when it starts; if the catalog has learned of a
// change since, the newer definition counts: a call would meet that one.

/**
 * Returns the catalog's layer of the judge; undefined if there is no catalog.
 * @param tool as it is now; the model chose it by its `pinned` definition, so the stricter of both counts
 */
export function layerOf(
  catalog: CatalogSnapshot | undefined,
  { tool, pinned }: ToolNow,
  rules: Pick<Config['catalog'], 'newTools'>,
): CatalogSay | undefined {
  const now = layerOfOne(catalog, tool, rules);
  const then = tool.hash === pinned.hash ? now : layerOfOne(catalog, pinned, rules);
  return now?.kind === 'nothing' && then?.kind === 'ask' ? then : now;
}

/** A tool as a call would meet it now, and as the run was told of it. */
export interface ToolNow {
  readonly tool: OfferedTool;
  readonly pinned: OfferedTool;
}

function layerOfOne(
  catalog: CatalogSnapshot | undefined,
  tool: OfferedTool,
  { newTools }: Pick<Config['catalog'], 'newTools'>,
): CatalogSay | undefined {
  if (catalog === undefined) return undefined;
  const { server, connection, status } = catalog;
  if (status === 'connected' && connection?.url !== tool.serverUrl)
    return {
      kind: 'deny',
      rule: `catalog/${server}/url`,
      code: 'POLICY_DENIED',
      message: `The catalog has ${server} at another address than the run.`,
    };
  // The settings are those of the configuration now, not of the time of the last change of the catalog.
  return catalogSays({ ...catalog, newTools }, tool.definition.name, tool.hash);
}

/** Returns the hash of the definition that `tool` holds; of a newer one that cannot be found, that is all. */
export function heldHash({ tool, pinned }: ToolNow): string {
  return tool.definition === pinned.definition ? pinned.hash : tool.hash;
}

export async function currentTool(
  loadToolset: LoadToolset,
  catalog: CatalogSnapshot | undefined,
  pinned: OfferedTool,
): Promise<ToolNow> {
  const { server, serverUrl } = pinned;
  const entry = catalog && entryOf(catalog, pinned.definition.name);
  if (entry === undefined || entry.definition.hash === pinned.hash) return { tool: pinned, pinned };
  const { refresh, hash } = entry.definition;
  if (refresh <= (pinned.catalogRefreshes ?? 0)) return { tool: pinned, pinned };
  const tools = catalog?.listings[String(refresh)];
  const listed = tools === undefined ? [] : await loadToolset([{ server, tools }]);
  const named = listed.filter(({ definition }) => definition.name === pinned.definition.name);
  const newer = named.find((each) => each.server === server && each.serverUrl === serverUrl && each.hash === hash);
  // Without the newer definition nobody could see it: its hash alone makes the call ask.
  return { tool: { ...pinned, ...defined({ definition: newer?.definition }), hash }, pinned };
}

// Reads the tools of a run from the artifact store by reference, and keeps them while they are in use: references are
// hashes, so a kept toolset is never stale.

export type LoadToolset = (refs: readonly ToolsetRef[]) => Promise<readonly OfferedTool[]>;

/**
 * Limits of the kept toolsets, by number and by bytes of their stored definitions; in memory they take several times as
 * much.
 */
const MOST_TOOLSETS_KEPT = 50;
const MOST_KEPT_BYTES = 67_108_864;

export function createToolsetLoader(artifacts: ArtifactStore): LoadToolset {
  const kept = new LRUCache<string, readonly OfferedTool[]>({ max: MOST_TOOLSETS_KEPT, maxSize: MOST_KEPT_BYTES });
  return async (refs) => {
    const key = JSON.stringify(refs);
    const found = kept.get(key);
    if (found !== undefined) return found;
    const parts = await Promise.all(
      refs.map(async ({ tools, allowedTools }) => {
        const stored: unknown = JSON.parse(new TextDecoder().decode(await artifacts.get(tools)));
        return {
          tools: parseAs(ServerTools, stored, 'ARTIFACT_CORRUPT', 'stored tools'),
          ...defined({ allowedTools }),
        };
      }),
    );
    const toolset = assembleToolset(parts);
    const bytes = refs.reduce((sum, { tools }) => sum + tools.bytes, 1);
    // The newest toolset stays, however large: its run is at work.
    kept.set(key, toolset, { size: Math.min(bytes, MOST_KEPT_BYTES) });
    return toolset;
  };
}

export function isCatalogOrigin({ catalog }: Pick<Config, 'catalog'>, url: string): boolean {
  const { origin } = new URL(url);
  return catalog.origins.some((allowed) => new URL(allowed).origin === origin);
}

/**
 * Checks the connection again where it is used: the catalog may have been set under another configuration.
 * @throws CountersignError `DISPATCH_FORBIDDEN`
 */
export function assertConnectable(config: Config, server: string, { url }: CatalogConnection): void {
  const configured = ownValue(config.servers, server);
  const isAllowed =
    configured === undefined ? isCatalogOrigin(config, url) : canonicalServerUrl(configured.url) === url;
  if (isAllowed) return;
  const where =
    configured === undefined
      ? 'at an origin that catalog.origins of this worker does not list'
      : 'under another URL than this worker';
  throw new CountersignError('DISPATCH_FORBIDDEN', `The catalog has ${server} ${where}.`);
}

/** Names a connection: nothing that is remembered of one holds for another. */
export function connectionHash(
  catalog: { readonly connection?: CatalogConnection | undefined } | undefined,
): string | undefined {
  if (catalog?.connection === undefined) return undefined;
  const { url, credentials, taskQueue } = catalog.connection;
  return hashOf({ url, credentials, taskQueue });
}
