/**
 * Signs people in to the pages: by the provider's authorization code with PKCE (OpenID Connect Core §3.1, RFC 7636), or
 * by the development login.
 *
 * 1. The session is the access token in a cookie that no script reads and no other site sends; the gateway keeps
 *    nothing, so that any gateway serves any page.
 * 2. The secret of forms is made of the token: who cannot read the cookie cannot make it (CSRF).
 * 3. After the sign-in a person comes back to a page of this gateway, and to none of elsewhere.
 */
import { createHash } from 'node:crypto';
import cookie from '@fastify/cookie';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import * as oauth from 'oauth4webapi';
import { CountersignError } from '../../contracts/errors.ts';
import type { GatewayConfig } from '../../contracts/schemas/gateway.ts';
import { Identifier } from '../../contracts/schemas/json.ts';
import type { AskProvider } from '../identity/keys.ts';
import type { Tokens } from '../identity/tokens.ts';
import { foreign } from './faithful.ts';
import { pageText, signedOutText, trouble } from './layout.ts';
import { markup } from './markup.ts';
import type { Viewer } from './port.ts';

export interface SessionOptions {
  readonly config: Pick<GatewayConfig, 'oidc' | 'development' | 'page'>;
  readonly tokens: Pick<Tokens, 'askerOf' | 'signInAs'>;
  readonly ask: AskProvider;
}

/** Time for a sign-in at the provider. */
const SIGN_IN_SECONDS = 600;
/** Browsers drop larger cookies (RFC 6265 §6.1). */
const MOST_COOKIE_BYTES = 3_800;

export class Sessions {
  readonly #options: SessionOptions;
  readonly #isSecure: boolean;
  #server: Promise<oauth.AuthorizationServer> | undefined;

  constructor(options: SessionOptions) {
    this.#options = options;
    // Browsers keep `__Host-` cookies only where the connection is TLS.
    this.#isSecure = options.config.page?.url.startsWith('https:') ?? false;
  }

  /** Who is signed in; undefined if nobody is, or no longer. */
  async viewerOf({ cookies }: FastifyRequest): Promise<Viewer | undefined> {
    const token = cookies[this.#name('session')];
    if (token === undefined) return undefined;
    try {
      const asker = await this.#options.tokens.askerOf(`Bearer ${token}`);
      const csrf = createHash('sha256').update(`form ${token}`).digest('base64url');
      const { development } = this.#options.config;
      return { ...asker, csrf, signOut: '/sign-out', ...(development === true ? { development } : {}) };
    } catch (error) {
      if (error instanceof CountersignError && error.code === 'SIGN_IN_REQUIRED') return undefined;
      throw error;
    }
  }

  async register(app: FastifyInstance): Promise<void> {
    await app.register(cookie);
    const { config } = this.#options;
    app.get('/sign-in', async (request: FastifyRequest<{ Querystring: { to?: string } }>, reply) => {
      const to = pathIn(request.query.to);
      if (config.oidc !== undefined && config.page !== undefined) return await this.#leave(to, reply);
      return this.#form(reply, to);
    });
    app.get('/sign-in/back', async (request, reply) => await this.#comeBack(request, reply));
    app.post('/sign-in', async ({ body }, reply) => {
      const form = body instanceof URLSearchParams ? body : new URLSearchParams();
      const groups = (form.get('groups') ?? '').split(/[\s,]+/).filter((group) => group !== '');
      const person = { id: form.get('id') ?? '', groups, tenant: form.get('tenant') ?? 'default' };
      const to = pathIn(form.get('to') ?? undefined);
      const wrong = [person.id, person.tenant, ...groups].find((name) => !Identifier.safeParse(name).success);
      if (wrong !== undefined)
        return this.#form(
          reply.code(422),
          to,
          `"${wrong}" is no id: 1 to 200 printable ASCII characters without spaces.`,
        );
      const { token, expiresAt } = await this.#options.tokens.signInAs(person);
      this.#keep(reply, token, Date.parse(expiresAt));
      return await reply.redirect(to, 303);
    });
    app.post('/sign-out', async (_request, reply) => {
      void reply.clearCookie(this.#name('session'), this.#flags()).type('text/html; charset=utf-8');
      return await reply.send(
        signedOutText('This browser has no session here any more; the provider may still have one.'),
      );
    });
  }

  #name(name: string): string {
    return `${this.#isSecure ? '__Host-' : ''}countersign-${name}`;
  }

  #flags() {
    return { path: '/', httpOnly: true, sameSite: 'lax', secure: this.#isSecure } as const;
  }

  #keep(reply: FastifyReply, token: string, until: number): void {
    if (token.length > MOST_COOKIE_BYTES)
      throw new CountersignError(
        'SIGN_IN_REQUIRED',
        `The provider's access token has ${token.length} bytes, and browsers keep ${MOST_COOKIE_BYTES} of a cookie. Let the provider put fewer groups into it.`,
      );
    const maxAge = Math.max(1, Math.floor((until - Date.now()) / 1_000));
    void reply.setCookie(this.#name('session'), token, { ...this.#flags(), maxAge });
  }

  #form(reply: FastifyReply, to: string, wrong?: string): FastifyReply {
    void reply.type('text/html; charset=utf-8').header('cache-control', 'no-store');
    if (this.#options.config.development !== true)
      return reply.code(404).send(
        pageText({
          title: 'Sign in',
          main: trouble(
            'The pages are not set up',
            'This gateway believes tokens, and does not know how people get one: state gateway.page in its configuration.',
          ),
        }),
      );
    const main = markup`<section class="card sign-in"><h1>Sign in</h1><p class="banner warning">For development: you are who you say you are. This gateway answers on this machine alone.</p>${wrong !== undefined && markup`<p class="banner error" role="alert">${foreign(wrong)}</p>`}<form method="post" action="/sign-in"><input type="hidden" name="to" value="${to}"><label>Your id<input name="id" required autofocus autocomplete="username"></label><label>Groups <span class="note">separated by commas</span><input name="groups"></label><label>Tenant<input name="tenant" value="default" required></label><button class="button approve">Sign in</button></form></section>`;
    return reply.send(pageText({ title: 'Sign in', main }));
  }

  // The authorization code flow.

  #parts() {
    const { config, ask } = this.#options;
    const { oidc, page } = config;
    if (oidc === undefined || page === undefined)
      throw new CountersignError('ROUTE_UNKNOWN', 'This gateway has no sign-in at a provider (gateway.page).');
    const options = {
      // Sound: the library asks with a URL and an init, as this takes them.
      [oauth.customFetch]: async (url: string, init?: oauth.CustomFetchOptions<string, unknown>) =>
        await ask(url, init as RequestInit),
      // The guarded way out decides which addresses may be asked without TLS: those of a test or of this machine.
      [oauth.allowInsecureRequests]: true,
    };
    const { clientSecret } = page;
    return {
      oidc,
      page,
      options,
      client: { client_id: page.clientId },
      authentication: clientSecret === undefined ? oauth.None() : oauth.ClientSecretBasic(clientSecret),
      back: new URL('/sign-in/back', page.url).href,
    };
  }

  async #provider(): Promise<oauth.AuthorizationServer> {
    const { oidc, options } = this.#parts();
    const issuer = new URL(oidc.issuer);
    this.#server ??= oauth
      .discoveryRequest(issuer, options)
      .then(async (answer) => await oauth.processDiscoveryResponse(issuer, answer));
    try {
      return await this.#server;
    } catch (error) {
      this.#server = undefined;
      throw new CountersignError(
        'TRUST_UNAVAILABLE',
        'The identity provider does not answer. Try again later.',
        {},
        { cause: error },
      );
    }
  }

  async #leave(to: string, reply: FastifyReply): Promise<FastifyReply> {
    const { oidc, page, client, back } = this.#parts();
    const { authorization_endpoint: endpoint } = await this.#provider();
    if (endpoint === undefined)
      throw new CountersignError('CONFIG_INVALID', 'The identity provider names no authorization endpoint.', {
        path: 'gateway.oidc.issuer',
      });
    const verifier = oauth.generateRandomCodeVerifier();
    const state = oauth.generateRandomState();
    const url = new URL(endpoint);
    for (const [name, value] of Object.entries({
      client_id: client.client_id,
      redirect_uri: back,
      response_type: 'code',
      scope: page.scopes.join(' '),
      resource: oidc.audience,
      code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
      state,
    }))
      url.searchParams.set(name, value);
    const kept = Buffer.from(JSON.stringify([state, verifier, to])).toString('base64url');
    void reply.setCookie(this.#name('sign-in'), kept, { ...this.#flags(), maxAge: SIGN_IN_SECONDS });
    return reply.redirect(url.href, 303);
  }

  async #comeBack(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { client, back, page, oidc, options, authentication } = this.#parts();
    const [state, verifier, to] = keptIn(request.cookies[this.#name('sign-in')]);
    void reply.clearCookie(this.#name('sign-in'), this.#flags());
    const server = await this.#provider();
    try {
      const answer = oauth.validateAuthResponse(server, client, new URL(request.url, page.url), state);
      const granted = await oauth.authorizationCodeGrantRequest(
        server,
        client,
        authentication,
        answer,
        back,
        verifier,
        {
          ...options,
          additionalParameters: { resource: oidc.audience },
        },
      );
      const { access_token: token } = await oauth.processAuthorizationCodeResponse(server, client, granted);
      const { until } = await this.#options.tokens.askerOf(`Bearer ${token}`);
      this.#keep(reply, token, until);
    } catch (error) {
      const reason =
        error instanceof CountersignError ? error.message : 'The provider refused, or the sign-in took too long.';
      const main = markup`${trouble('You are not signed in', reason)}<p><a class="button" href="/sign-in?to=${encodeURIComponent(to)}">Try again</a></p>`;
      return reply
        .code(401)
        .type('text/html; charset=utf-8')
        .send(pageText({ title: 'Not signed in', main }));
    }
    return reply.redirect(to, 303);
  }
}

function keptIn(value: string | undefined): readonly [state: string, verifier: string, to: string] {
  try {
    const parts = JSON.parse(Buffer.from(value ?? '', 'base64url').toString()) as readonly unknown[];
    const [state, verifier, to] = parts.map(String);
    if (state !== undefined && verifier !== undefined) return [state, verifier, pathIn(to)];
  } catch {
    // As without a cookie: nothing the provider says fits.
  }
  return ['', '', '/'];
}

/** A path of this gateway; anything else leads to the inbox. */
function pathIn(to: string | undefined): string {
  return to !== undefined && /^\/(?![/\\])[\x21-\x7e]*$/.test(to) ? to : '/';
}
