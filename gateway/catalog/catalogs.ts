/**
 * Answers what people read of catalogs, each only as far as the person may see it.
 *
 * 1. Who may see one catalog of a tenant may see all of them: an administrator of catalogs, or whoever sees every run.
 *    What does not exist and what the person may not see get the same answer.
 * 2. A catalog is asked once for all who look at it within a moment, and again after each message that was sent here.
 * 3. What is offered follows the rule that the catalog asks for when somebody does it (`domain/catalog/rights.ts`).
 * One file, because all readers of one snapshot share what was asked.
 */
import { LRUCache } from 'lru-cache';
import { effectiveVerdicts, type EffectiveVerdict, needsAnnotations, nextEnd } from '../../client/catalog/list.ts';
import type { CatalogHandle, Countersign, KnownDefinitions } from '../../client/index.ts';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type {
  CatalogEntry,
  CatalogFile,
  CatalogRight,
  CatalogRules,
  CatalogSnapshot,
} from '../../contracts/schemas/catalog.ts';
import type { CatalogAdministrators } from '../../contracts/schemas/config.ts';
import type {
  CatalogDetail,
  CatalogPage,
  CatalogRefreshed,
  CatalogRow,
  CatalogToolDetail,
} from '../../contracts/schemas/http/catalogs.ts';
import type { LedgerEntry } from '../../contracts/schemas/ledger.ts';
import type { ToolDefinition } from '../../contracts/schemas/tool.ts';
import { definitionDiff } from '../../domain/catalog/discovery.ts';
import { catalogFile } from '../../domain/catalog/file.ts';
import { administratorsOf, catalogOffers } from '../../domain/catalog/rights.ts';
import { rightsOf } from '../../domain/catalog/settings.ts';
import { catalogId, entryOf } from '../../domain/catalog/state.ts';
import { comparing } from '../../domain/policy/approvers.ts';
import type { Organisation } from '../../domain/policy/judge.ts';
import { bounded, visible } from '../../domain/text/escape.ts';
import { nearNames } from '../../domain/text/match.ts';
import type { z } from 'zod';
import type { Asker } from '../identity/person.ts';
import { OneAnswer } from '../cache/one-answer.ts';
import { newestRefresh, openChanges, rowOf, shownPending, toolOf } from './shown.ts';

/** What the configuration says of catalogs; the gateway's file says it as that of the workers does. */
export interface CatalogSettings {
  readonly administrators: readonly z.infer<typeof CatalogAdministrators>[];
  readonly policy: Organisation;
  /** Server name → true if the operator trusts the server's annotations. */
  readonly trusted: Readonly<Record<string, boolean>>;
  /** Server name → URL. */
  readonly serverUrls: Readonly<Record<string, string>>;
  /** Server name → tools whose calls may be sent twice. */
  readonly repeatable: Readonly<Record<string, readonly string[]>>;
  /** True in trust mode `signed`. */
  readonly isSigned: boolean;
}

export interface SeenDefinitions extends KnownDefinitions {
  /** Hash of the definition in the server's last list. */
  readonly hash: string;
  readonly acknowledgedHash?: string;
}

/** For this long many share one answer. */
const FRESH_MS = 1_500;
const BATCH = 8;
/** Bound of lists, and of verdicts. */
const MOST_KEPT_BYTES = 33_554_432;
/** Snapshots of some forty catalogs with the most tools, or of many more. */
const MOST_SNAPSHOT_BYTES = 134_217_728;
const MOST_KEPT = 100;
/** Entries of the ledger in which the newest refresh is looked for. */
const MOST_ENTRIES = 200;

export interface Connected {
  readonly snapshots: readonly CatalogSnapshot[];
  readonly unread: readonly string[];
}

/**
 * Facts that a snapshot gives only together with the artifact store, the ledger, and a policy, which may change
 * meanwhile.
 */
interface Depth {
  readonly verdicts: ReadonlyMap<string, EffectiveVerdict>;
  readonly refreshed: CatalogRefreshed | undefined;
  readonly policy: Organisation;
  /** Epoch ms: a rule may break glass until then. */
  readonly until: number;
}

export class Catalogs {
  readonly #countersign: Countersign;
  readonly #settings: CatalogSettings;
  readonly #now: () => number;
  readonly #listed: OneAnswer<readonly string[]>;
  readonly #snapshots: OneAnswer<CatalogSnapshot>;
  readonly #depths: OneAnswer<Depth>;
  /** Catalogs that were connected here, which visibility may not list yet. */
  readonly #connected = new LRUCache<string, readonly string[]>({ max: MOST_KEPT });

  constructor(countersign: Countersign, settings: CatalogSettings, now: () => number = Date.now) {
    this.#countersign = countersign;
    this.#settings = settings;
    this.#now = now;
    this.#listed = new OneAnswer(MOST_KEPT_BYTES, FRESH_MS, { now });
    this.#snapshots = new OneAnswer(MOST_SNAPSHOT_BYTES, FRESH_MS, { now });
    this.#depths = new OneAnswer(MOST_KEPT_BYTES, FRESH_MS, { now });
  }

  rulesOf({ tenant }: Pick<Asker, 'tenant'>): CatalogRules {
    const { administrators, policy } = this.#settings;
    return {
      administrators: administratorsOf(administrators, tenant),
      // Only the catalog's own answer says these.
      newTools: 'ask',
      loosening: 'allow',
      ...comparing(policy),
    };
  }

  rightsOf(asker: Asker): ReadonlySet<CatalogRight> {
    return rightsOf(this.rulesOf(asker), asker);
  }

  sees(asker: Asker): boolean {
    return asker.seesAll || this.rightsOf(asker).size > 0;
  }

  async list(asker: Asker): Promise<CatalogPage> {
    if (!this.sees(asker)) return { catalogs: [], unread: [] };
    const { tenant } = asker;
    const { snapshots, unread } = await this.#all(tenant, await this.serversOf(tenant));
    return { catalogs: snapshots.map((snapshot) => rowOf(snapshot, this.#now())), unread: [...unread] };
  }

  /** Reads the catalogs of these servers, in their order; those that cannot be read are named, and hide no other. */
  async #all(tenant: string, servers: readonly string[]): Promise<Connected> {
    const snapshots: CatalogSnapshot[] = [];
    const unread: string[] = [];
    for (let from = 0; from < servers.length; from += BATCH)
      await Promise.all(
        servers.slice(from, from + BATCH).map(async (server) => {
          try {
            snapshots.push(await this.#snapshot(tenant, server));
          } catch (error) {
            if (!(error instanceof CountersignError)) throw error;
            // One that nobody connected is none.
            if (error.code !== 'CATALOG_NOT_FOUND') unread.push(server);
          }
        }),
      );
    return { snapshots: snapshots.toSorted(byServer), unread: unread.toSorted() };
  }

  /** @throws CountersignError `CATALOG_NOT_FOUND`, also for catalogs that the person may not see */
  async read(asker: Asker, server: string): Promise<CatalogDetail> {
    const snapshot = await this.snapshot(asker, server);
    const { verdicts, refreshed } = await this.#depthOf(snapshot);
    const rights = this.rightsOf(asker);
    const rules = this.rulesOf(asker);
    const { tenant, connection, newTools, entries, ledgerLength, ledgerHead } = snapshot;
    const now = this.#now();
    return {
      ...rowOf(snapshot, now),
      tenant,
      ...defined({ connection }),
      newTools,
      tools: entries.map((entry) => toolOf(entry, verdicts.get(entry.name))),
      pending: openChanges(snapshot, now).map((pending) => shownPending(snapshot, pending, rules, asker, now)),
      ...defined({ refreshed }),
      ledger: { length: ledgerLength, head: ledgerHead },
      may: [...rights],
      offers: [...catalogOffers(snapshot, rights)],
    };
  }

  /** @throws CountersignError `CATALOG_NOT_FOUND`, `TOOL_UNKNOWN`, `ARTIFACT_MISSING` */
  async tool(asker: Asker, server: string, name: string): Promise<CatalogToolDetail> {
    const snapshot = await this.snapshot(asker, server);
    const entry = entryOf(snapshot, name);
    if (entry === undefined) throw noTool(snapshot, name);
    const [{ verdicts }, known] = await Promise.all([this.#depthOf(snapshot), this.#definitions(snapshot, entry)]);
    const definitions = known.get(name);
    if (definitions === undefined) throw noTool(snapshot, name);
    return {
      ...toolOf(entry, verdicts.get(name)),
      server,
      version: snapshot.policyVersion,
      definitions: { current: definitions.current, ...defined({ acknowledged: definitions.acknowledged }) },
      differences: definitionDiff(definitions.acknowledged, definitions.current).map((each) => ({ ...each })),
    };
  }

  /**
   * Reads the definitions of a tool for people who are asked about a call of it: no setting, and nothing of other
   * tools.
   * @returns undefined if there is no such catalog or tool
   * @throws CountersignError `ARTIFACT_…`, `ENGINE_UNAVAILABLE`
   */
  async definitionsOf(tenant: string, server: string, tool: string): Promise<SeenDefinitions | undefined> {
    const snapshot = await this.#snapshot(tenant, server).catch((error: unknown) => {
      if (error instanceof CountersignError && error.code === 'CATALOG_NOT_FOUND') return undefined;
      throw error;
    });
    const entry = snapshot === undefined ? undefined : entryOf(snapshot, tool);
    if (snapshot === undefined || entry === undefined) return undefined;
    const definitions = (await this.#definitions(snapshot, entry)).get(tool);
    if (definitions === undefined) return undefined;
    return { ...definitions, hash: entry.definition.hash, ...defined({ acknowledgedHash: entry.acknowledged?.hash }) };
  }

  async #definitions(snapshot: CatalogSnapshot, entry: CatalogEntry): Promise<ReadonlyMap<string, KnownDefinitions>> {
    const listings = listingsOf(snapshot, entry);
    return await this.#handle(snapshot).definitions({ ...snapshot, entries: [entry], listings });
  }

  // MCP clients are offered what agents may use, and are told nothing else of catalogs.

  /**
   * Reads the connected catalogs of a tenant, by server, and names those that cannot be read.
   * @param named servers that are looked for; absent: all that have a catalog
   */
  async connectedIn(tenant: string, named?: readonly string[]): Promise<Connected> {
    const servers = named === undefined ? await this.serversOf(tenant) : [...new Set(named)].toSorted();
    const { snapshots, unread } = await this.#all(tenant, servers);
    return { snapshots: snapshots.filter(({ status }) => status === 'connected'), unread };
  }

  /** Reads the definitions in the last lists of a catalog's server. @throws CountersignError `ARTIFACT_…` */
  async definitionsIn(snapshot: CatalogSnapshot): Promise<readonly ToolDefinition[]> {
    return [...(await this.#handle(snapshot).definitions(snapshot)).values()].map(({ current }) => current);
  }

  /** Says whether the configuration trusts the server's annotations; undefined if it does not name the server. */
  isTrusted(server: string): boolean | undefined {
    const { trusted } = this.#settings;
    return Object.hasOwn(trusted, server) ? trusted[server] : undefined;
  }

  /**
   * True if a call of the tool may be sent twice, as workers say it (`activities/policy/judge.ts`). In trust mode
   * `signed` workers believe hints of the definition that a run has pinned, which is not known here: none counts.
   */
  isRepeatable(server: string, { name, annotations }: ToolDefinition, isTrusted: boolean): boolean {
    const { repeatable, policy, isSigned } = this.#settings;
    if (Object.hasOwn(repeatable, server) && repeatable[server]?.includes(name) === true) return true;
    if (isSigned) return false;
    return policy.repeatable === 'trusted-reads' && isTrusted && annotations?.['readOnlyHint'] === true;
  }

  async file(asker: Asker, server: string): Promise<CatalogFile> {
    return catalogFile(await this.snapshot(asker, server));
  }

  async ledger(
    asker: Asker,
    server: string,
    page: { readonly from: number; readonly most: number },
  ): Promise<readonly LedgerEntry[]> {
    return await this.#handle(await this.snapshot(asker, server)).ledgerEntries(page);
  }

  /** @throws CountersignError `CATALOG_NOT_FOUND` */
  async snapshot(asker: Asker, server: string): Promise<CatalogSnapshot> {
    if (!this.sees(asker)) throw noCatalog(server);
    try {
      return await this.#snapshot(asker.tenant, server);
    } catch (error) {
      if (error instanceof CountersignError && error.code === 'CATALOG_NOT_FOUND') throw noCatalog(server);
      throw error;
    }
  }

  get configured(): readonly string[] {
    return Object.keys(this.#settings.serverUrls).toSorted();
  }

  urlOf(server: string): string | undefined {
    const { serverUrls } = this.#settings;
    return Object.hasOwn(serverUrls, server) ? serverUrls[server] : undefined;
  }

  changed(tenant: string, server: string): void {
    this.#snapshots.forget(catalogId({ tenant, server }));
  }

  /** Forgets what was read, since a message has been sent. */
  forget(tenant: string, server: string): void {
    this.changed(tenant, server);
    const known = this.#connected.get(tenant) ?? [];
    if (!known.includes(server)) this.#connected.set(tenant, [...known, server].slice(-MOST_KEPT));
  }

  #handle({ tenant, server }: { readonly tenant: string; readonly server: string }): CatalogHandle {
    return this.#countersign.catalog(server, tenant);
  }

  async serversOf(tenant: string): Promise<readonly string[]> {
    const listed = await this.#listed.get(tenant, async () =>
      (await this.#countersign.catalogs({ tenant }))
        // A writer to the namespace chooses search attributes, and the id alone says whose a catalog is.
        .filter((each) => each.tenant === tenant)
        .map(({ server }) => server),
    );
    return [...new Set([...listed, ...(this.#connected.get(tenant) ?? [])])].toSorted();
  }

  async #snapshot(tenant: string, server: string): Promise<CatalogSnapshot> {
    const read = async (): Promise<CatalogSnapshot> => await this.#handle({ tenant, server }).snapshot();
    return await this.#snapshots.get(catalogId({ tenant, server }), read);
  }

  async #depthOf(snapshot: CatalogSnapshot): Promise<Depth> {
    const { mark, entries } = snapshot;
    const freshMs = (depth: Depth | undefined): number => {
      if (depth === undefined) return Number.POSITIVE_INFINITY;
      const isOfNow = depth.policy === this.#settings.policy && this.#now() < depth.until;
      // A store that was away may be back for the next reader.
      return isOfNow && depth.verdicts.size === entries.length ? Number.POSITIVE_INFINITY : 0;
    };
    return await this.#depths.get(catalogId(snapshot), async () => await this.#readDepth(snapshot), { mark, freshMs });
  }

  async #readDepth(snapshot: CatalogSnapshot): Promise<Depth> {
    const now = this.#now();
    const { policy } = this.#settings;
    const [verdicts, refreshed] = await Promise.all([this.#verdictsOf(snapshot, now), this.#refreshedOf(snapshot)]);
    return { verdicts, refreshed, policy, until: nextEnd(policy, now) };
  }

  async #verdictsOf(snapshot: CatalogSnapshot, now: number): Promise<ReadonlyMap<string, EffectiveVerdict>> {
    const { policy, isSigned } = this.#settings;
    const surroundings = { policy, configuredTrust: this.isTrusted(snapshot.server), isSigned };
    let definitions: ReadonlyMap<string, KnownDefinitions> = new Map();
    if (needsAnnotations(snapshot, surroundings)) {
      try {
        definitions = await this.#handle(snapshot).definitions(snapshot);
      } catch (error) {
        if (error instanceof CountersignError && error.code.startsWith('ARTIFACT_')) return new Map();
        throw error;
      }
    }
    return effectiveVerdicts(snapshot, definitions, surroundings, now);
  }

  async #refreshedOf(snapshot: CatalogSnapshot): Promise<CatalogRefreshed | undefined> {
    const { ledgerLength, lastRefresh } = snapshot;
    if (lastRefresh === undefined) return undefined;
    const from = Math.max(0, ledgerLength - MOST_ENTRIES);
    try {
      return newestRefresh(await this.#handle(snapshot).ledgerEntries({ from, most: MOST_ENTRIES }));
    } catch (error) {
      // Older entries stand in the store.
      if (error instanceof CountersignError && error.code.startsWith('ARTIFACT_')) return undefined;
      throw error;
    }
  }
}

/** The same words for a catalog that nobody connected and for one that the person may not see. */
export function noCatalog(server: string): CountersignError {
  const message = `There is no catalog of ${server} that you may see. An administrator of catalogs connects it.`;
  return new CountersignError('CATALOG_NOT_FOUND', message, { server });
}

function noTool({ server, entries }: CatalogSnapshot, name: string): CountersignError {
  const near = nearNames(
    name,
    entries.map((entry) => entry.name),
  );
  const hint = near.length === 0 ? '' : ` Did you mean ${near.map(visible).join(', ')}?`;
  const message = `The catalog of ${server} has no tool ${bounded(visible(name), 128)}.${hint || ' Read its catalog for the names; refresh it if the tool is new.'}`;
  return new CountersignError('TOOL_UNKNOWN', message, { server });
}

type OfServer = Pick<CatalogRow, 'server'>;

function byServer({ server: one }: OfServer, { server: other }: OfServer): number {
  return one < other ? -1 : 1;
}

/** Keeps the listings that hold a tool's own definitions, so that no other is read. */
function listingsOf(
  { listings }: CatalogSnapshot,
  { definition, acknowledged }: CatalogEntry,
): CatalogSnapshot['listings'] {
  const wanted = new Set([definition.refresh, acknowledged?.refresh].map(String));
  return Object.fromEntries(Object.entries(listings).filter(([refresh]) => wanted.has(refresh)));
}
