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
import { askerOf, type Server } from '../http/server.ts';
import { answering, Keyed, nextOf, type RouteParts } from './parts.ts';

const tags = ['catalogs'];
const ACK = answering(200, CatalogAck, 'The catalog has taken it');

export function addCatalogRoutes(app: Server, parts: RouteParts): void {
  addReading(app, parts);
  addChanges(app, parts);
}

/** One function, because it is one table of routes. */
function addReading(app: Server, { catalogs }: RouteParts): void {
  app.get(
    '/v1/catalogs',
    {
      schema: {
        tags,
        operationId: 'listCatalogs',
        summary: 'List the catalogs of your tenant that you may see, with counts of their tools',
        response: answering(200, CatalogPage, 'The catalogs'),
      },
    },
    async (request, reply) => reply.send(await catalogs.list(askerOf(request))),
  );
  app.get(
    '/v1/catalogs/:server',
    {
      schema: {
        tags,
        operationId: 'readCatalog',
        summary:
          'Read a catalog: its tools and their settings, what waits, what the newest refresh changed, and what you may do',
        params: CatalogPath,
        response: answering(200, CatalogDetail, 'The catalog'),
      },
    },
    async (request, reply) => reply.send(await catalogs.read(askerOf(request), request.params.server)),
  );
  app.get(
    '/v1/catalogs/:server/tools/:tool',
    {
      schema: {
        tags,
        operationId: 'readCatalogTool',
        summary: 'Read a tool in full: its definition, and what has changed in it since an operator acknowledged it',
        params: CatalogToolPath,
        response: answering(200, CatalogToolDetail, 'The tool'),
      },
    },
    async (request, reply) => {
      const { server, tool } = request.params;
      return await reply.send(await catalogs.tool(askerOf(request), server, tool));
    },
  );
  app.get(
    '/v1/catalogs/:server/file',
    {
      schema: {
        tags,
        operationId: 'exportCatalog',
        summary: 'Read the settings of all tools as a file for review',
        params: CatalogPath,
        response: answering(200, CatalogFile, 'The file'),
      },
    },
    async (request, reply) => reply.send(await catalogs.file(askerOf(request), request.params.server)),
  );
  app.get(
    '/v1/catalogs/:server/ledger',
    {
      schema: {
        tags,
        operationId: 'readCatalogLedger',
        summary: 'Read entries of the catalog’s ledger, oldest first',
        params: CatalogPath,
        querystring: LedgerQuery,
        response: answering(200, LedgerEntries, 'Entries'),
      },
    },
    async (request, reply) => {
      const { query, params } = request;
      const entries = await catalogs.ledger(askerOf(request), params.server, query);
      return await reply.send({ entries: [...entries], ...nextOf(entries, query) });
    },
  );
}

/** One function, because it is one table of routes. */
function addChanges(app: Server, { catalogChanges }: RouteParts): void {
  app.post(
    '/v1/catalogs/:server/connect',
    {
      schema: {
        tags,
        operationId: 'connectCatalog',
        summary: 'Connect a server, or change how it is connected; then its tools are listed',
        headers: Keyed,
        params: CatalogPath,
        body: ConnectBody,
        response: ACK,
      },
    },
    async (request, reply) => {
      const { params, body, headers } = request;
      const key = headers['idempotency-key'];
      return await reply.send(await catalogChanges.connect(askerOf(request), params.server, body, key));
    },
  );
  app.post(
    '/v1/catalogs/:server/disconnect',
    {
      schema: {
        tags,
        operationId: 'disconnectCatalog',
        summary: 'Close a server to every run; the settings of its tools stay',
        headers: Keyed,
        params: CatalogPath,
        body: DisconnectBody,
        response: ACK,
      },
    },
    async (request, reply) => {
      const { params, body, headers } = request;
      const key = headers['idempotency-key'];
      return await reply.send(await catalogChanges.disconnect(askerOf(request), params.server, body, key));
    },
  );
  app.post(
    '/v1/catalogs/:server/refresh',
    {
      schema: {
        tags,
        operationId: 'refreshCatalog',
        summary: 'List the tools of a server again; read the catalog until `lastRefresh` has the number of the answer',
        headers: Keyed,
        params: CatalogPath,
        body: RefreshBody,
        response: ACK,
      },
    },
    async (request, reply) => {
      const { params, body, headers } = request;
      const key = headers['idempotency-key'];
      return await reply.send(await catalogChanges.refresh(askerOf(request), params.server, body, key));
    },
  );
  app.post(
    '/v1/catalogs/:server/tools',
    {
      schema: {
        tags,
        operationId: 'setToolPolicies',
        summary:
          'Set what tools may: enable, ask, deny, approvers, deadlines, acknowledged definitions; all of it, or nothing',
        headers: Keyed,
        params: CatalogPath,
        body: SetToolsBody,
        response: ACK,
      },
    },
    async (request, reply) => {
      const { params, body, headers } = request;
      const key = headers['idempotency-key'];
      return await reply.send(await catalogChanges.setTools(askerOf(request), params.server, body, key));
    },
  );
  app.post(
    '/v1/catalogs/:server/changes/:changeId/decisions',
    {
      schema: {
        tags,
        operationId: 'decideCatalogChange',
        summary:
          'Agree to a change that waits for a second administrator, or refuse it; the digest binds what you were shown',
        headers: Keyed,
        params: ChangePath,
        body: ChangeDecisionBody,
        response: ACK,
      },
    },
    async (request, reply) => {
      const { server, changeId } = request.params;
      const key = request.headers['idempotency-key'];
      return await reply.send(await catalogChanges.decide(askerOf(request), server, changeId, request.body, key));
    },
  );
  app.post(
    '/v1/catalogs/:server/import',
    {
      schema: {
        tags,
        operationId: 'importCatalog',
        summary:
          'Set what differs between a file and the catalog, in one change; with `plan` only say what would change',
        headers: Keyed,
        params: CatalogPath,
        body: ImportBody,
        response: answering(200, ImportAnswer, 'What has changed, or would'),
      },
    },
    async (request, reply) => {
      const { params, body, headers } = request;
      const key = headers['idempotency-key'];
      return await reply.send(await catalogChanges.bring(askerOf(request), params.server, body, key));
    },
  );
}
