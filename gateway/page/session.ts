/**
 * Leads people in and out of the pages. The session itself, and the sign-in at a provider, are the gateway's
 * (`gateway/identity/sessions.ts`).
 *
 * 1. No form ends at the provider: the Content-Security-Policy lets forms go to this gateway alone.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { Identifier } from '../../contracts/schemas/json.ts';
import { assertOwnPage } from '../http/server.ts';
import { SESSION_COOKIE } from '../identity/sessions.ts';
import { clearSession, OwnPath, setSession } from '../routes/sign-in.ts';
import { foreign } from './kit/faithful.ts';
import { hidden, pageText, signedOutText, trouble } from './kit/layout.ts';
import { markup } from './kit/markup.ts';
import type { SignInOptions } from './kit/page.ts';

export function registerSignIn(app: FastifyInstance, options: SignInOptions): void {
  const { sessions, isDevelopment, hasSignIn } = options;
  app.get('/sign-in', async (request: FastifyRequest<{ Querystring: { to?: string } }>, reply) => {
    const to = PathIn.parse(request.query.to);
    if (hasSignIn) return await reply.redirect(`/auth/sign-in?to=${encodeURIComponent(to)}`, 303);
    return signInForm(reply, to, isDevelopment);
  });
  app.post('/sign-in', async (request, reply) => {
    assertOwnPage(request, sessions.origin);
    if (!isDevelopment) return signInForm(reply, '/', isDevelopment);
    const form = request.body instanceof URLSearchParams ? request.body : new URLSearchParams();
    const groups = (form.get('groups') ?? '').split(/[\s,]+/).filter((group) => group !== '');
    const person = { id: form.get('id') ?? '', groups, tenant: form.get('tenant') ?? 'default' };
    const to = PathIn.parse(form.get('to') ?? undefined);
    const wrong = [person.id, person.tenant, ...groups].find((name) => !Identifier.safeParse(name).success);
    if (wrong !== undefined)
      return signInForm(
        reply.code(422),
        to,
        isDevelopment,
        `"${wrong}" is no id: 1 to 200 printable ASCII characters without spaces.`,
      );
    setSession(reply, SESSION_COOKIE, await sessions.sessionOf(person));
    return await reply.redirect(to, 303);
  });
  app.post('/sign-out', async (request, reply) => {
    assertOwnPage(request, sessions.origin);
    clearSession(reply);
    void reply.type('text/html; charset=utf-8');
    return await reply.send(
      signedOutText('This browser has no session here any more; the provider may still have one.'),
    );
  });
}

function signInForm(reply: FastifyReply, to: string, isDevelopment: boolean, wrong?: string): FastifyReply {
  void reply.type('text/html; charset=utf-8').header('cache-control', 'no-store');
  if (!isDevelopment) {
    const words =
      'This gateway believes tokens, and has no sign-in for people: state gateway.signIn in its configuration.';
    return reply.code(404).send(pageText({ title: 'Sign in', main: trouble('Nobody can sign in here', words) }));
  }
  const main = markup`<section class="card sign-in"><h1>Sign in</h1><p class="banner warning">For development: you are who you say you are. This gateway answers on this machine alone.</p>${wrong !== undefined && markup`<p class="banner error" role="alert">${foreign(wrong)}</p>`}<form method="post" action="/sign-in">${hidden('to', to)}<label>Your id<input name="id" required autofocus autocomplete="username"></label><label>Groups <span class="note">separated by commas</span><input name="groups"></label><label>Tenant<input name="tenant" value="default" required></label><button class="button approve">Sign in</button></form></section>`;
  return reply.send(pageText({ title: 'Sign in', main }));
}

/** A path of this gateway; anything else leads to the inbox. */
const PathIn = OwnPath.catch('/');
