/**
 * Signs people in by browser, and remembers who they are in a cookie.
 *
 * 1. A session is a sealed cookie (JWE), so that several gateways need no common store; it ends after some hours.
 * 2. A sign-in is bound to the browser that began it: state, nonce and PKCE verifier stand in a cookie of its own.
 * 3. The ID token is verified like any other token, by the provider's published keys.
 * 4. A cookie alone changes nothing: a request that may change something must come from a page of this gateway.
 */
import { randomBytes } from 'node:crypto';
import { EncryptJWT, jwtDecrypt, jwtVerify } from 'jose';
import * as oauth from 'oauth4webapi';
import { CountersignError } from '../../contracts/errors.ts';
import type { GatewayConfig, OidcConfig, SignInConfig } from '../../contracts/schemas/gateway.ts';
import type { AskProvider, ProviderKeys } from './keys.ts';
import { type Asker, type Claimed, type People, signIn } from './person.ts';
import { claimedIn } from './tokens.ts';

/** Prefix `__Host-`: only this host sets it, over TLS, for all of its paths (RFC 6265bis §4.1.3.2). */
export const SESSION_COOKIE = '__Host-countersign';
export const LOGIN_COOKIE = '__Host-countersign-login';

const LOGIN_SECONDS = 600;
const DEVELOPMENT_SECONDS = 43_200;

/** A cookie to set. */
export interface SetCookie {
  readonly value: string;
  readonly seconds: number;
}

interface Login {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
  /** The page to go back to. */
  readonly to: string;
}

export class Sessions {
  readonly #people: People;
  readonly #config: SignInConfig | undefined;
  readonly #oidc: OidcConfig | undefined;
  readonly #keys: ProviderKeys | undefined;
  readonly #ask: AskProvider;
  readonly #sealing: readonly Uint8Array[];

  constructor(
    { signIn: config, oidc }: Pick<GatewayConfig, 'signIn' | 'oidc'>,
    people: People,
    keys: ProviderKeys | undefined,
    ask: AskProvider,
  ) {
    this.#config = config;
    this.#oidc = oidc;
    this.#people = people;
    this.#keys = keys;
    this.#ask = ask;
    const stated = (config?.keys ?? []).map(({ key }) => Buffer.from(key, 'base64'));
    this.#sealing = stated.length > 0 ? stated : [randomBytes(32)];
  }

  /** The origin of the gateway's own pages; undefined where only the request tells. */
  get origin(): string | undefined {
    return this.#config === undefined ? undefined : new URL(this.#config.publicUrl).origin;
  }

  /** Returns who holds the session. @throws CountersignError `SIGN_IN_REQUIRED` */
  async askerOf(cookie: string): Promise<Asker> {
    const { id, groups, tenant, exp } = await this.#opened<Claimed>(cookie, 'session');
    return this.#people.personOf({ id, groups, tenant, exp });
  }

  /** Makes a session of the development login. */
  async sessionOf(claimed: Omit<Claimed, 'exp'>): Promise<SetCookie> {
    return await this.#sealed({ ...claimed }, 'session', DEVELOPMENT_SECONDS);
  }

  /** Begins a sign-in. @returns where to send the browser */
  async begin(to: string): Promise<{ readonly location: string; readonly cookie: SetCookie }> {
    const { config, server, client, redirect } = await this.#provider();
    const verifier = oauth.generateRandomCodeVerifier();
    const login: Login = { state: oauth.generateRandomState(), nonce: oauth.generateRandomNonce(), verifier, to };
    const location = new URL(server.authorization_endpoint ?? '');
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
    return { location: location.href, cookie: await this.#sealed({ ...login }, 'login', LOGIN_SECONDS) };
  }

  /**
   * Ends a sign-in.
   * @param query what the provider has sent the browser back with
   * @throws CountersignError `SIGN_IN_REQUIRED`
   */
  async finish(
    query: URLSearchParams,
    loginCookie: string,
  ): Promise<{ readonly to: string; readonly cookie: SetCookie }> {
    const { state, nonce, verifier, to } = await this.#opened<Login>(loginCookie, 'login');
    const { config, oidc, keys, server, client, redirect, options } = await this.#provider();
    const auth = config.clientSecret === undefined ? oauth.None() : oauth.ClientSecretPost(config.clientSecret);
    try {
      const params = oauth.validateAuthResponse(server, client, query, state);
      const answer = await oauth.authorizationCodeGrantRequest(
        server,
        client,
        auth,
        params,
        redirect,
        verifier,
        options,
      );
      const { id_token: token = '' } = await oauth.processAuthorizationCodeResponse(server, client, answer, {
        expectedNonce: nonce,
        requireIdToken: true,
      });
      const { payload } = await jwtVerify(token, async (header, flat) => await keys.find(header, flat), {
        issuer: oidc.issuer,
        audience: client.client_id,
        algorithms: oidc.algorithms,
      });
      const { id, groups, tenant } = claimedIn(payload, oidc);
      // The claims must name somebody now, not at the next request.
      this.#people.personOf({ id, groups, tenant, exp: payload.exp });
      return { to, cookie: await this.#sealed({ id, groups, tenant }, 'session', config.hours * 3_600) };
    } catch (error) {
      throw error instanceof CountersignError ? error : signIn('The identity provider did not let you sign in.');
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
    };
    let server: oauth.AuthorizationServer;
    try {
      const found = await oauth.discoveryRequest(issuer, { ...options, algorithm: 'oidc' });
      server = await oauth.processDiscoveryResponse(issuer, found);
    } catch (cause) {
      const message = 'The identity provider does not answer, so nobody can sign in. Try again later.';
      throw new CountersignError('TRUST_UNAVAILABLE', message, {}, { cause });
    }
    const client: oauth.Client = { client_id: config.clientId };
    const redirect = new URL('/auth/callback', config.publicUrl).href;
    return { config, oidc, keys, server, client, redirect, options };
  }

  async #sealed(claims: Readonly<Record<string, unknown>>, use: string, seconds: number): Promise<SetCookie> {
    const value = await new EncryptJWT({ ...claims })
      .setProtectedHeader({ alg: 'dir', enc: 'A256GCM' })
      .setAudience(use)
      .setExpirationTime(Math.floor(Date.now() / 1_000) + seconds)
      .encrypt(this.#sealing[0] ?? new Uint8Array());
    return { value, seconds };
  }

  async #opened<T>(value: string, use: string): Promise<T> {
    for (const key of this.#sealing)
      try {
        const { payload } = await jwtDecrypt(value, key, { audience: use });
        // Sound: nobody else has the key, and each use has one shape.
        return payload as unknown as T;
      } catch {
        // Another key may have sealed it.
      }
    throw signIn('The session has ended. Sign in again.');
  }
}
