/**
 * The pages of catalogs, and the forms by which administrators change them.
 *
 * 1. The catalog judges who may do what; a form that it refuses changes nothing, and the page says why.
 */
import type { FastifyInstance, FastifyReply } from 'fastify';
import { Name } from '../../../contracts/schemas/json.ts';
import type { ToolChange } from '../../../contracts/schemas/catalog.ts';
import type { CatalogDetail } from '../../../contracts/schemas/http/catalogs.ts';
import { CountersignError } from '../../../contracts/errors.ts';
import { codedOf, detailOf } from '../../http/problem.ts';
import { pageText, trouble, type Typed } from '../kit/layout.ts';
import { markup } from '../kit/markup.ts';
import { formOf, pageFor, type PageOptions } from '../kit/page.ts';
import type { CatalogSent, PageSource, Viewer } from '../kit/port.ts';
import { catalogView, FLAGS, mayTurn } from './detail.ts';
import { catalogPath, catalogsView } from './list.ts';
import { catalogToolView } from './tool.ts';

interface ServerPath {
  readonly server: string;
}

/** One function, because it is one table of pages. */
export function registerCatalogPages(app: FastifyInstance, options: PageOptions): void {
  const { source } = options;
  const { catalogs } = source;

  app.get(
    '/catalogs',
    pageFor(options, async (_asked, viewer) => await listPage(source, viewer)),
  );

  app.post(
    '/catalogs',
    pageFor(options, async ({ body }, viewer, reply) => {
      const form = formOf(body);
      const server = form.get('server') ?? '';
      try {
        if (!Name.safeParse(server).success)
          throw invalid('server', 'must be 1 to 64 of A-Z a-z 0-9 . _ - and start with a letter or digit');
        await catalogs.send(viewer, server, { kind: 'connect', body: connectionIn(form) });
      } catch (error) {
        const told = codedOf(error);
        void reply.code(told.traits.httpStatus);
        return await listPage(source, viewer, told, Object.fromEntries(form));
      }
      return await reply.redirect(catalogPath(server), 303);
    }),
  );

  app.get(
    '/catalogs/:server',
    pageFor<ServerPath, { show?: string }>(options, async ({ params: { server }, query }, viewer) =>
      detailPage(await catalogs.read(viewer, server), viewer, query.show),
    ),
  );

  app.get(
    '/catalogs/:server/tool',
    pageFor<ServerPath, { name?: string }>(options, async ({ params: { server }, query: { name = '' } }, viewer) => {
      const [detail, tool] = await Promise.all([catalogs.read(viewer, server), catalogs.tool(viewer, server, name)]);
      const main = catalogToolView(tool, detail, viewer);
      return pageText({ title: `${name} on ${server}`, viewer, at: 'catalogs', main });
    }),
  );

  /** Sends what a form says, and leads back to the catalog. */
  const change = (
    path: string,
    sentBy: (form: URLSearchParams, detail: CatalogDetail) => CatalogSent | undefined,
  ): void =>
    void app.post(
      `/catalogs/:server/${path}`,
      pageFor<ServerPath & { changeId: string }>(options, async ({ params, body }, viewer, reply) => {
        const { server } = params;
        const form = formOf(body);
        if (params.changeId !== undefined) form.set('changeId', params.changeId);
        return await sent(reply, source, viewer, server, async () => {
          const message = sentBy(form, await catalogs.read(viewer, server));
          if (message !== undefined) await catalogs.send(viewer, server, message);
        });
      }),
    );

  change('tools', (form, detail) => {
    const changes = changesIn(form, detail);
    // Nobody needs to hear that the catalog is as they left it.
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

async function sent(
  reply: FastifyReply,
  { catalogs }: PageSource,
  viewer: Viewer,
  server: string,
  send: () => Promise<void>,
): Promise<unknown> {
  try {
    await send();
  } catch (error) {
    const told = codedOf(error);
    const detail = await catalogs.read(viewer, server).catch(() => undefined);
    if (detail === undefined) throw told;
    void reply.code(told.traits.httpStatus);
    return detailPage(detail, viewer, undefined, told);
  }
  return await reply.redirect(catalogPath(server), 303);
}

function detailPage(detail: CatalogDetail, viewer: Viewer, show = '', error?: CountersignError): string {
  const view = catalogView({ detail, viewer, show, now: Date.now() });
  return pageText({
    title: detail.server,
    viewer,
    at: 'catalogs',
    main: markup`${error !== undefined && trouble('That did not count', detailOf(error), error.code)}${view}`,
  });
}

async function listPage(
  { catalogs }: PageSource,
  viewer: Viewer,
  error?: CountersignError,
  typed: Typed = {},
): Promise<string> {
  const page = await catalogs.list(viewer);
  const { servers } = catalogs;
  const mayConnect = catalogs.mayConnect(viewer);
  const view = catalogsView({ page, viewer, mayConnect, servers, typed, now: Date.now() });
  return pageText({
    title: 'Catalogs',
    viewer,
    at: 'catalogs',
    main: markup`${error !== undefined && trouble('That did not count', detailOf(error), error.code)}${view}`,
  });
}

function requestIn(form: URLSearchParams): { readonly requestId: string } {
  const requestId = form.get('requestId') ?? '';
  if (requestId === '') throw invalid('requestId', 'is missing; load the page again');
  return { requestId };
}

function versionIn(form: URLSearchParams): { readonly requestId: string; readonly expectedVersion: number } {
  const version = form.get('version') ?? '';
  if (!/^\d{1,9}$/.test(version)) throw invalid('version', 'is missing; load the page again');
  return { ...requestIn(form), expectedVersion: Number(version) };
}

type Connection = Extract<CatalogSent, { kind: 'connect' }>['body'];

function connectionIn(form: URLSearchParams): Connection {
  const [url, credentials] = ['url', 'credentials'].map((name) => form.get(name)?.trim() ?? '');
  return {
    ...requestIn(form),
    trusted: form.get('trusted') === 'yes',
    ...(url === undefined || url === '' ? {} : { url }),
    ...(credentials === undefined || credentials === '' ? {} : { credentials }),
  };
}

/** The toggles that differ from what is set, of those that the viewer may turn: others are not sent by a browser. */
function changesIn(form: URLSearchParams, detail: CatalogDetail): ToolChange[] {
  const known = new Map(detail.tools.map((tool) => [tool.name, tool]));
  return [...form].flatMap(([key, name]): ToolChange[] => {
    const index = /^tool\.(\d+)$/.exec(key)?.[1];
    const tool = index === undefined ? undefined : known.get(name);
    if (tool === undefined) return [];
    const { setting } = tool;
    const turned = FLAGS.filter(
      (flag) => mayTurn(detail, setting, flag) && form.has(`${flag}.${index}`) !== setting[flag],
    );
    return turned.length === 0
      ? []
      : [{ tool: name, ...Object.fromEntries(turned.map((flag) => [flag, !setting[flag]])) }];
  });
}

function invalid(path: string, reason: string): CountersignError {
  return new CountersignError('CATALOG_INVALID', `${path} ${reason}. Nothing was sent.`, { path });
}
