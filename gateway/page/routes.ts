/**
 * Serves the pages. They work without JavaScript: reading by links, deciding by forms.
 *
 * 1. Nothing comes from elsewhere, and nothing inline runs (Content-Security-Policy).
 * 2. A refused form comes back with what was typed, and with the reason.
 */
import { readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { jsonOf } from '../../client/ledger/files.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { codedOf, detailOf, isUncertain } from '../http/problem.ts';
import { keyOf, wantsPage } from '../http/server.ts';
import { registerCatalogPages } from './catalog/routes.ts';
import { counted, inboxView } from './inbox.ts';
import { pageText } from './kit/layout.ts';
import { formOf, pagesOf, type PageOptions, tellInPage, viewerOf, wordsIn } from './kit/page.ts';
import type { Listed, PageSource, Viewer } from './kit/port.ts';
import { reviewView, type Told, toldView } from './review.ts';
import { runsView } from './run.ts';
import { registerRequestPages, registerRunPages } from './run-routes.ts';
import type { TellBrowser } from '../routes/sign-in.ts';
import { registerSignIn } from './session.ts';
import { registerStartPage } from './start.ts';

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

const HEADERS = {
  'content-security-policy': POLICY,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
} as const;

/** Bytes of a form: arguments may have 256 KiB, and percent-encoding makes three of one. */
const FORM_BYTES = 1_048_576;
const MOST_REVIEWED = 50;

/** One function, because it is the one table of pages. */
export function registerPages(app: FastifyInstance, options: PageOptions): void {
  const { source } = options;
  const pages = pagesOf(app, options);
  app.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string', bodyLimit: FORM_BYTES },
    (_request, body, done) => done(null, new URLSearchParams(String(body))),
  );
  app.setErrorHandler(async (error, request, reply) => await tellInPage(error, request, reply, options));
  // Pages find out themselves who is asking, by a cookie; the API's document does not list them.
  app.addHook('onRoute', (route) => {
    route.config = { ...route.config, isOpen: true };
    route.schema = { ...route.schema, hide: true };
  });
  app.addHook('onSend', async (_request, reply) => {
    void reply.headers(HEADERS);
  });

  pages.get<object, { show?: string }>('/', async ({ query }, viewer) => {
    const everyone = query.show === 'all';
    const inbox = await source.inbox(viewer, everyone);
    const waiting = counted(inbox.mine, inbox.mineIsMore);
    const main = inboxView(inbox, viewer, everyone, Date.now());
    return pageText({ title: 'Inbox', viewer, at: 'inbox', live: true, waiting, main });
  });

  pages.get('/runs', async (_asked, viewer) => {
    const main = runsView(await source.runs(viewer), Date.now());
    return pageText({ title: 'Runs', viewer, at: 'runs', live: true, main });
  });

  pages.post('/review', async ({ body }, viewer) => {
    const chosen = formOf(body).getAll('chosen').slice(0, MOST_REVIEWED).map(chosenOf);
    const { requests } = await source.inbox(viewer, false);
    const found = chosen.flatMap((each) => requests.filter((listed) => isSame(listed, each)));
    const main = reviewView(found, chosen.length - found.length, viewer, Date.now());
    return pageText({ title: 'Review', viewer, at: 'inbox', main });
  });

  pages.post('/review/decide', async ({ body }, viewer) => {
    const form = formOf(body);
    const chosen = form.getAll('chosen').slice(0, MOST_REVIEWED).map(chosenOf);
    // A run that does not answer holds back no decision on another, nor this page for longer than itself.
    const told = await Promise.all(chosen.map(async (each) => await decideOne(source, viewer, form, each)));
    return pageText({ title: 'Decided', viewer, at: 'inbox', main: toldView(told) });
  });

  registerRunPages(app, options);
  registerRequestPages(app, options);
  registerCatalogPages(app, options);
  registerStartPage(app, options);
  registerSignIn(app, options);
  registerAssets(app);
  registerLive(app, options);
  registerElsewhere(app, options);
}

/** Tells what goes wrong on a route that is no page, such as the way back from the provider. */
export function browserTeller(options: PageOptions): TellBrowser {
  return async (error, request, reply) => await tellInPage(error, request, reply.headers(HEADERS), options);
}

const ASSETS = [
  ['page.css', 'text/css; charset=utf-8'],
  ['page.js', 'text/javascript; charset=utf-8'],
  ['icon.svg', 'image/svg+xml'],
] as const;

function registerAssets(app: FastifyInstance): void {
  for (const [name, type] of ASSETS) {
    const bytes = readFileSync(new URL(`assets/${name}`, import.meta.url));
    app.get(`/assets/${name}`, async (_request, reply) =>
      reply.type(type).header('cache-control', 'public, max-age=300').send(bytes),
    );
  }
}

/**
 * A browser at an address that there is not is told in a page; programs, and all below /v1, as the API tells them. The
 * route is there for browsers alone: for others it would also take what the router refuses.
 */
function registerElsewhere(app: FastifyInstance, options: PageOptions): void {
  const isRead = ({ headers, url = '' }: Pick<IncomingMessage, 'headers' | 'url'>): boolean =>
    wantsPage({ headers }) && !/^\/v1(?:[/?]|$)/.test(url);
  app.addConstraintStrategy({
    name: 'reader',
    mustMatchWhenDerived: false,
    storage: () => new Map(),
    deriveConstraint: (request) => (isRead(request) ? 'browser' : undefined),
  });
  void app.register(async (elsewhere) => {
    elsewhere.setErrorHandler(async (error, request, reply) => await tellInPage(error, request, reply, options));
    elsewhere.get('/*', { constraints: { reader: 'browser' } }, () => {
      const message = 'There is no page at this address. What waits for you is in the inbox.';
      throw new CountersignError('ROUTE_UNKNOWN', message);
    });
  });
}

/** Tells pages that something changed; each then loads itself again, at most once a second. */
function registerLive(app: FastifyInstance, options: PageOptions): void {
  const { source, streams } = options;
  app.get<{ Querystring: { catalog?: unknown } }>('/live', async (request, reply) => {
    const viewer = await viewerOf(request, options);
    if (viewer === undefined) return await reply.code(401).send();
    const stream = streams.open(reply.raw, { person: keyOf(viewer), until: viewer.until, headers: {} });
    reply.hijack();
    if (stream.ended.aborted) return reply;
    const tell = (): void => stream.send('change', undefined, {});
    const { catalog } = request.query;
    const end =
      typeof catalog === 'string'
        ? source.catalogs.changes(viewer, catalog === '' ? undefined : catalog, tell)
        : source.changes(viewer, tell);
    stream.ended.addEventListener('abort', end, { once: true });
    tell();
    return reply;
  });
}

async function decideOne(
  source: PageSource,
  viewer: Viewer,
  form: URLSearchParams,
  [runId, callId, digest, temporalRun, decisionId]: Chosen,
): Promise<Told> {
  const kind = form.get('kind') === 'approve' ? 'approve' : 'reject';
  const words = wordsIn(form, 'words');
  const comment = words === '' ? {} : { comment: words };
  const said = kind === 'reject' ? { reason: words === '' ? 'Rejected with others.' : words } : comment;
  const bound = { callId, digest, runId: temporalRun, decisionId: `${kind}-${decisionId}` };
  try {
    const status = await source.send(viewer, { runId, update: 'decide', message: { kind, ...bound, ...said } });
    return { runId, callId, ...(status === 'counted' ? { waits: true } : {}) };
  } catch (error) {
    const refused = codedOf(error);
    return { runId, callId, refused: detailOf(refused), ...(isUncertain(refused) ? { isUncertain: true } : {}) };
  }
}

/** A chosen request, by the digest that was shown. What comes last is of the page that shows it once more. */
type Chosen = readonly [runId: string, callId: string, digest: string, temporalRun: string, decisionId: string];

const ChosenParts = z.array(z.string()).min(3);

/** @throws CountersignError `DECISION_INVALID` */
function chosenOf(text: string): Chosen {
  const read = ChosenParts.safeParse(jsonOf(text));
  if (read.success) {
    const [runId = '', callId = '', digest = '', temporalRun = '', id = ''] = read.data;
    return [runId, callId, digest, temporalRun, id];
  }
  const message = 'chosen is no request; load the inbox again. Nothing was sent.';
  throw new CountersignError('DECISION_INVALID', message, { path: 'chosen' });
}

function isSame({ request }: Listed, [runId, callId, digest]: Chosen): boolean {
  return request.workflowId === runId && request.callId === callId && request.digest === digest;
}
