import type { CatalogSource, PageSource } from '../../../gateway/page/kit/port.ts';

/** Takes the place of what a test does not ask for. */
export async function nothing(): Promise<never> {
  throw new Error('not asked here');
}

/** Catalogs of which none is there, and none is asked for. */
export const NO_CATALOGS: CatalogSource = {
  servers: [],
  mayConnect: () => false,
  list: nothing,
  read: nothing,
  tool: nothing,
  send: nothing,
  changes: () => () => undefined,
};

/** What pages show where nothing waits; all else is not asked for. */
export const QUIET_PAGES: PageSource = {
  inbox: async () => ({ requests: [], mine: 0, asOf: new Date().toISOString() }),
  runs: nothing,
  run: nothing,
  places: () => new Set(),
  catalogs: NO_CATALOGS,
  agents: [],
  start: nothing,
  check: nothing,
  tool: nothing,
  send: nothing,
  say: nothing,
  stop: nothing,
  changes: () => () => undefined,
};
