/** Routes of catalogs: list, read, and the messages by which administrators change them. */
import { CatalogAck, CatalogFile } from '../../contracts/schemas/catalog.ts';
import {
  CatalogDetail,
  CatalogPage,
  CatalogPath,
  CatalogToolDetail,
  CatalogToolPath,
  ChangeDecisionBody,
  ChangePath,
  ConnectBody,
  DisconnectBody,
  ImportAnswer,
  ImportBody,
  RefreshBody,
  SetToolsBody,
} from '../../contracts/schemas/http/catalogs.ts';
import { LedgerEntries, LedgerQuery } from '../../contracts/schemas/http-api.ts';
import type { Server } from '../http/server.ts';
import { Keyed, nextOf, type RouteParts, routesOf } from './parts.ts';

/** One function, because it is one table of routes. */
export function addCatalogRoutes(app: Server, { catalogs, catalogChanges }: RouteParts): void {
  const routes = routesOf(app, 'catalogs');
  routes.get(
    '/v1/catalogs',
    {
      operationId: 'listCatalogs',
      summary: 'List the catalogs of your tenant that you may see, with counts of their tools',
      answer: [CatalogPage, 'The catalogs'],
    },
    async (asker) => await catalogs.list(asker),
  );
  routes.get(
    '/v1/catalogs/:server',
    {
      operationId: 'readCatalog',
      summary:
        'Read a catalog: its tools and their settings, what waits, what the newest refresh changed, and what you may do',
      params: CatalogPath,
      answer: [CatalogDetail, 'The catalog'],
    },
    async (asker, { params }) => await catalogs.read(asker, params.server),
  );
  routes.get(
    '/v1/catalogs/:server/tools/:tool',
    {
      operationId: 'readCatalogTool',
      summary: 'Read a tool in full: its definition, and what has changed in it since an operator acknowledged it',
      params: CatalogToolPath,
      answer: [CatalogToolDetail, 'The tool'],
    },
    async (asker, { params: { server, tool } }) => await catalogs.tool(asker, server, tool),
  );
  routes.get(
    '/v1/catalogs/:server/file',
    {
      operationId: 'exportCatalog',
      summary: 'Read the settings of all tools as a file for review',
      params: CatalogPath,
      answer: [CatalogFile, 'The file'],
    },
    async (asker, { params }) => await catalogs.file(asker, params.server),
  );
  routes.get(
    '/v1/catalogs/:server/ledger',
    {
      operationId: 'readCatalogLedger',
      summary: 'Read entries of the catalog’s ledger, oldest first',
      params: CatalogPath,
      querystring: LedgerQuery,
      answer: [LedgerEntries, 'Entries'],
    },
    async (asker, { params, query }) => {
      const entries = await catalogs.ledger(asker, params.server, query);
      return { entries: [...entries], ...nextOf(entries, query) };
    },
  );
  addChanges(app, catalogChanges);
}

/** One function, because it is one table of routes. */
function addChanges(app: Server, changes: RouteParts['catalogChanges']): void {
  const routes = routesOf(app, 'catalogs');
  const acknowledged = { headers: Keyed, answer: [CatalogAck, 'The catalog has taken it'] } as const;
  routes.post(
    '/v1/catalogs/:server/connect',
    {
      ...acknowledged,
      operationId: 'connectCatalog',
      summary: 'Connect a server, or change how it is connected; then its tools are listed',
      params: CatalogPath,
      body: ConnectBody,
    },
    async (asker, { params, body, key }) => await changes.connect(asker, params.server, body, key),
  );
  routes.post(
    '/v1/catalogs/:server/disconnect',
    {
      ...acknowledged,
      operationId: 'disconnectCatalog',
      summary: 'Close a server to every run; the settings of its tools stay',
      params: CatalogPath,
      body: DisconnectBody,
    },
    async (asker, { params, body, key }) => await changes.send(asker, params.server, { kind: 'disconnect', body }, key),
  );
  routes.post(
    '/v1/catalogs/:server/refresh',
    {
      ...acknowledged,
      operationId: 'refreshCatalog',
      summary: 'List the tools of a server again; read the catalog until `lastRefresh` has the number of the answer',
      params: CatalogPath,
      body: RefreshBody,
    },
    async (asker, { params, body, key }) => await changes.send(asker, params.server, { kind: 'refresh', body }, key),
  );
  routes.post(
    '/v1/catalogs/:server/tools',
    {
      ...acknowledged,
      operationId: 'setToolPolicies',
      summary:
        'Set what tools may: enable, ask, deny, approvers, deadlines, acknowledged definitions; all of it, or nothing',
      params: CatalogPath,
      body: SetToolsBody,
    },
    async (asker, { params, body, key }) => await changes.send(asker, params.server, { kind: 'tools', body }, key),
  );
  routes.post(
    '/v1/catalogs/:server/changes/:changeId/decisions',
    {
      ...acknowledged,
      operationId: 'decideCatalogChange',
      summary:
        'Agree to a change that waits for a second administrator, or refuse it; the digest binds what you were shown',
      params: ChangePath,
      body: ChangeDecisionBody,
    },
    async (asker, { params: { server, changeId }, body, key }) =>
      await changes.send(asker, server, { kind: 'decide', changeId, body }, key),
  );
  routes.post(
    '/v1/catalogs/:server/import',
    {
      operationId: 'importCatalog',
      summary: 'Set what differs between a file and the catalog, in one change; with `plan` only say what would change',
      headers: Keyed,
      params: CatalogPath,
      body: ImportBody,
      answer: [ImportAnswer, 'What has changed, or would'],
    },
    async (asker, { params, body, key }) => await changes.bring(asker, params.server, body, key),
  );
}
