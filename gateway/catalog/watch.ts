/**
 * Tells of catalogs that may have changed, wherever they were changed.
 *
 * 1. A catalog is asked for once in a while for all who watch it, and not at all while nobody does. Temporal answers:
 *    no worker is asked, and no catalog is woken.
 * 2. What was read of a catalog before a change is not shown after it.
 */
import type { Countersign } from '../../client/index.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { catalogId } from '../../domain/catalog/state.ts';
import type { Catalogs } from './catalogs.ts';

const EVERY_MS = 2_000;
const BATCH = 8;
/** Catalogs of one look; where more are watched, each has its turn. */
const MOST_LOOKED = 64;

interface Watcher {
  readonly tenant: string;
  /** Absent: all catalogs of the tenant. */
  readonly server: string | undefined;
  readonly tell: () => void;
}

interface Watched {
  readonly tenant: string;
  readonly server: string;
}

export class CatalogWatch {
  readonly #countersign: Pick<Countersign, 'catalog'>;
  readonly #catalogs: Pick<Catalogs, 'changed' | 'serversOf'>;
  readonly #watchers = new Set<Watcher>();
  /** Catalog → the mark that it had last. */
  readonly #marks = new Map<string, string>();
  #isRunning = false;
  /** Place at which the next look begins, where not all have room in one. */
  #turn = 0;

  constructor(countersign: Pick<Countersign, 'catalog'>, catalogs: Pick<Catalogs, 'changed' | 'serversOf'>) {
    this.#countersign = countersign;
    this.#catalogs = catalogs;
  }

  /** @param server absent: all catalogs of the tenant. @returns how to end it */
  follow(tenant: string, server: string | undefined, tell: () => void): () => void {
    const watcher = { tenant, server, tell };
    this.#watchers.add(watcher);
    if (!this.#isRunning) void this.#run();
    return () => void this.#watchers.delete(watcher);
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    while (this.#watchers.size > 0) {
      // A look that fails is not the last.
      await this.#look().catch(() => undefined);
      await new Promise((resolve) => void setTimeout(resolve, EVERY_MS).unref());
    }
    this.#isRunning = false;
  }

  async #look(): Promise<void> {
    const all = await this.#watched();
    const first = all.length > MOST_LOOKED ? this.#turn % all.length : 0;
    const watched = [...all.slice(first), ...all.slice(0, first)].slice(0, MOST_LOOKED);
    this.#turn = first + watched.length;
    const ids = new Set(all.map((each) => catalogId(each)));
    for (const id of this.#marks.keys()) if (!ids.has(id)) this.#marks.delete(id);
    for (let from = 0; from < watched.length; from += BATCH)
      await Promise.all(
        watched.slice(from, from + BATCH).map(async (each) => {
          const id = catalogId(each);
          const before = this.#marks.get(id);
          const mark = (await this.#markOf(each)) ?? before;
          if (mark === undefined) return;
          this.#marks.set(id, mark);
          // A catalog that was not watched may have changed since a page has read it.
          if (mark !== before) this.#tell(each);
        }),
      );
  }

  async #watched(): Promise<readonly Watched[]> {
    const watchers = [...this.#watchers];
    const tenants = new Set(watchers.flatMap(({ tenant, server }) => (server === undefined ? [tenant] : [])));
    const all = await Promise.all(
      [...tenants].map(async (tenant) => {
        const servers = await this.#catalogs.serversOf(tenant).catch(() => []);
        return servers.map((server) => ({ tenant, server }));
      }),
    );
    const named = watchers.flatMap(({ tenant, server }) => (server === undefined ? [] : [{ tenant, server }]));
    return [...new Map([...all.flat(), ...named].map((each) => [catalogId(each), each])).values()];
  }

  /** Returns undefined where nobody answers. */
  async #markOf({ tenant, server }: Watched): Promise<string | undefined> {
    try {
      return await this.#countersign.catalog(server, tenant).mark();
    } catch (error) {
      return error instanceof CountersignError && error.code === 'CATALOG_NOT_FOUND' ? 'none' : undefined;
    }
  }

  #tell({ tenant, server }: Watched): void {
    this.#catalogs.changed(tenant, server);
    for (const watcher of this.#watchers)
      if (watcher.tenant === tenant && (watcher.server ?? server) === server) watcher.tell();
  }
}
