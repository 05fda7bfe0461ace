/**
 * Starts authorization servers on loopback: one that no one here wrote (oidc-provider), and one that does
 * whatever a test says.
 */
import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { exportJWK, generateKeyPair, type JWK } from 'jose';
import type { KoaContext, Provider, ProviderConfiguration } from 'oidc-provider';
import { defined } from '../../../contracts/defined.ts';
import { bodyOf, listenOnLoopback } from '../servers/loopback-server.ts';

/** A token request as it arrived. */
export interface TokenRequestSeen {
  readonly authorization: string | undefined;
  /** The header `DPoP`. */
  readonly proof?: string;
  readonly form: URLSearchParams;
}

export interface RunningAuthorizationServer {
  readonly issuer: string;
  readonly seen: readonly TokenRequestSeen[];
  close(): Promise<void>;
}

export interface RunningProvider extends RunningAuthorizationServer {
  /** Requests at endpoints other than the token endpoint: revocation, introspection. */
  readonly elsewhere: readonly TokenRequestSeen[];
}

export interface Client {
  readonly id: string;
  readonly secret?: string;
  readonly authMethod?: 'client_secret_basic' | 'client_secret_post' | 'private_key_jwt';
  /** Public key of a client that signs. */
  readonly publicJwk?: JWK;
  /** Default: client credentials alone. */
  readonly grantTypes?: readonly string[];
  /** Scopes that the client may request, separated by spaces; absent means all. */
  readonly scope?: string;
}

export interface ProviderOptions {
  readonly clients: readonly Client[];
  /** Resource URI → its scopes, separated by spaces. */
  readonly resources: Readonly<Record<string, string>>;
  readonly authMethods?: readonly string[];
  /** Default: the scopes of the resources. */
  readonly scopes?: readonly string[];
  /** Default: the resource itself. */
  readonly audience?: string;
  readonly format?: 'jwt' | 'opaque';
  /** Bound tokens (DPoP): `nonce` wants a nonce in each proof, `off` knows none. Default: taken, without a nonce. */
  readonly proofs?: 'nonce' | 'off';
  /** Further grants by name (`oauth-grants.ts`). */
  readonly grants?: Readonly<Record<string, GrantHandler>>;
}

/** Answers a token request of one grant. */
export type GrantHandler = (context: KoaContext, provider: Provider) => Promise<void>;

/**
 * Starts a provider of client credentials with resource indicators (RFC 8707); its JWT access tokens (RFC 9068) live
 * 120 s.
 */
export async function startProvider(options: ProviderOptions): Promise<RunningProvider> {
  const seen: TokenRequestSeen[] = [];
  const elsewhere: TokenRequestSeen[] = [];
  let handle: Handler = (_request, response) => {
    response.writeHead(503).end();
  };
  const { issuer, close } = await listen((request, response) => {
    handle(request, response);
  });
  const { Provider, errors } = await import('oidc-provider');
  const configuration: ProviderConfiguration = {
    clients: options.clients.map(
      ({ id, secret, authMethod = 'client_secret_basic', scope, publicJwk, grantTypes }) => ({
        ...defined({ scope, client_secret: secret }),
        ...(publicJwk === undefined ? {} : { jwks: { keys: [publicJwk] } }),
        client_id: id,
        token_endpoint_auth_method: authMethod,
        grant_types: grantTypes ?? ['client_credentials'],
        redirect_uris: [],
        response_types: [],
      }),
    ),
    scopes: options.scopes ?? [...new Set(Object.values(options.resources).flatMap((scope) => scope.split(' ')))],
    ...defined({ clientAuthMethods: options.authMethods }),
    // An exchanged token names who acts for the subject (RFC 8693 §4.1).
    extraTokenClaims: ({ oidc: { params, client } }) =>
      params?.['subject_token'] === undefined ? undefined : { act: { sub: client.clientId } },
    cookies: { keys: ['test'] },
    jwks: { keys: [await signingKey()] },
    features: {
      devInteractions: { enabled: false },
      dPoP: dPoPOf(options.proofs),
      clientCredentials: { enabled: true },
      revocation: { enabled: true, allowedPolicy: () => true },
      introspection: { enabled: true, allowedPolicy: () => true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_context: unknown, resource: string) => {
          const scope = Object.hasOwn(options.resources, resource) ? options.resources[resource] : undefined;
          if (scope === undefined) throw new errors.InvalidTarget();
          return {
            scope,
            accessTokenFormat: options.format ?? 'jwt',
            accessTokenTTL: 120,
            ...defined({ audience: options.audience }),
          };
        },
      },
    },
  };
  const provider = withOwnClones(() => new Provider(issuer, configuration));
  for (const [name, handler] of Object.entries(options.grants ?? {}))
    provider.registerGrantType(name, async (context) => await handler(context, provider), GRANT_PARAMETERS);
  const answer = provider.callback();
  handle = (request, response) => {
    if (request.method === 'POST') void recordForm(request, request.url === '/token' ? seen : elsewhere);
    answer(request, response);
  };
  return { issuer, seen, elsewhere, close };
}

export function dPoPOf(proofs: ProviderOptions['proofs']): object {
  if (proofs !== 'nonce') return { enabled: proofs !== 'off' };
  return { enabled: true, nonceSecret: randomBytes(32), requireNonce: () => true };
}

/** Starts a provider at which people sign in by browser: its own forms take any name for a person. */
export async function startLoginProvider(client: {
  readonly id: string;
  readonly secret: string;
  readonly redirectUri: string;
  /** The only method by which the provider takes the secret. */
  readonly authMethod?: 'client_secret_basic' | 'client_secret_post';
  /** Claims of every person, beside the id. */
  readonly claims: Readonly<Record<string, unknown>>;
  /** Groups of single people. */
  readonly groupsOf?: (id: string) => readonly string[];
}): Promise<RunningAuthorizationServer> {
  let handle: Handler = (_request, response) => {
    response.writeHead(503).end();
  };
  const { issuer, close } = await listen((request, response) => {
    handle(request, response);
  });
  const { Provider } = await import('oidc-provider');
  const configuration: ProviderConfiguration = {
    clients: [
      {
        client_id: client.id,
        client_secret: client.secret,
        token_endpoint_auth_method: client.authMethod ?? 'client_secret_post',
        grant_types: ['authorization_code'],
        redirect_uris: [client.redirectUri],
        response_types: ['code'],
        application_type: 'native',
      },
    ],
    scopes: ['openid', 'profile'],
    ...(client.authMethod && { clientAuthMethods: [client.authMethod] }),
    claims: { openid: ['sub', 'groups', ...Object.keys(client.claims)] },
    conformIdTokenClaims: false,
    findAccount: (_context, accountId) => ({
      accountId,
      claims: () => ({ sub: accountId, groups: client.groupsOf?.(accountId) ?? [], ...client.claims }),
    }),
    cookies: { keys: ['test'] },
    jwks: { keys: [await signingKey()] },
    features: { devInteractions: { enabled: true } },
  };
  const provider = withOwnClones(() => new Provider(issuer, configuration));
  handle = provider.callback();
  return { issuer, seen: [], close };
}

const GRANT_PARAMETERS = [
  'scope',
  'resource',
  'audience',
  'requested_token_type',
  'assertion',
  'subject_token',
  'subject_token_type',
  'actor_token',
  'actor_token_type',
];

export interface HostileAnswer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: unknown;
}

export interface HostileBehaviour {
  /** Closes a connection when a second request comes on it, like a connection that was idle too long. */
  readonly closesIdle?: true;
  /** Replaces the correct metadata. */
  readonly metadata?: (issuer: string) => HostileAnswer | undefined;
  /** Answer of the token endpoint; `hang` answers nothing, `drop` cuts the connection. */
  readonly token?: (request: TokenRequestSeen) => HostileAnswer | 'hang' | 'drop';
}

export interface HostileServer extends RunningAuthorizationServer {
  /** Resolves when a token request has arrived. */
  readonly arrived: Promise<void>;
  behave(next: HostileBehaviour): void;
  /** Number of metadata requests so far. */
  discoveries(): number;
}

/** Starts an authorization server that does what the test says, with correct metadata by default. */
export async function startHostile(first: HostileBehaviour): Promise<HostileServer> {
  let behaviour = first;
  let discoveries = 0;
  const seen: TokenRequestSeen[] = [];
  let arrive = (): void => undefined;
  const arrived = new Promise<void>((resolve) => {
    arrive = resolve;
  });
  const used = new WeakSet<object>();
  const { issuer, close } = await listen((request, response) => {
    if (behaviour.closesIdle === true && used.has(request.socket)) return void request.socket.destroy();
    used.add(request.socket);
    if (request.method === 'GET') {
      discoveries += 1;
      const metadata = { issuer, token_endpoint: `${issuer}/token`, response_types_supported: [] };
      send(response, behaviour.metadata?.(issuer) ?? { body: metadata });
      return;
    }
    void recordForm(request, seen, (form) => {
      arrive();
      const answer = behaviour.token?.(form) ?? { status: 404, body: {} };
      if (answer === 'drop') request.socket.destroy();
      else if (answer !== 'hang') send(response, answer);
    });
  });
  return {
    issuer,
    seen,
    arrived,
    close,
    discoveries: () => discoveries,
    behave(next) {
      behaviour = next;
    },
  };
}

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

async function listen(handler: Handler): Promise<{ issuer: string; close: () => Promise<void> }> {
  const server = await listenOnLoopback(handler);
  return {
    issuer: server.origin,
    close: server.close,
  };
}

async function recordForm(
  request: IncomingMessage,
  seen: TokenRequestSeen[],
  done?: (form: TokenRequestSeen) => void,
): Promise<void> {
  const { authorization, dpop } = request.headers;
  const proof = typeof dpop === 'string' ? { proof: dpop } : {};
  const form = { authorization, ...proof, form: new URLSearchParams(await bodyOf(request)) };
  seen.push(form);
  done?.(form);
}

function send(response: ServerResponse, { status = 200, headers = {}, body }: HostileAnswer): void {
  const isText = typeof body === 'string';
  response.writeHead(status, { 'content-type': isText ? 'text/html' : 'application/json', ...headers });
  response.end(isText ? body : JSON.stringify(body));
}

async function signingKey(): Promise<JWK> {
  const { privateKey } = await generateKeyPair('RS256', { extractable: true });
  return { ...(await exportJWK(privateKey)), alg: 'RS256', use: 'sig' };
}

/** Under jest, Node's clones come from another realm, and oidc-provider does not accept a client's key from there. */
function withOwnClones<Made>(make: () => Made): Made {
  const native = globalThis.structuredClone;
  globalThis.structuredClone = cloned;
  try {
    return make();
  } finally {
    globalThis.structuredClone = native;
  }
}

function cloned<Value>(value: Value): Value {
  // Sound: a copy has the type of its original.
  return copied(value) as Value;
}

function copied(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(copied);
  if (value === null || typeof value !== 'object' || value.constructor !== Object) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, copied(inner)]));
}
