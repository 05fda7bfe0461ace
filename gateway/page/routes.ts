/**
 * Serves the pages. They work without JavaScript: reading by links, deciding by forms.
 *
 * 1. Who is asking comes from the gateway; a form counts only with the secret of its session (CSRF).
 * 2. Nothing comes from elsewhere, and nothing inline runs (Content-Security-Policy).
 * 3. A refused form comes back with what was typed, and with the reason.
 */
import { readFileSync } from 'node:fs';
import { timingSafeEqual } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { CountersignError } from '../../contracts/errors.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { ApprovalRequest, Approver } from '../../contracts/schemas/request.ts';
import { visible } from '../../domain/text/escape.ts';
import { type Html, markup } from './markup.ts';
import { inboxView } from './inbox.ts';
import { pageText, signedOutText, trouble } from './layout.ts';
import { answerOf, editedOf } from './form.ts';
import type { Listed, PageSource, RunRead, Viewer } from './port.ts';
import { codedOf, detailOf } from '../http/problem.ts';
import { type GatewayLog, keyOf } from '../http/server.ts';
import type { Streams } from '../http/streams.ts';
import { comparedView, type Typed } from './answers.ts';
import { requestView } from './request.ts';
import { type Chosen, reviewView, type Told, toldView } from './review.ts';
import { registerSignIn, type SignInOptions, viewerOf } from './session.ts';
import { runsView, runView } from './run.ts';

export interface PageOptions extends SignInOptions {
  readonly source: PageSource;
  readonly streams: Streams;
  readonly log?: GatewayLog | undefined;
}

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

/** Bytes of a form: arguments may have 256 KiB, and percent-encoding makes three of one. */
const FORM_BYTES = 1_048_576;
/** Requests that one review holds. */
const MOST_REVIEWED = 50;

/** One function, because it is the one table of pages. */
export function registerPages(app: FastifyInstance, options: PageOptions): void {
  const { source } = options;
  app.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string', bodyLimit: FORM_BYTES },
    (_request, body, done) => done(null, new URLSearchParams(String(body))),
  );
  // Pages find out themselves who is asking, by a cookie; the API's document does not list them.
  app.addHook('onRoute', (route) => {
    route.config = { ...route.config, isOpen: true };
    route.schema = { ...route.schema, hide: true };
  });
  app.addHook('onSend', async (_request, reply) => {
    void reply.headers({
      'content-security-policy': POLICY,
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'same-origin',
      'cross-origin-opener-policy': 'same-origin',
    });
  });

  type Asked = FastifyRequest<{
    Params: { runId: string; callId: string };
    Querystring: { show?: string; done?: string };
  }>;
  const page =
    (answer: (asked: Asked, viewer: Viewer, reply: FastifyReply) => Promise<unknown>) =>
    async (asked: FastifyRequest, reply: FastifyReply): Promise<unknown> => {
      const viewer = await viewerOf(asked, options);
      void reply.type('text/html; charset=utf-8').header('cache-control', 'no-store');
      if (viewer === undefined) {
        if (asked.method === 'GET') return await reply.redirect(`/sign-in?to=${encodeURIComponent(asked.url)}`, 303);
        // No redirect: it would lead a form to the provider, which the Content-Security-Policy forbids.
        return await reply.code(401).send(signedOutText('You are signed out. Nothing was sent.'));
      }
      try {
        if (asked.method === 'POST') assertOwnForm(asked.body, viewer);
        // Sound: each route below names its parameters.
        return await answer(asked as Asked, viewer, reply);
      } catch (error) {
        return refused(reply, viewer, error, options);
      }
    };

  app.get(
    '/',
    page(async ({ query }, viewer) => {
      const everyone = query.show === 'all';
      const inbox = await source.inbox(viewer, everyone);
      return pageText({
        title: 'Inbox',
        viewer,
        at: 'inbox',
        live: true,
        waiting: inbox.mine,
        main: inboxView(inbox, viewer, everyone, Date.now()),
      });
    }),
  );

  app.get(
    '/runs',
    page(async (_asked, viewer) =>
      pageText({
        title: 'Runs',
        viewer,
        at: 'runs',
        live: true,
        main: runsView(await source.runs(viewer), Date.now()),
      }),
    ),
  );

  app.get(
    '/runs/:runId',
    page(async ({ params: { runId }, query: { done } }, viewer) => {
      const read = await source.run(viewer, runId);
      // The ledger says so, and not the link: whoever sends a link could claim it.
      const counts = read.ledger.some(({ fact }) => isAnswerOf(viewer, fact) && fact.callId === done);
      const told = counts
        ? markup`<p class="banner good" role="status">Your answer counts. <a href="/">Back to the inbox</a></p>`
        : undefined;
      return runPage(read, viewer, told);
    }),
  );

  app.get(
    '/runs/:runId/requests/:callId',
    page(async ({ params: { runId, callId } }, viewer) => {
      const read = await source.run(viewer, runId);
      const request = read.requests.find((each) => each.callId === callId);
      if (request !== undefined) return requestPage({ read, request }, viewer);
      return runPage(read, viewer, markup`<p class="banner warning" role="status">${endOf(read, callId)}</p>`);
    }),
  );

  app.post(
    '/runs/:runId/requests/:callId',
    page(async ({ params, body }, viewer, reply) => {
      const form = formOf(body);
      const { read, request } = await opened(source, viewer, params);
      try {
        await source.send(viewer, { runId: params.runId, ...answerOf(form, request) });
      } catch (error) {
        const told = codedOf(error);
        void reply.code(told.traits.httpStatus);
        return requestPage(
          await opened(source, viewer, params).catch(() => ({ read, request })),
          viewer,
          told,
          Object.fromEntries(form),
        );
      }
      return await reply.redirect(`/runs/${encodeURIComponent(params.runId)}?done=${params.callId}`, 303);
    }),
  );

  app.post(
    '/runs/:runId/requests/:callId/edit',
    page(async ({ params, body }, viewer, reply) => {
      const form = formOf(body);
      const { read, request } = await opened(source, viewer, params);
      try {
        if (form.get('digest') !== request.digest)
          throw new CountersignError(
            'DIGEST_MISMATCH',
            'The request changed since you opened it; look at it again.',
            {},
          );
        const changed = editedOf(form, request);
        const main = comparedView({ request, viewer, now: Date.now() }, changed);
        return pageText({ title: `Change ${request.tool}`, viewer, main });
      } catch (error) {
        const told = codedOf(error);
        void reply.code(told.traits.httpStatus);
        return requestPage({ read, request }, viewer, told, { ...Object.fromEntries(form), kind: 'edit' });
      }
    }),
  );

  app.post(
    '/review',
    page(async ({ body }, viewer) => {
      const chosen = formOf(body).getAll('chosen').slice(0, MOST_REVIEWED).map(chosenOf);
      const { requests } = await source.inbox(viewer, false);
      const found = chosen.flatMap((each) => requests.filter((listed) => isSame(listed, [each[0], each[1], each[2]])));
      return pageText({
        title: 'Review',
        viewer,
        at: 'inbox',
        main: reviewView(found, chosen.length - found.length, viewer, Date.now()),
      });
    }),
  );

  app.post(
    '/review/decide',
    page(async ({ body }, viewer) => {
      const form = formOf(body);
      const kind = form.get('kind') === 'approve' ? 'approve' : 'reject';
      const words = form.get('words') ?? '';
      const told: Told[] = [];
      // One after the other: the first refusals may be a reason to look again, and each has its own answer.
      for (const [runId, callId, digest, temporalRun, decisionId] of form
        .getAll('chosen')
        .slice(0, MOST_REVIEWED)
        .map(chosenOf)) {
        const message = {
          kind,
          callId,
          digest,
          runId: temporalRun,
          decisionId: `${kind}-${decisionId}`,
          ...(kind === 'reject'
            ? { reason: words === '' ? 'Rejected with others.' : words }
            : words === ''
              ? {}
              : { comment: words }),
        };
        try {
          await source.send(viewer, { runId, update: 'decide', message });
          told.push({ runId, callId });
        } catch (error) {
          told.push({ runId, callId, refused: detailOf(codedOf(error)) });
        }
      }
      return pageText({ title: 'Decided', viewer, at: 'inbox', main: toldView(told) });
    }),
  );

  app.post(
    '/runs/:runId/say',
    page(async ({ params: { runId }, body }, viewer, reply) => {
      const form = formOf(body);
      await source.say(viewer, runId, form.get('text') ?? '', form.get('messageId') ?? undefined);
      return await reply.redirect(`/runs/${encodeURIComponent(runId)}`, 303);
    }),
  );

  app.post(
    '/runs/:runId/stop',
    page(async ({ params: { runId }, body }, viewer, reply) => {
      await source.stop(viewer, runId, formOf(body).get('reason') ?? '');
      return await reply.redirect(`/runs/${encodeURIComponent(runId)}`, 303);
    }),
  );

  registerSignIn(app, options);
  registerAssets(app);
  registerLive(app, options);
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

/** Tells pages that something changed; each then loads itself again, at most once a second. */
function registerLive(app: FastifyInstance, options: PageOptions): void {
  const { source, streams } = options;
  app.get('/live', async (request, reply) => {
    const viewer = await viewerOf(request, options);
    if (viewer === undefined) return await reply.code(401).send();
    const stream = streams.open(reply.raw, { person: keyOf(viewer), until: viewer.until, headers: {} });
    reply.hijack();
    const tell = (): void => stream.send('change', undefined, {});
    stream.ended.addEventListener('abort', source.changes(viewer, tell), { once: true });
    tell();
    return reply;
  });
}

interface Opened {
  readonly read: RunRead;
  readonly request: ApprovalRequest;
}

async function opened(
  source: PageSource,
  viewer: Viewer,
  { runId, callId }: { readonly runId: string; readonly callId: string },
): Promise<Opened> {
  const read = await source.run(viewer, runId);
  const request = read.requests.find((each) => each.callId === callId);
  if (request !== undefined) return { read, request };
  throw new CountersignError('REQUEST_NOT_OPEN', `${endOf(read, callId)} Nothing was sent.`, { runId, callId });
}

/** Says who decided a call that waits no more, as far as the newest entries of the ledger know. */
function endOf({ ledger }: RunRead, callId: string): string {
  const decision = ledger.findLast(({ fact }) => fact.kind === 'decision.accepted' && fact.callId === callId)?.fact;
  const who =
    decision?.kind === 'decision.accepted' ? ` ${decision.approver.id} decided it: ${decision.decision}.` : '';
  return `Call ${visible(callId)} waits for nobody any more.${visible(who)}`;
}

type Answer = Extract<LedgerFact, { readonly approver: Approver }>;

function isAnswerOf({ id }: Viewer, fact: RunRead['ledger'][number]['fact']): fact is Answer {
  return 'approver' in fact && typeof fact.approver === 'object' && fact.approver.id === id;
}

function runPage(read: RunRead, viewer: Viewer, told?: Html): string {
  const main = markup`${told}${runView(read, viewer, Date.now())}`;
  return pageText({ title: read.facts.runId, viewer, at: 'runs', live: true, main });
}

function requestPage({ read, request }: Opened, viewer: Viewer, error?: CountersignError, typed: Typed = {}): string {
  const view = requestView({ read, request, viewer, now: Date.now(), typed });
  return pageText({
    title: `${request.tool} on ${request.server}`,
    viewer,
    at: 'inbox',
    // The typed words would count as not typed, and vanish with the next change.
    live: error === undefined,
    main: markup`${error !== undefined && trouble('That did not count', detailOf(error), error.code)}${view}`,
  });
}

function refused(reply: FastifyReply, viewer: Viewer, error: unknown, { log }: PageOptions): string {
  const told = codedOf(error);
  const status = told.traits.httpStatus;
  const { method, url: path } = reply.request.routeOptions;
  if (status >= 500)
    log?.warn(`page failed: ${told.message}`, { requestId: reply.request.id, code: told.code, method, path });
  void reply.code(status);
  const main = markup`${trouble('That did not work', detailOf(told), told.code)}
    <p><a class="button" href="/">Back to the inbox</a></p>`;
  return pageText({ title: 'Not possible', viewer, main });
}

function formOf(body: unknown): URLSearchParams {
  return body instanceof URLSearchParams ? body : new URLSearchParams();
}

function assertOwnForm(body: unknown, { csrf }: Viewer): void {
  const sent = Buffer.from(formOf(body).get('csrf') ?? '');
  const own = Buffer.from(csrf);
  if (sent.length === own.length && timingSafeEqual(sent, own)) return;
  throw new CountersignError(
    'MESSAGE_INVALID',
    'This form belongs to another session; load the page again and send it anew.',
    { path: 'csrf' },
  );
}

/**
 * Reads a request that was chosen. The Temporal run and the decision id come with the page that shows it once more.
 * @throws CountersignError `DECISION_INVALID`
 */
function chosenOf(text: string): readonly [...Chosen, string, string] {
  try {
    // Sound: what is no list has no iterator, and is told below.
    const [runId, callId, digest, temporalRun = '', id = ''] = (JSON.parse(text) as readonly unknown[]).map(String);
    if (runId !== undefined && callId !== undefined && digest !== undefined)
      return [runId, callId, digest, temporalRun, id];
  } catch {
    // Told below.
  }
  const message = 'chosen is no request; load the inbox again. Nothing was sent.';
  throw new CountersignError('DECISION_INVALID', message, { path: 'chosen' });
}

function isSame({ request }: Listed, [runId, callId, digest]: Chosen): boolean {
  return request.workflowId === runId && request.callId === callId && request.digest === digest;
}
