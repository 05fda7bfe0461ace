/**
 * The pages of catalogs, and the forms by which administrators change them.
 *
 * 1. The catalog judges who may do what; a form that it refuses changes nothing, and the page says why.
 * 2. A refused form comes back with what was typed and turned, before the same tools.
 * 3. A page with a refused form does not follow: a change would take away what was typed and turned.
 */
import type { FastifyInstance } from 'fastify';
import { Name } from '../../../contracts/schemas/json.ts';
import type { CatalogDetail } from '../../../contracts/schemas/http/catalogs.ts';
import { codedOf } from '../../http/problem.ts';
import { pageText, refusalView } from '../kit/layout.ts';
import { type Html, markup } from '../kit/markup.ts';
import { formOf, pagesOf, type PageOptions } from '../kit/page.ts';
import type { CatalogSent } from '../../catalog/changes.ts';
import type { PageSource, Viewer } from '../kit/port.ts';
import { catalogView } from './detail.ts';
import { changesIn, connectionIn, invalid, type RefusedForm, requestIn, versionIn } from './form.ts';
import { catalogPath, catalogsView } from './list.ts';
import { catalogToolView } from './tool.ts';

interface ServerPath {
  readonly server: string;
}

/** One function, because it is one table of pages. */
export function registerCatalogPages(app: FastifyInstance, options: PageOptions): void {
  const { source } = options;
  const { catalogs } = source;
  const pages = pagesOf(app, options);

  pages.get('/catalogs', async (_asked, viewer) => await listPage(source, viewer));

  pages.post('/catalogs', async ({ body }, viewer, reply) => {
    const form = formOf(body);
    const server = form.get('server') ?? '';
    try {
      if (!Name.safeParse(server).success)
        throw invalid('server', 'must be 1 to 64 of A-Z a-z 0-9 . _ - and start with a letter or digit');
      await catalogs.send(viewer, server, { kind: 'connect', body: connectionIn(form) });
    } catch (error) {
      const told = codedOf(error);
      void reply.code(told.traits.httpStatus);
      return await listPage(source, viewer, { to: 'catalogs', form, error: told });
    }
    return await reply.redirect(catalogPath(server), 303);
  });

  pages.get<ServerPath, { show?: string }>('/catalogs/:server', async ({ params: { server }, query }, viewer) =>
    detailPage(await catalogs.read(viewer, server), viewer, query.show),
  );

  pages.get<ServerPath, { name?: string }>(
    '/catalogs/:server/tool',
    async ({ params: { server }, query: { name = '' } }, viewer) => {
      const [detail, tool] = await Promise.all([catalogs.read(viewer, server), catalogs.tool(viewer, server, name)]);
      const main = catalogToolView(tool, detail, viewer);
      return pageText({ title: `${name} on ${server}`, viewer, at: 'catalogs', live: { catalog: server }, main });
    },
  );

  const change = (path: string, sentBy: (form: URLSearchParams) => CatalogSent | undefined): void =>
    pages.post<ServerPath & { changeId: string }>(
      `/catalogs/:server/${path}`,
      async ({ params: { server, changeId }, body }, viewer, reply) => {
        const form = formOf(body);
        if (changeId !== undefined) form.set('changeId', changeId);
        const show = form.get('show') ?? '';
        try {
          const message = sentBy(form);
          if (message !== undefined) await catalogs.send(viewer, server, message);
        } catch (error) {
          const told = codedOf(error);
          const detail = await catalogs.read(viewer, server).catch(() => undefined);
          if (detail === undefined) throw told;
          void reply.code(told.traits.httpStatus);
          return detailPage(detail, viewer, show, { to: path, form, error: told });
        }
        return await reply.redirect(catalogPath(server, show), 303);
      },
    );

  change('tools', (form) => {
    const changes = changesIn(form);
    // Nobody turned a switch. Any that is turned goes to the catalog, which compares the version.
    return changes.length === 0 ? undefined : { kind: 'tools', body: { ...versionIn(form), changes } };
  });
  change('acknowledge', (form) => ({
    kind: 'tools',
    body: {
      ...versionIn(form),
      changes: [{ tool: form.get('tool') ?? '', acknowledge: form.get('definition') ?? '' }],
    },
  }));
  change('refresh', (form) => ({ kind: 'refresh', body: requestIn(form) }));
  change('disconnect', (form) => ({ kind: 'disconnect', body: versionIn(form) }));
  change('connect', (form) => ({ kind: 'connect', body: { ...connectionIn(form), ...versionIn(form) } }));
  change('changes/:changeId', (form) => ({
    kind: 'decide',
    changeId: form.get('changeId') ?? '',
    body: {
      ...requestIn(form),
      digest: form.get('digest') ?? '',
      verdict: form.get('verdict') === 'approve' ? 'approve' : 'reject',
    },
  }));
}

function detailPage(detail: CatalogDetail, viewer: Viewer, show = '', refused?: RefusedForm): string {
  const view = catalogView({ detail, viewer, show, refused, now: Date.now() });
  const main = markup`${refused !== undefined && refusedView(refused)}${view}`;
  const live = refused === undefined && { catalog: detail.server };
  return pageText({ title: detail.server, viewer, at: 'catalogs', live, main });
}

async function listPage({ catalogs }: PageSource, viewer: Viewer, refused?: RefusedForm): Promise<string> {
  const page = await catalogs.list(viewer);
  const { servers } = catalogs;
  const mayConnect = catalogs.mayConnect(viewer);
  const view = catalogsView({ page, viewer, mayConnect, servers, refused, now: Date.now() });
  const main = markup`${refused !== undefined && refusedView(refused)}${view}`;
  const live = refused === undefined && { catalog: '' };
  return pageText({ title: 'Catalogs', viewer, at: 'catalogs', live, main });
}

const NEXT: Readonly<Record<string, string>> = {
  tools: 'The switches that you had turned are turned below, before the catalog of now. Look at them, then save again.',
  connect: 'What you typed stands below. Correct it, then send it again.',
  catalogs: 'What you typed stands below. Correct it, then send it again.',
};

function refusedView({ to, error }: RefusedForm): Html {
  return refusalView(error, NEXT[to]);
}
