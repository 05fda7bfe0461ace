/**
 * Implements `countersign catalog` and its verbs that read and refresh. Changes are in `catalog-changes.ts`, files in
 * `catalog-file.ts`.
 */
import type { CatalogHandle } from '../../client/index.ts';
import { definitionDiff } from '../../domain/catalog/discovery.ts';
import { hasDrifted } from '../../domain/catalog/state.ts';
import { entryNamed, readCatalog, readCatalogs } from '../session/catalog-reading.ts';
import * as option from '../session/options.ts';
import type { Session } from '../session/session.ts';
import { nothingOf, toldOrRead } from '../session/stuck-run.ts';
import { type Answer, verb } from '../session/verb.ts';
import { refreshAnswer } from '../views/catalog-change.ts';
import { catalogAnswer, catalogsAnswer, diffAnswer, toolAnswer, toolsAnswer } from '../views/catalog.ts';
import { stuckAnswer } from '../views/recovery.ts';
import {
  ACTING,
  ALLOW,
  ASK,
  awaitRefresh,
  CONNECT,
  DECISIONS,
  DISCONNECT,
  sendAs,
  SERVER,
  SWITCHES,
  TENANT,
} from './catalog-changes.ts';
import { EXPORT, IMPORT } from './catalog-file.ts';

const TOOL = option.maybe('as the server spells it');

const LIST = verb({
  name: 'list',
  summary: 'list the catalogs of a tenant, or the tools of one',
  description:
    'List the catalogs of a tenant; with a server its tools, the settings of each, and what happens to a call',
  args: { server: option.maybe('name of the server') },
  options: { tenant: TENANT },
  examples: ['catalog list', 'catalog list files', 'catalog list files --tenant acme --json'],
  run: async ({ args: { server }, options: { tenant }, session }) =>
    await session(async ({ countersign, settings }) => {
      if (server === undefined) return await listCatalogs(countersign, tenant);
      const handle = countersign.catalog(server, tenant);
      return toolsAnswer(await readCatalog(handle, settings), await handle.ended());
    }),
});

export async function listCatalogs(
  countersign: Pick<Session['countersign'], 'catalog' | 'catalogs'>,
  tenant: string,
): Promise<Answer> {
  const listed = await countersign.catalogs({ tenant });
  // A writer to the namespace chooses search attributes, and the id alone says whose a catalog is.
  const own = listed.filter((each) => each.tenant === tenant);
  return catalogsAnswer(tenant, await readCatalogs(own.map(({ server }) => countersign.catalog(server, tenant))));
}

const SHOW = verb({
  name: 'show',
  summary: 'show one catalog, or one tool in full',
  description:
    'Show how a server is connected and what waits for a second administrator; with a tool, its whole definition',
  args: { server: SERVER, tool: TOOL },
  options: { tenant: TENANT },
  examples: ['catalog show files', 'catalog show files write_file'],
  run: async ({ args: { server, tool }, options: { tenant }, session }) =>
    await session(async (opened) => {
      const handle = opened.countersign.catalog(server, tenant);
      if (tool === undefined) return await wholeAnswer(opened, handle);
      const reading = await readCatalog(handle, opened.settings, { withDefinitions: true });
      return toolAnswer(reading, entryNamed(reading.snapshot, tool));
    }),
});

async function wholeAnswer(session: Session, handle: CatalogHandle): Promise<Answer> {
  const { told, stuck } = await toldOrRead(session, handle.workflowId, () => handle.snapshot());
  if (stuck === undefined) return catalogAnswer(told, Date.now(), await handle.ended());
  const { snapshot } = stuck.answers;
  if (snapshot === undefined) throw nothingOf(stuck, 'the catalog');
  return stuckAnswer(stuck, snapshot, (paint) => [catalogAnswer(snapshot, Date.now()).text(paint)]);
}

const DIFF = verb({
  name: 'diff',
  summary: 'show what a server has changed since an operator looked',
  description:
    'Show the definitions that have changed since an operator acknowledged them, field by field, and how to accept them',
  args: { server: SERVER, tool: TOOL },
  options: { tenant: TENANT },
  examples: ['catalog diff files', 'catalog diff files read_file --json'],
  run: async ({ args: { server, tool }, options: { tenant }, session }) =>
    await session(async ({ countersign }) => {
      const handle = countersign.catalog(server, tenant);
      const snapshot = await handle.snapshot();
      const entries = tool === undefined ? snapshot.entries.filter(hasDrifted) : [entryNamed(snapshot, tool)];
      const known = await handle.definitions({ ...snapshot, entries });
      const diffs = entries.flatMap((entry) => {
        const { current, acknowledged } = known.get(entry.name) ?? {};
        return current === undefined ? [] : [{ entry, differences: definitionDiff(acknowledged, current) }];
      });
      return diffAnswer(snapshot, diffs);
    }),
});

const REFRESH = verb({
  name: 'refresh',
  summary: 'list the tools of a server again',
  description:
    'List the tools of a server again, wait for the end, and show what has changed; a refresh that fails changes nothing',
  args: { server: SERVER },
  options: ACTING,
  examples: ['catalog refresh files --as ann', 'catalog refresh files --as ann --deadline 300'],
  run: async ({ args: { server }, options, session }) =>
    await session(async ({ countersign }) => {
      const handle = countersign.catalog(server, options.tenant);
      const before = await handle.snapshot();
      const ack = await sendAs(options, undefined, (ids) => handle.refresh(ids));
      return refreshAnswer(await awaitRefresh(handle, ack.refresh ?? 0, before, options.deadline));
    }),
});

export const CATALOG = verb({
  name: 'catalog',
  summary: 'show and change the stored tools of servers',
  description:
    'Show and change the stored tools of servers, and what operators have set for each: allow, ask, deny, enable, disable',
  examples: ['catalog list', 'catalog list files', 'catalog ask files write_file --as ann'],
  verbs: [CONNECT, LIST, SHOW, REFRESH, DIFF, ALLOW, ASK, ...SWITCHES, ...DECISIONS, EXPORT, IMPORT, DISCONNECT],
});
