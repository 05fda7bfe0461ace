/**
 * Serves the gate over Streamable HTTP, in both eras of the protocol (2025-11-25 and before; 2026-07-28), and says
 * where its tokens come from (RFC 9728).
 *
 * 1. A call is answered as an event stream at once, with comments while it is held, so that no proxy gives it up.
 * 2. A page of another origin calls nothing, whatever name its browser was led here by (DNS rebinding).
 * 3. An outcome counts as delivered once its answer has left this process whole, on a connection that was there to the
 *    end.
 */
import { Readable } from 'node:stream';
import { type AuthInfo, createMcpHandler, type McpHttpHandler } from '@modelcontextprotocol/server';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { CountersignError } from '../../contracts/errors.ts';
import { Name } from '../../contracts/schemas/json.ts';
import { isOwnPage } from '../http/server.ts';
import type { Asker } from '../identity/person.ts';
import { GATE_PATH } from '../identity/audiences.ts';
import type { Callers } from './callers.ts';
import type { Caller } from './calls.ts';
import { createGateServer, type McpParts, type Session } from './mcp-server.ts';
import { notAsWritten } from './replies.ts';

export interface GateRouteParts extends McpParts {
  readonly callers: Callers;
  readonly issuer: string | undefined;
  readonly bodyBytes: number;
  /** Aborted when the gateway stops: clients are then told that their calls go on. */
  readonly stopping: AbortSignal;
  readonly answering: Set<Promise<unknown>>;
}

/** Comments keep a held stream alive: httpx, by default, gives up after five seconds without a byte. */
const KEEP_ALIVE_MS = 3_000;
const METADATA_PATH = '/.well-known/oauth-protected-resource';

const AtServer = z.object({ server: Name.optional() });

export function registerGate(app: FastifyInstance, parts: GateRouteParts): void {
  const { callers, issuer } = parts;
  const serving = new WeakMap<FastifyRequest, Caller>();
  const handler = createMcpHandler(({ authInfo, era }) => createGateServer(parts, sessionIn(authInfo), era), {
    responseMode: 'sse',
    keepAliveMs: KEEP_ALIVE_MS,
    maxRequestBodySize: parts.bodyBytes,
  });
  app.addHook('onClose', async () => await handler.close());
  // The protocol has answers of its own for what is no message.
  app.removeContentTypeParser('application/json');
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, body, done) => done(null, body));

  const asks = async (request: FastifyRequest, reply: FastifyReply): Promise<Asker> => {
    const server = serverOf(request);
    // Only browsers state an origin.
    if (request.headers.origin !== undefined && !isOwnPage(request, callers.origin))
      throw new CountersignError(
        'ACTION_FORBIDDEN',
        'A page of another origin (header Origin) makes no calls here. Call from a program, or from gateway.gate.publicUrl.',
      );
    try {
      const caller = await callers.callerOf(request.headers.authorization, server);
      serving.set(request, { ...caller, server });
      return caller.asker;
    } catch (error) {
      const isUnknown = error instanceof CountersignError && error.code === 'SIGN_IN_REQUIRED';
      if (isUnknown && issuer !== undefined)
        void reply.header('www-authenticate', challengeOf(request, metadataUrl(callers, server)));
      throw error;
    }
  };

  for (const url of [GATE_PATH, `${GATE_PATH}/:server`])
    app.route({
      method: ['GET', 'POST', 'DELETE'],
      url,
      config: { asks },
      schema: { hide: true },
      handler: async (request, reply) => {
        const caller = serving.get(request);
        if (caller === undefined) throw new CountersignError('INTERNAL', 'A call has no caller.');
        if (isBatch(request)) return await reply.status(400).send(NO_BATCH);
        const refused = typeof request.body === 'string' ? notAsWritten(request.body) : undefined;
        if (refused !== undefined) return await reply.send(refused);
        return await serve(handler, { request, reply, caller }, parts);
      },
    });

  if (issuer !== undefined) addMetadata(app, callers, issuer);
}

function addMetadata(app: FastifyInstance, callers: Callers, issuer: string): void {
  for (const path of [GATE_PATH, `${GATE_PATH}/:server`])
    app.get(
      `${METADATA_PATH}${path}`,
      { config: { isOpen: true }, schema: { hide: true } },
      async (request, reply) =>
        await reply.send({
          resource: callers.urlOf(serverOf(request)),
          resource_name: 'Countersign',
          authorization_servers: [issuer],
          bearer_methods_supported: ['header'],
        }),
    );
}

function serverOf({ params }: Pick<FastifyRequest, 'params'>): string | undefined {
  const read = AtServer.safeParse(params);
  if (read.success) return read.data.server;
  throw new CountersignError('ROUTE_UNKNOWN', 'There is no gate of such a name.');
}

/** Arrays of messages were part of one earlier revision (2025-03-26): one request would count as many calls. */
function isBatch({ body }: FastifyRequest): boolean {
  return typeof body === 'string' && body.trimStart().startsWith('[');
}

const NO_BATCH = {
  jsonrpc: '2.0',
  id: null,
  error: { code: -32_600, message: 'Send one message in each request: batches are not taken.' },
} as const;

/** RFC 6750 §3.1: who sent no token is told of no error. */
function challengeOf({ headers }: FastifyRequest, metadata: string): string {
  const error = headers.authorization === undefined ? '' : 'error="invalid_token", ';
  return `Bearer ${error}resource_metadata="${metadata}"`;
}

/** RFC 9728 §3.1: the well-known path stands before that of the resource. */
function metadataUrl(callers: Callers, server: string | undefined): string {
  const { origin, pathname } = new URL(callers.urlOf(server));
  return `${origin}${METADATA_PATH}${pathname}`;
}

interface Served {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly caller: Caller;
}

async function serve(
  { fetch }: McpHttpHandler,
  { request, reply, caller }: Served,
  { stopping, answering }: Pick<GateRouteParts, 'stopping' | 'answering'>,
): Promise<FastifyReply> {
  const gone = new AbortController();
  const { raw } = reply;
  const delivered = new Promise<boolean>((resolve) => {
    const over = (): void => {
      if (!raw.writableFinished) gone.abort();
      resolve(raw.writableFinished);
    };
    if (raw.destroyed) over();
    raw.once('close', over);
  });
  answering.add(delivered);
  void delivered.finally(() => answering.delete(delivered));
  // A stopping gateway aborts no request: its server answers that the call goes on.
  const session: Session = {
    caller,
    gone: AbortSignal.any([gone.signal, stopping]),
    left: gone.signal,
    deliveryOf: async () => await delivered,
  };
  const response = await fetch(requestOf(request, gone.signal), { authInfo: authInfoOf(session) });
  void reply.status(response.status);
  for (const [name, value] of response.headers) if (!OWN_HEADERS.has(name)) void reply.header(name, value);
  if (response.body === null) return await reply.send();
  return await reply.send(Readable.fromWeb(response.body));
}

/** Headers that every answer of the gateway has alike, or that Node counts itself. */
const OWN_HEADERS: ReadonlySet<string> = new Set(['content-length', 'cache-control']);

function requestOf({ method, headers, body, url }: FastifyRequest, signal: AbortSignal): Request {
  const given = new Headers();
  for (const [name, value] of Object.entries(headers))
    for (const each of [value ?? []].flat()) given.append(name, each);
  // Nothing behind this point needs the token.
  given.delete('authorization');
  const text = typeof body === 'string' && method === 'POST' ? { body } : {};
  return new Request(new URL(url, 'http://gate'), { method, headers: given, signal, ...text });
}

/** The SDK hands on what it is given here to the server of the request. */
function authInfoOf(session: Session): AuthInfo {
  return { token: '', clientId: session.caller.client, scopes: [], extra: { session } };
}

function sessionIn(authInfo: AuthInfo | undefined): Session {
  const session: unknown = authInfo?.extra?.['session'];
  if (session === undefined) throw new CountersignError('INTERNAL', 'A request of the gate has no session.');
  // Sound: `authInfoOf` is the only one that fills this field.
  return session as Session;
}
