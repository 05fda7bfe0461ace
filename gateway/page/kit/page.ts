/**
 * Serves one page to one person.
 *
 * 1. Who is asking comes from the gateway; a form counts only with the secret of its session (CSRF).
 * 2. That secret is made of the session's cookie: who cannot read the cookie cannot make it.
 * 3. What is refused is told in a page, also what comes too often or is too large to be read.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { CountersignError } from '../../../contracts/errors.ts';
import { codedOf, detailOf, isForOperator, isUncertain } from '../../http/problem.ts';
import { type GatewayLog, holderOf, isOwnPage, loggedOf, tellWhen } from '../../http/server.ts';
import type { Streams } from '../../http/streams.ts';
import { SESSION_COOKIE, type Sessions } from '../../identity/sessions.ts';
import { pageText, refusalView, signedOutText, trouble } from './layout.ts';
import { markup } from './markup.ts';
import type { PageSource, Viewer } from './port.ts';

const HTML = 'text/html; charset=utf-8';

export interface SignInOptions {
  readonly sessions: Pick<Sessions, 'askerOf' | 'sessionOf' | 'origin'>;
  readonly isDevelopment: boolean;
  readonly hasSignIn: boolean;
}

export interface PageOptions extends SignInOptions {
  readonly source: PageSource;
  readonly streams: Streams;
  readonly log?: GatewayLog | undefined;
}

type Asked<Path extends object, Query extends object> = FastifyRequest<{ Params: Path; Querystring: Query }>;

/** Who is signed in, with the places that the navigation offers; undefined if nobody is, or no longer. */
export async function viewerOf(
  request: FastifyRequest,
  { sessions, isDevelopment, source }: PageOptions,
): Promise<Viewer | undefined> {
  const asker = await holderOf(request, sessions);
  if (asker === undefined) return undefined;
  const session = request.cookies[SESSION_COOKIE] ?? '';
  const csrf = createHash('sha256').update(`form ${session}`).digest('base64url');
  const viewer = { ...asker, csrf, ...(isDevelopment ? { development: true as const } : {}) };
  return { ...viewer, places: source.places(viewer) };
}

/** Adds pages for people who are signed in. What goes wrong is told in a page. */
export function pagesOf(app: FastifyInstance, options: PageOptions) {
  const add =
    (method: 'GET' | 'POST') =>
    <Path extends object = object, Query extends object = object>(
      url: string,
      answer: (asked: Asked<Path, Query>, viewer: Viewer, reply: FastifyReply) => Promise<unknown>,
    ): void =>
      void app.route({
        method,
        url,
        handler: async (asked, reply) => {
          const viewer = await viewerOf(asked, options);
          void reply.type(HTML).header('cache-control', 'no-store');
          if (viewer === undefined) return await signedOut(asked, reply, options.sessions.origin);
          try {
            if (method === 'POST') assertOwnForm(asked.body, viewer);
            // Sound: each route names its parameters.
            return await answer(asked as Asked<Path, Query>, viewer, reply);
          } catch (error) {
            return refused(reply, viewer, error, options);
          }
        },
      });
  return { get: add('GET'), post: add('POST') };
}

/** @param own origin of the pages; undefined where only the request tells */
async function signedOut(request: FastifyRequest, reply: FastifyReply, own: string | undefined): Promise<FastifyReply> {
  const { method, url, body } = request;
  if (method === 'GET') return await reply.redirect(`/sign-in?to=${encodeURIComponent(url)}`, 303);
  // No redirect: it would lead a form to the provider, which the Content-Security-Policy forbids.
  void reply.code(401);
  const words = 'You are signed out. Nothing was sent.';
  // A page of elsewhere would put its words here.
  if (!isOwnPage(request, own)) return await reply.send(signedOutText(words));
  return await reply.send(signedOutText(words, { typed: typedWords(formOf(body)), to: pageOf(request) }));
}

/** Fields into which people write; the others are chosen again soon. */
const WRITTEN =
  /^(?:comment|reason|answer|text|input|result|message|words|arguments|whole|more|field\.\d+\.\d+|argument(?:\.\d+)+)$/;

/** Goes through the form once: nobody is signed in, and anybody may send a hundred thousand fields. */
function typedWords(form: URLSearchParams): readonly string[] {
  return [...form].flatMap(([name, text]) => (WRITTEN.test(name) ? [withPlainBreaks(text)] : []));
}

/** The page of a form: at the form's own address, or at the one above it. */
function pageOf({ url, server, routeOptions: { url: route = '' } }: FastifyRequest): string {
  const above = (path: string): string => path.slice(0, path.lastIndexOf('/'));
  if (server.hasRoute({ method: 'GET', url: route })) return url;
  return server.hasRoute({ method: 'GET', url: above(route) }) ? above(url) : '/';
}

/** Tells in a page what no page has told: what came too often, is too large, or is of another page. */
export async function tellInPage(
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
  options: PageOptions,
): Promise<void> {
  const text = refused(reply, await viewerOf(request, options), error, options);
  await reply.type(HTML).header('cache-control', 'no-store').send(text);
}

/** A form that came too often was not read. */
const UNREAD = 'Nothing was sent. Go back in your browser to what you typed, and send it again later.';

/** Gives a page the status of what is refused, and tells the operator what is theirs to mend. */
export function asRefused(reply: FastifyReply, error: unknown, { log }: Pick<PageOptions, 'log'>): CountersignError {
  const told = codedOf(error);
  const { method, routeOptions } = reply.request;
  if (isForOperator(told))
    log?.warn(`page failed: ${loggedOf(error, told)}`, {
      requestId: reply.request.id,
      code: told.code,
      method,
      path: routeOptions.url,
    });
  void reply.code(told.traits.httpStatus);
  tellWhen(reply, told);
  return told;
}

function refused(reply: FastifyReply, viewer: Viewer | undefined, error: unknown, options: PageOptions): string {
  const told = asRefused(reply, error, options);
  const { method } = reply.request;
  const next = told.code === 'RATE_LIMITED' && method === 'POST' ? UNREAD : undefined;
  // Nothing that reads is uncertain.
  const isSent = method === 'POST' && isUncertain(told);
  const [to, way] =
    told.code === 'SIGN_IN_REQUIRED' && viewer === undefined ? ['/sign-in', 'Sign in'] : ['/', 'Back to the inbox'];
  const main = markup`${isSent ? refusalView(told) : trouble('That did not work', detailOf(told), told.code, next)}
    <p><a class="button" href="${to}">${way}</a></p>`;
  return pageText({ title: 'Not possible', ...(viewer && { viewer }), main });
}

export function formOf(body: unknown): URLSearchParams {
  return body instanceof URLSearchParams ? body : new URLSearchParams();
}

/** Returns the words of a field; browsers send its line breaks as CRLF (WHATWG HTML, "Multipart form data"). */
export function wordsIn(form: URLSearchParams, name: string): string {
  return withPlainBreaks(form.get(name) ?? '');
}

function withPlainBreaks(text: string): string {
  return text.replaceAll('\r\n', '\n');
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
