/** Routes of the sign-in by browser; they answer with redirects, and are not part of the API's document. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { LOGIN_COOKIE, SESSION_COOKIE, type SetCookie } from '../identity/sessions.ts';
import { SIGN_IN_AGAIN, signIn } from '../identity/person.ts';
import { assertOwnPage, type Server, wantsPage } from '../http/server.ts';
import type { RouteParts } from './parts.ts';

export type TellBrowser = (error: unknown, request: FastifyRequest, reply: FastifyReply) => Promise<void>;

/** A page of this gateway: a browser would take two slashes for another host. */
export const OwnPath = z
  .string()
  .max(2_000)
  .regex(/^\/(?![/\\])[\x21-\x5b\x5d-\x7e]*$/, 'must be a path')
  .default('/');

/** @param tellBrowser says in a page what goes wrong; a program is told as by the API */
export function addSignInRoutes(app: Server, { sessions }: RouteParts, tellBrowser: TellBrowser): void {
  const config = { isOpen: true };
  void app.register(async (plain) => {
    const own = plain.withTypeProvider<ZodTypeProvider>();
    own.setErrorHandler(async (error, request, reply) => {
      // The handler of all routes takes it.
      if (!wantsPage(request)) throw error;
      await tellBrowser(error, request, reply);
    });
    own.get(
      '/auth/sign-in',
      { config, schema: { hide: true, querystring: z.strictObject({ to: OwnPath }) } },
      async (request, reply) => {
        const { location, cookie } = await sessions.begin(request.query.to);
        setSession(reply, LOGIN_COOKIE, cookie);
        return await reply.redirect(location);
      },
    );
    own.get('/auth/callback', { config, schema: { hide: true } }, async (request, reply) => {
      const login = request.cookies[LOGIN_COOKIE];
      if (login === undefined)
        throw signIn('This sign-in was not begun in this browser, or takes too long.', SIGN_IN_AGAIN);
      const { to, cookie } = await sessions.finish(new URL(request.url, 'http://gateway').searchParams, login);
      clearSession(reply, LOGIN_COOKIE);
      setSession(reply, SESSION_COOKIE, cookie);
      return await reply.redirect(to);
    });
  });
  app.post('/auth/sign-out', { config, schema: { hide: true } }, async (request, reply) => {
    assertOwnPage(request, sessions.origin);
    clearSession(reply);
    return await reply.status(204).send();
  });
}

/** `lax`: the provider sends the browser back from its own site. */
const SAFE = { path: '/', httpOnly: true, secure: true, sameSite: 'lax' } as const;

export function setSession(reply: FastifyReply, name: string, { value, seconds }: SetCookie): void {
  void reply.setCookie(name, value, { ...SAFE, maxAge: seconds });
}

export function clearSession(reply: FastifyReply, name = SESSION_COOKIE): void {
  void reply.clearCookie(name, SAFE);
}
