/** Routes about the gateway itself: whether it lives, its document, who is asking, and the development login. */
import { z } from 'zod';
import { DevelopmentSignIn, HealthAnswer, Person, SignedIn } from '../../contracts/schemas/http-api.ts';
import { shownPerson } from '../identity/person.ts';
import { SESSION_COOKIE } from '../identity/sessions.ts';
import { asOfText } from '../projection/projection.ts';
import type { Server } from '../http/server.ts';
import { answering, type RouteParts, routesOf } from './parts.ts';
import { setSession } from './sign-in.ts';

const tags = ['service'];
const STALE_MS = 10_000;

/** One function, because it is one table of routes. */
export function addServiceRoutes(app: Server, { projection, streams, tokens, sessions }: RouteParts): void {
  app.get(
    '/health',
    {
      config: { isOpen: true, isUncounted: true },
      schema: {
        tags,
        security: [],
        operationId: 'health',
        summary: 'Whether the gateway lives, and how old its lists are',
        response: {
          ...answering(200, HealthAnswer, 'Lists are current'),
          ...answering(503, HealthAnswer, 'Temporal does not answer, so lists are old'),
        },
      },
    },
    async (_, reply) => {
      const { asOf, size } = projection;
      const status = asOf === undefined ? 'starting' : Date.now() - asOf > STALE_MS ? 'stale' : 'ok';
      const answer = { status, ...asOfText(projection), runs: size, streams: streams.size } as const;
      return await reply.status(status === 'ok' ? 200 : 503).send(answer);
    },
  );
  app.get(
    '/openapi.json',
    {
      config: { isOpen: true },
      schema: {
        tags,
        security: [],
        operationId: 'readDocument',
        summary: 'This document (OpenAPI 3.1)',
        response: answering(200, z.looseObject({ openapi: z.string() }), 'The document'),
      },
    },
    async (_, reply) => reply.send({ ...app.swagger(), openapi: '3.1.0' }),
  );
  const development = tokens.isDevelopment ? { development: true as const } : {};
  routesOf(app, 'service').get(
    '/v1/me',
    {
      operationId: 'readMe',
      summary: 'Who is asking, as the token says, and what that person may do',
      answer: [Person, 'The person'],
    },
    (asker) => ({ ...shownPerson(asker), ...development }),
  );
  if (!tokens.isDevelopment) return;
  app.post(
    '/v1/development/sign-in',
    {
      config: { isOpen: true },
      schema: { hide: true, body: DevelopmentSignIn, response: answering(200, SignedIn, 'A token') },
    },
    async (request, reply) => {
      const { token, expiresAt, asker } = await tokens.signInAs(request.body);
      setSession(reply, SESSION_COOKIE, await sessions.sessionOf(request.body));
      return await reply.send({ token, expiresAt, person: { ...shownPerson(asker), ...development } });
    },
  );
}
