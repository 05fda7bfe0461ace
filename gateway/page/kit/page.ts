/**
 * Serves one page to one person.
 *
 * 1. Who is asking comes from the gateway; a form counts only with the secret of its session (CSRF).
 * 2. That secret is made of the session's cookie: who cannot read the cookie cannot make it.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { CountersignError } from '../../../contracts/errors.ts';
import { codedOf, detailOf } from '../../http/problem.ts';
import type { GatewayLog } from '../../http/server.ts';
import type { Streams } from '../../http/streams.ts';
import { SESSION_COOKIE, type Sessions } from '../../identity/sessions.ts';
import { pageText, signedOutText, trouble } from './layout.ts';
import { markup } from './markup.ts';
import type { PageSource, Viewer } from './port.ts';

export interface SignInOptions {
  readonly sessions: Pick<Sessions, 'askerOf' | 'sessionOf' | 'origin'>;
  /** True if everybody may say who they are. */
  readonly isDevelopment: boolean;
  /** True if people can sign in at a provider. */
  readonly hasSignIn: boolean;
}

export interface PageOptions extends SignInOptions {
  readonly source: PageSource;
  readonly streams: Streams;
  readonly log?: GatewayLog | undefined;
}

/** A request for a page: its path names what `Path` says. */
type Asked<Path extends object, Query extends object> = FastifyRequest<{ Params: Path; Querystring: Query }>;

/** Who is signed in; undefined if nobody is, or no longer. */
export async function viewerOf(
  { cookies }: FastifyRequest,
  { sessions, isDevelopment }: SignInOptions,
): Promise<Viewer | undefined> {
  const session = cookies[SESSION_COOKIE];
  if (session === undefined) return undefined;
  try {
    const asker = await sessions.askerOf(session);
    const csrf = createHash('sha256').update(`form ${session}`).digest('base64url');
    return { ...asker, csrf, ...(isDevelopment ? { development: true as const } : {}) };
  } catch (error) {
    if (error instanceof CountersignError && error.code === 'SIGN_IN_REQUIRED') return undefined;
    throw error;
  }
}

/** Makes the handler of a page for people who are signed in. What goes wrong is told in a page. */
export function pageFor<Path extends object = object, Query extends object = object>(
  options: PageOptions,
  answer: (asked: Asked<Path, Query>, viewer: Viewer, reply: FastifyReply) => Promise<unknown>,
): (asked: FastifyRequest, reply: FastifyReply) => Promise<unknown> {
  return async (asked, reply) => {
    const signedIn = await viewerOf(asked, options);
    const viewer = signedIn && { ...signedIn, places: options.source.places(signedIn) };
    void reply.type('text/html; charset=utf-8').header('cache-control', 'no-store');
    if (viewer === undefined) {
      if (asked.method === 'GET') return await reply.redirect(`/sign-in?to=${encodeURIComponent(asked.url)}`, 303);
      // No redirect: it would lead a form to the provider, which the Content-Security-Policy forbids.
      return await reply.code(401).send(signedOutText('You are signed out. Nothing was sent.'));
    }
    try {
      if (asked.method === 'POST') assertOwnForm(asked.body, viewer);
      // Sound: each route below names its parameters.
      return await answer(asked as Asked<Path, Query>, viewer, reply);
    } catch (error) {
      return refused(reply, viewer, error, options);
    }
  };
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

/** The fields of a form; none for any other body. */
export function formOf(body: unknown): URLSearchParams {
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
