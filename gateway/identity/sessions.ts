/**
 * Signs people in by browser, and remembers who they are in a cookie.
 *
 * 1. A session is a sealed cookie (JWE), so that several gateways need no common store; it ends after some hours.
 * 2. A sign-in is bound to the browser that began it: state, nonce and PKCE verifier stand in a cookie of its own.
 * 3. The ID token is verified like any other token, by the provider's published keys.
 * 4. A cookie alone changes nothing: a request that may change something must come from a page of this gateway.
 * 5. Sessions of the development login have a key of their own, made for the process: no other gateway believes them.
 */
import { randomBytes } from 'node:crypto';
import { EncryptJWT, errors, jwtDecrypt } from 'jose';
import * as oauth from 'oauth4webapi';
import { CountersignError } from '../../contracts/errors.ts';
import type { GatewayConfig, OidcConfig, SignInConfig } from '../../contracts/schemas/gateway.ts';
import { OneAnswer } from '../cache/one-answer.ts';
import type { AskProvider, ProviderKeys } from './keys.ts';
import { type Asker, type Claimed, type People, SIGN_IN_AGAIN, signIn } from './person.ts';
import { claimedIn } from './tokens.ts';

/** Prefix `__Host-`: only this host sets it, over TLS, for all of its paths (RFC 6265bis §4.1.3.2). */
export const SESSION_COOKIE = '__Host-countersign';
export const LOGIN_COOKIE = '__Host-countersign-login';

const LOGIN_SECONDS = 600;
const DEVELOPMENT_SECONDS = 43_200;
const DEADLINE_MS = 10_000;
const METADATA_MS = 600_000;
const MOST_METADATA_BYTES = 1_048_576;
/** Browsers drop a cookie above 4,096 bytes, with its name and attributes (RFC 6265bis §5.6). */
const MOST_COOKIE_BYTES = 3_800;

/** Use of a sealed text; one use is never taken for another. */
type Use = 'session' | 'login' | 'development';

export interface SetCookie {
  readonly value: string;
  readonly seconds: number;
}

interface Login {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
  readonly to: string;
}

export class Sessions {
  readonly #people: People;
  readonly #config: SignInConfig | undefined;
  readonly #oidc: OidcConfig | undefined;
  readonly #keys: ProviderKeys | undefined;
  readonly #ask: AskProvider;
  /** The first of them seals. */
  readonly #sealing: readonly [Uint8Array, ...Uint8Array[]];
  /** Seals sessions of the development login; absent where there is none. */
  readonly #development: Uint8Array | undefined;
  /** Read once for all who sign in during some minutes: anybody may begin a sign-in. */
  readonly #metadata = new OneAnswer<oauth.AuthorizationServer>(MOST_METADATA_BYTES, METADATA_MS);
  /** The way in which the provider knows this gateway, where it is not the first. */
  #method: string | undefined;

  constructor(
    { signIn: config, oidc, development }: Pick<GatewayConfig, 'signIn' | 'oidc' | 'development'>,
    people: People,
    keys: ProviderKeys | undefined,
    ask: AskProvider,
  ) {
    this.#config = config;
    this.#oidc = oidc;
    this.#people = people;
    this.#keys = keys;
    this.#ask = ask;
    const [first = randomBytes(32), ...others] = (config?.keys ?? []).map(({ key }) => Buffer.from(key, 'base64'));
    this.#sealing = [first, ...others];
    this.#development = development === true ? randomBytes(32) : undefined;
  }

  /** The origin of the gateway's own pages; undefined where only the request tells. */
  get origin(): string | undefined {
    return this.#config === undefined ? undefined : new URL(this.#config.publicUrl).origin;
  }

  /** Returns who holds the session. @throws CountersignError `SIGN_IN_REQUIRED` */
  async askerOf(cookie: string): Promise<Asker> {
    const own = this.#development && (await opened<Claimed>(cookie, [this.#development], 'development'));
    const { id, groups, tenant, exp } = own ?? (await this.#opened<Claimed>(cookie, 'session'));
    return this.#people.personOf({ id, groups, tenant, exp });
  }

  /** Makes a session of the development login. @throws CountersignError `ACTION_FORBIDDEN` if there is no such login */
  async sessionOf(claimed: Omit<Claimed, 'exp'>): Promise<SetCookie> {
    if (this.#development === undefined)
      throw new CountersignError('ACTION_FORBIDDEN', 'This gateway has no development login (gateway.development).');
    return await sealed({ ...claimed }, this.#development, 'development', DEVELOPMENT_SECONDS);
  }

  /** Begins a sign-in. @returns where to send the browser */
  async begin(to: string): Promise<{ readonly location: string; readonly cookie: SetCookie }> {
    const { config, server, client, redirect } = await this.#provider();
    const verifier = oauth.generateRandomCodeVerifier();
    const login: Login = { state: oauth.generateRandomState(), nonce: oauth.generateRandomNonce(), verifier, to };
    const { authorization_endpoint: endpoint = '' } = server;
    if (!URL.canParse(endpoint)) {
      const message = `The identity provider ${server.issuer} names no address at which people sign in (authorization_endpoint). Check gateway.oidc.issuer.`;
      throw new CountersignError('TRUST_UNAVAILABLE', message);
    }
    const location = new URL(endpoint);
    const asked = {
      client_id: client.client_id,
      redirect_uri: redirect,
      response_type: 'code',
      scope: config.scopes.join(' '),
      code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
      state: login.state,
      nonce: login.nonce,
    };
    for (const [name, value] of Object.entries(asked)) location.searchParams.set(name, value);
    return { location: location.href, cookie: await sealed({ ...login }, this.#sealing[0], 'login', LOGIN_SECONDS) };
  }

  /** @param query what the provider has sent the browser back with. @throws CountersignError `SIGN_IN_REQUIRED` */
  async finish(
    query: URLSearchParams,
    loginCookie: string,
  ): Promise<{ readonly to: string; readonly cookie: SetCookie }> {
    const { state, nonce, verifier, to } = await this.#opened<Login>(loginCookie, 'login');
    const { config, oidc, keys, server, client, redirect, options } = await this.#provider();
    try {
      const params = oauth.validateAuthResponse(server, client, query, state);
      const { id_token: token = '' } = await this.#asClient(waysOf(server, config.clientSecret), async (auth) => {
        const request = [server, client, auth, params, redirect, verifier, options] as const;
        const answer = await oauth.authorizationCodeGrantRequest(...request);
        return await oauth.processAuthorizationCodeResponse(server, client, answer, {
          expectedNonce: nonce,
          requireIdToken: true,
        });
      });
      const payload = await keys.verified(token, client.client_id);
      const { id, groups, tenant } = claimedIn(payload, oidc);
      // The claims must name somebody now, not at the next request.
      const usable = this.#people.personOf({ id, groups, tenant, exp: payload.exp });
      const session = { id, groups: usable.groups, tenant };
      return { to, cookie: await sealed(session, this.#sealing[0], 'session', config.hours * 3_600) };
    } catch (error) {
      throw error instanceof CountersignError ? error : unfinished(error);
    }
  }

  /**
   * Asks the provider as its client. It may state several ways in which it takes a secret, and take one of them from
   * this client, for which it was registered: where it does not know the client by the first way, the next is tried.
   */
  async #asClient<T>(ways: readonly Way[], ask: (auth: oauth.ClientAuth) => Promise<T>): Promise<T> {
    const known = ways.filter(({ method }) => method === this.#method);
    const [first, next] = [...known, ...ways.filter((way) => !known.includes(way))];
    if (first === undefined || next === undefined) return await ask(first?.auth ?? oauth.None());
    try {
      return await ask(first.auth);
    } catch (error) {
      if (!isClientRefusal(error)) throw error;
    }
    try {
      const answer = await ask(next.auth);
      this.#method = next.method;
      return answer;
    } catch (error) {
      // The client is known, whatever else is wrong.
      if (isRefusal(error) && error.status < 500 && !isClientRefusal(error)) this.#method = next.method;
      throw error;
    }
  }

  async #provider() {
    const [config, oidc, keys] = [this.#config, this.#oidc, this.#keys];
    if (config === undefined || oidc === undefined || keys === undefined)
      throw new CountersignError('ROUTE_UNKNOWN', 'This gateway has no sign-in by browser (gateway.signIn).');
    const issuer = new URL(oidc.issuer);
    const options = {
      [oauth.customFetch]: async (url: string, init: oauth.CustomFetchOptions<'GET' | 'POST', unknown>) =>
        // Sound: the init of the library is one of the standard.
        await this.#ask(url, init as RequestInit),
      // Egress has judged whether the issuer may be asked in clear.
      [oauth.allowInsecureRequests]: issuer.protocol === 'http:',
      signal: () => AbortSignal.timeout(DEADLINE_MS),
    };
    const server = await this.#metadata
      .get(issuer.href, async () => await discovered(issuer, options))
      .catch((error: unknown) => {
        throw silent(error);
      });
    const client: oauth.Client = { client_id: config.clientId };
    const redirect = new URL('/auth/callback', config.publicUrl).href;
    return { config, oidc, keys, server, client, redirect, options };
  }

  async #opened<T>(value: string, use: Use): Promise<T> {
    const found = await opened<T>(value, this.#sealing, use);
    if (found === undefined) throw signIn('The session has ended.', SIGN_IN_AGAIN);
    return found;
  }
}

interface Way {
  readonly method: string;
  readonly auth: oauth.ClientAuth;
}

/**
 * Returns the ways that the provider states to take, the first one first. OpenID Connect Discovery §3: one that states
 * no method takes `client_secret_basic`.
 */
function waysOf(provider: oauth.AuthorizationServer, secret: string | undefined): readonly Way[] {
  if (secret === undefined) return [];
  const stated: unknown = provider.token_endpoint_auth_methods_supported;
  const methods: readonly unknown[] = Array.isArray(stated) ? stated : ['client_secret_basic'];
  const basic = { method: 'client_secret_basic', auth: oauth.ClientSecretBasic(secret) };
  if (!methods.includes('client_secret_post')) return [basic];
  const post = { method: 'client_secret_post', auth: oauth.ClientSecretPost(secret) };
  return methods.includes(basic.method) ? [post, basic] : [post];
}

type Refusal = oauth.ResponseBodyError | oauth.WWWAuthenticateChallengeError;

function isRefusal(error: unknown): error is Refusal {
  return error instanceof oauth.ResponseBodyError || error instanceof oauth.WWWAuthenticateChallengeError;
}

/** True if the provider does not take this gateway as its client (RFC 6749 §5.2). */
function isClientRefusal(error: unknown): boolean {
  return isRefusal(error) && (error.status === 401 || ('error' in error && error.error === 'invalid_client'));
}

/** Tells apart what the person who signs in can mend, and what whoever runs gateway and provider can. */
function unfinished(error: unknown): CountersignError {
  if (isRefusal(error)) {
    if (error.status >= 500 || error.status === 429) return silent(error);
    const said = 'error' in error ? error.error : `HTTP ${error.status}`;
    if (said === 'invalid_grant') return signIn('This sign-in takes too long, or is over.', 'Begin it again.');
    const message = `The identity provider refuses this gateway as its client (${wordIn(said)}), so nobody can sign in. Check gateway.signIn: clientId, clientSecret, and the /auth/callback that is registered there.`;
    return new CountersignError('TRUST_UNAVAILABLE', message, {}, { cause: error });
  }
  if (error instanceof oauth.AuthorizationResponseError) return notLetIn(error.error);
  if (error instanceof oauth.UnsupportedOperationError || error instanceof errors.JOSEError)
    return notLetIn(error.code);
  if (error instanceof oauth.OperationProcessingError && !UNREADABLE.has(error.code)) return notLetIn(error.code);
  return silent(error);
}

/** Has no cause: that may hold the answer of the provider, with its tokens. */
function notLetIn(why = 'error'): CountersignError {
  return signIn(
    `The identity provider did not let you sign in (${wordIn(why)}).`,
    'Sign in again; if that does not help, ask whoever runs this gateway.',
  );
}

/** The provider may say anything; registered words are of these letters (RFC 6749 §5.2). */
function wordIn(said: string): string {
  return /^[\w ]{1,40}$/.test(said) ? said : 'error';
}

/** Codes of an answer that is of a proxy, or of a provider in trouble. */
const UNREADABLE: ReadonlySet<string | undefined> = new Set([
  oauth.RESPONSE_IS_NOT_CONFORM,
  oauth.RESPONSE_IS_NOT_JSON,
  oauth.PARSE_ERROR,
]);

function silent(cause: unknown): CountersignError {
  const message = 'The identity provider does not answer, so nobody can sign in. Try again later.';
  return new CountersignError('TRUST_UNAVAILABLE', message, {}, { cause });
}

async function discovered(issuer: URL, options: oauth.HttpRequestOptions<'GET'>): Promise<oauth.AuthorizationServer> {
  const found = await oauth.discoveryRequest(issuer, { ...options, algorithm: 'oidc' });
  return await oauth.processDiscoveryResponse(issuer, found);
}

/** @throws CountersignError `ACTION_FORBIDDEN` if a browser would drop the cookie: it would sign in for ever */
async function sealed(
  claims: Readonly<Record<string, unknown>>,
  key: Uint8Array,
  use: Use,
  seconds: number,
): Promise<SetCookie> {
  const value = await new EncryptJWT({ ...claims })
    .setProtectedHeader({ alg: 'dir', enc: 'A256GCM' })
    .setAudience(use)
    .setExpirationTime(Math.floor(Date.now() / 1_000) + seconds)
    .encrypt(key);
  if (value.length > MOST_COOKIE_BYTES)
    throw new CountersignError(
      'ACTION_FORBIDDEN',
      `What is to be kept in a cookie has ${value.length} bytes, and browsers keep ${MOST_COOKIE_BYTES}: let the provider name fewer groups in its tokens.`,
    );
  return { value, seconds };
}

async function opened<T>(value: string, keys: readonly Uint8Array[], use: Use): Promise<T | undefined> {
  for (const key of keys)
    try {
      const { payload } = await jwtDecrypt(value, key, { audience: use });
      // Sound: nobody else has the key, and each use has one shape.
      return payload as unknown as T;
    } catch {
      // Another key may have sealed it.
    }
  return undefined;
}
