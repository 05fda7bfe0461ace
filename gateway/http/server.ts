/**
 * Assembles the HTTP server: what every route has alike.
 *
 * 1. Every answer has a request id, no cache and no content that a browser would run.
 * 2. Every error is a problem of `gateway/http/problem.ts`; every input is read by a schema, and a wrong field told by
 *    its path.
 * 3. A route says whether it is open to everybody; all others get who is asking from `Tokens`, before they read a body.
 * 4. Names of this machine alone reach the development login: pages of other names cannot use it by rebinding DNS.
 * 5. Requests count for the person who sends them, on open routes too; for an address only where nobody has signed in.
 */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import cookie from '@fastify/cookie';
import cors, { type FastifyCorsOptions } from '@fastify/cors';
import rateLimit from '@fastify/rate-limit';
import swagger from '@fastify/swagger';
import { fastify, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import type { z } from 'zod';
import { jsonOf } from '../../client/ledger/files.ts';
import { CountersignError, nodeCodeOf } from '../../contracts/errors.ts';
import type { GatewayConfig } from '../../contracts/schemas/gateway.ts';
import { MOST_LEVELS } from '../../contracts/payload-converter.ts';
import { problemsOf, TOO_DEEP } from '../../contracts/schemas/parse.ts';
import {
  changedNumber,
  changedNumberText,
  isTooDeep,
  namesPrototype,
  PROTOTYPE_TEXT,
  repeatedMember,
  repeatedMemberText,
} from '../../domain/text/written-json.ts';
import { SESSION_COOKIE, type Sessions } from '../identity/sessions.ts';
import { type Asker, signIn } from '../identity/person.ts';
import type { Tokens } from '../identity/tokens.ts';
import type { Answered } from '../metrics/server.ts';
import { documentOf } from './document.ts';
import { codedOf, isForOperator, Misfit, problemOf, refuseUnread, tooMany } from './problem.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    readonly isOpen?: boolean;
    /** True for probes, which nobody may crowd out. */
    readonly isUncounted?: boolean;
    /** True if only refusals count: the sender is known by the body, and nobody else may crowd that one out. */
    readonly countsRefusals?: boolean;
    /** Says who asks on a route that takes other tokens than the API. */
    readonly asks?: (request: FastifyRequest, reply: FastifyReply) => Promise<Asker>;
  }
  interface FastifyRequest {
    /** Set by the first hook on every route that is not open. */
    asker: Asker | undefined;
    /** On an open route, whose session came along. For counting alone: a page of elsewhere may have sent it. */
    holder: Asker | undefined;
  }
}

export interface GatewayLog {
  warn(message: string, fields: Readonly<Record<string, unknown>>): void;
}

export interface ServerConfig {
  readonly limits: Pick<GatewayConfig['limits'], 'bodyBytes' | 'requestsPerMinute' | 'requestSeconds' | 'connections'>;
  readonly proxies: GatewayConfig['proxies'];
}

export interface ServerParts {
  readonly config: ServerConfig;
  readonly tokens: Pick<Tokens, 'askerOf' | 'isDevelopment'>;
  readonly sessions?: Pick<Sessions, 'askerOf' | 'origin'> | undefined;
  /** Version in the OpenAPI document; absent: there is no document. */
  readonly version?: string;
  /** Pages that may read answers, by their origins; absent: those of this server alone. */
  readonly origins?: readonly string[];
  readonly log?: GatewayLog | undefined;
  /** Headers that say how old lists are. */
  readonly staleness?: () => Readonly<Record<string, string>>;
  readonly warning?: string;
  readonly onAnswer?: ((answered: Answered) => void) | undefined;
}

export type Server = Awaited<ReturnType<typeof createServer>>;

const PERIOD_SECONDS = 60;
const PREFLIGHT_SECONDS = 600;

/** Seconds after which to try again, by status, where nothing more exact is known. */
const RETRY_AFTER: Readonly<Record<number, number>> = { 429: 10, 503: 2 };

const SECURITY_HEADERS = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
} as const;

/** Parts of a request as people call them, by Fastify's names. */
const PARTS: Readonly<Record<string, string>> = {
  body: 'body',
  querystring: 'query',
  params: 'path',
  headers: 'header',
};

/** One function, because it is the one list of what all routes share. */
export async function createServer({
  config,
  tokens,
  sessions,
  version,
  origins,
  log,
  staleness,
  onAnswer,
  warning = 'everybody may sign in as anybody',
}: ServerParts) {
  const { limits } = config;
  const app = fastify({
    logger: false,
    bodyLimit: limits.bodyBytes,
    requestTimeout: limits.requestSeconds * 1_000,
    connectionTimeout: 0,
    keepAliveTimeout: 72_000,
    http: { headersTimeout: limits.requestSeconds * 1_000 },
    // Run ids may be long. Clients often write the gate's address with a slash at its end.
    routerOptions: { maxParamLength: 1_000, ignoreTrailingSlash: true },
    genReqId: requestIdOf,
    // Paths that the router does not take; no hook runs for them.
    frameworkErrors: (error, request, reply) =>
      void tell(error, request, reply.headers({ ...SECURITY_HEADERS, 'x-request-id': request.id }), log),
    clientErrorHandler: (error, socket) => refuseUnread(error, socket, SECURITY_HEADERS),
    forceCloseConnections: true,
    trustProxy: config.proxies.length > 0 ? config.proxies : false,
  }).withTypeProvider<ZodTypeProvider>();
  app.server.maxConnections = limits.connections;
  app.setValidatorCompiler(({ schema, httpPart }) => (input: unknown) => {
    // Sound: every schema of a route is one of zod.
    const read = (schema as unknown as z.ZodType).safeParse(input);
    return read.success
      ? { value: read.data }
      : { error: new Misfit(problemsOf(read.error, input), PARTS[httpPart ?? ''] ?? 'request') };
  });
  // Workers of a newer release may say more than these schemas know, so answers are written as they are.
  app.setSerializerCompiler(() => (answer) => JSON.stringify(answer));
  takeBodiesAsWritten(app);
  app.decorateRequest('asker', undefined);
  app.decorateRequest('holder', undefined);
  app.addHook('onRequest', async (request, reply) => {
    void reply.headers({ ...SECURITY_HEADERS, 'x-request-id': request.id });
    if (tokens.isDevelopment) {
      void reply.header('x-countersign-development', warning);
      assertLocalName(request);
    }
  });
  // It answers preflights, and must say on a refusal, too, who may read it: so it comes before all that refuses.
  if (origins !== undefined) await app.register(cors, corsOf(origins));
  if (onAnswer !== undefined)
    app.addHook('onResponse', async (request, reply) => {
      const isStream = String(reply.raw.getHeader('content-type')).startsWith('text/event-stream');
      const seconds = isStream ? undefined : reply.elapsedTime / 1_000;
      onAnswer({ method: request.method, route: request.routeOptions.url, status: reply.raw.statusCode, seconds });
    });
  await app.register(cookie);
  await app.register(rateLimit, { global: false });
  const counted = app.createRateLimit({
    max: limits.requestsPerMinute,
    timeWindow: PERIOD_SECONDS * 1_000,
    keyGenerator: ({ asker, holder, ip }) => {
      const person = asker ?? holder;
      return person === undefined ? `address ${ip}` : keyOf(person);
    },
  });
  const count = async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    const answer = await counted(request);
    if (answer.isAllowed || !answer.isExceeded) return;
    void reply.header('retry-after', String(answer.ttlInSeconds));
    throw tooMany(`${limits.requestsPerMinute} requests in ${PERIOD_SECONDS} s`);
  };
  app.addHook('onRequest', async (request, reply) => {
    const { isOpen, isUncounted, countsRefusals, asks } = request.routeOptions.config;
    if (isUncounted === true || countsRefusals === true) return;
    if (isOpen === true || request.is404) {
      request.holder = await holderOf(request, sessions);
      return await count(request, reply);
    }
    try {
      request.asker = await (asks === undefined ? whoAsks(request, tokens, sessions) : asks(request, reply));
    } catch (error) {
      // Each made-up token costs a look at its signature.
      await count(request, reply);
      throw error;
    }
    await count(request, reply);
    if (staleness !== undefined) void reply.headers(staleness());
  });
  app.setErrorHandler(async (error, request, reply) => {
    let told = error;
    if (request.routeOptions.config.countsRefusals === true)
      await count(request, reply).catch((exceeded: unknown) => (told = exceeded));
    await tell(told, request, reply, log);
  });
  app.setNotFoundHandler((request, reply) => {
    const see = version === undefined ? '' : ' See /openapi.json.';
    const message = `There is nothing at ${request.method} ${request.url.split('?')[0] ?? ''}.${see}`;
    return tell(new CountersignError('ROUTE_UNKNOWN', message), request, reply, log);
  });
  if (version !== undefined) await app.register(swagger, documentOf(version));
  return app;
}

const CONSTRUCTOR_TEXT = 'has a field called prototype in one called constructor, which is not taken; leave it out';

/**
 * Refuses a body with a number that would be read as another one, or with two members of one name, of which one is not
 * read: people would be asked about a call that nobody wanted. What nests without end is refused before it is read.
 */
function takeBodiesAsWritten(
  app: Pick<FastifyInstance, 'addContentTypeParser' | 'getDefaultJsonParser' | 'removeContentTypeParser'>,
): void {
  const parse = app.getDefaultJsonParser('error', 'error');
  app.removeContentTypeParser('application/json');
  app.addContentTypeParser<string>('application/json', { parseAs: 'string' }, (request, body, done) => {
    const refuse = (reason: string): void => done(new Misfit([{ path: '', reason }], 'body'));
    const number = changedNumber(body);
    if (number !== undefined) return refuse(changedNumberText(number));
    if (isTooDeep(body, MOST_LEVELS)) return refuse(TOO_DEEP);
    return parse(request, body, (error, value: unknown) => {
      // JSON that Fastify's parser refuses has a field that it forbids.
      if (error !== null && jsonOf(body) !== undefined)
        return refuse(namesPrototype(body) ? PROTOTYPE_TEXT : CONSTRUCTOR_TEXT);
      const name = error === null ? repeatedMember(body) : undefined;
      if (name === undefined) done(error, value);
      else refuse(repeatedMemberText(name));
    });
  });
}

/** Browsers send a page's own headers only after a preflight; tokens come in a header, so cookies are not asked for. */
function corsOf(origins: readonly string[]): FastifyCorsOptions {
  return {
    origin: [...origins],
    methods: ['POST'],
    allowedHeaders: ['Authorization', 'Content-Type', 'X-Namespace', 'X-Request-Id'],
    exposedHeaders: ['Retry-After', 'X-Request-Id'],
    maxAge: PREFLIGHT_SECONDS,
  };
}

/** A bearer token comes first; a cookie counts only for what a page of this gateway sends. */
async function whoAsks(
  request: FastifyRequest,
  tokens: ServerParts['tokens'],
  sessions: ServerParts['sessions'],
): Promise<Asker> {
  const session = request.cookies[SESSION_COOKIE];
  if (request.headers.authorization !== undefined || session === undefined || sessions === undefined)
    return await tokens.askerOf(request.headers.authorization);
  if (request.method !== 'GET' && request.method !== 'HEAD') assertOwnPage(request, sessions.origin);
  return await sessions.askerOf(session);
}

/** Who holds the session that came with a request; undefined if none did, or if it is over or made up. */
export async function holderOf(
  { cookies }: FastifyRequest,
  sessions: ServerParts['sessions'],
): Promise<Asker | undefined> {
  // Sound: cookies are null until they are read, which comes after names that are refused.
  const session = (cookies as typeof cookies | null)?.[SESSION_COOKIE];
  if (session === undefined || sessions === undefined) return undefined;
  try {
    return await sessions.askerOf(session);
  } catch (error) {
    if (error instanceof CountersignError && error.code === 'SIGN_IN_REQUIRED') return undefined;
    throw error;
  }
}

/** Browsers name the page that sends (Fetch §3.2); pages elsewhere cannot hide or change it. */
export function assertOwnPage(request: FastifyRequest, own: string | undefined): void {
  if (!isOwnPage(request, own)) throw signIn('This came from another page than one of this gateway.');
}

/** @param own origin of the pages; undefined where only the request tells */
export function isOwnPage({ headers: { origin, host } }: FastifyRequest, own: string | undefined): boolean {
  if (origin === undefined) return false;
  return own === undefined ? URL.canParse(origin) && new URL(origin).host === host : origin === own;
}

/** True if a browser asks for something to show. */
export function wantsPage({ headers }: Pick<IncomingMessage, 'headers'>): boolean {
  return headers.accept?.includes('text/html') === true;
}

export function askerOf({ asker }: FastifyRequest): Asker {
  if (asker === undefined) throw new CountersignError('INTERNAL', 'A route has no person who asks.');
  return asker;
}

export function keyOf({ tenant, id }: Pick<Asker, 'tenant' | 'id'>): string {
  return JSON.stringify([tenant, id]);
}

async function tell(
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
  log: GatewayLog | undefined,
): Promise<void> {
  const coded = codedOf(error);
  const problem = problemOf(coded, request.id);
  if (isForOperator(coded)) {
    const { method, url: path } = request.routeOptions;
    log?.warn(`request failed: ${loggedOf(error, coded)}`, { requestId: request.id, code: coded.code, method, path });
  }
  if (problem.status === 401 && !reply.hasHeader('www-authenticate')) void reply.header('www-authenticate', 'Bearer');
  tellWhen(reply, coded);
  await reply.status(problem.status).type('application/problem+json').send(problem);
}

/** What the log says of an error: the words of one without a code may quote anything. */
export function loggedOf(error: unknown, { code, message }: CountersignError): string {
  return code === 'INTERNAL' ? nameOf(error) : message;
}

/** Says after how long to try again, unless that is said already. */
export function tellWhen(reply: FastifyReply, { traits: { httpStatus, retryable } }: CountersignError): void {
  const again = RETRY_AFTER[httpStatus];
  if (retryable && again !== undefined && !reply.hasHeader('retry-after'))
    void reply.header('retry-after', String(again));
}

export function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : typeof error;
}

const OWN_ID = /^[A-Za-z0-9._-]{8,64}$/;

function requestIdOf({ headers }: { readonly headers: Readonly<Record<string, unknown>> }): string {
  const given = headers['x-request-id'];
  return typeof given === 'string' && OWN_ID.test(given) ? given : randomUUID();
}

export function isLoopbackHost(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(?:\.\d{1,3}){3}$/.test(host);
}

/**
 * @param path of the port in the configuration
 * @returns the URL at which the server listens
 * @throws CountersignError `SETUP_INCOMPLETE` if it cannot listen there
 */
export async function listen(
  app: Server,
  { host, port }: Pick<GatewayConfig, 'host' | 'port'>,
  name: string,
  path: string,
): Promise<string> {
  try {
    await app.listen({ host, port });
  } catch (error) {
    const message = `The ${name} cannot listen on ${host}:${port} (${nodeCodeOf(error) ?? 'error'}). Choose another ${path}.`;
    throw new CountersignError('SETUP_INCOMPLETE', message, { path }, { cause: error });
  }
  // Sound: a server that listens on a port has such an address.
  const { port: taken } = app.server.address() as AddressInfo;
  return `http://${host.includes(':') ? `[${host}]` : host}:${taken}`;
}

const LOCAL_NAME = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/i;

function assertLocalName({ headers: { host, origin } }: FastifyRequest): void {
  const isLocal =
    LOCAL_NAME.test(host ?? '') && (origin === undefined || LOCAL_NAME.test(origin.replace(/^https?:\/\//, '')));
  if (!isLocal)
    throw new CountersignError(
      'ACTION_FORBIDDEN',
      'In development this server answers only under names of this machine: 127.0.0.1, localhost, [::1].',
    );
}
