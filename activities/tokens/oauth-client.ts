/**
 * This worker as a client of one configured authorization server asks its token endpoint, and ends tokens there.
 *
 * 1. Secrets go to endpoints of the configured issuer's own metadata and nowhere else, over TLS: the library refuses
 *    others, and so does the outlet (`activities/egress/fetch.ts`).
 */
import { randomUUID } from 'node:crypto';
import { SignJWT } from 'jose';
import {
  allowInsecureRequests,
  type AuthorizationServer,
  type ClientAuth,
  ClientSecretPost,
  customFetch,
  discoveryRequest,
  genericTokenEndpointRequest,
  processDiscoveryResponse,
  processGenericTokenEndpointResponse,
  isDPoPNonceError,
  processRevocationResponse,
  ResponseBodyError,
  revocationRequest,
  type TokenEndpointResponse,
  WWWAuthenticateChallengeError,
} from 'oauth4webapi';
import type { OAuthClient, SenderConstrained } from '../../contracts/schemas/credentials.ts';
import type { GuardedFetch } from '../egress/fetch.ts';
import { type Exchange, oauthFailure } from './exchange.ts';
import { tokenError, type TokenRequest } from './port.ts';
import { type ProofKey, type ServerWords, wantsNonceOfIssuer } from './proof-key.ts';
import type { SigningKeys } from './sealed.ts';

export interface TokenSource {
  readonly signingKeys: SigningKeys;
  readonly words: ServerWords;
  readonly send: GuardedFetch;
  /** Limit for discovery and token request together. */
  readonly timeoutMs: number;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly warn: (message: string, facts: Readonly<Record<string, string>>) => void;
}

const KEPT_MS = 300_000;
/** Of an assertion. */
const LIFETIME_SECONDS = 60;

/** RFC 7009 §2.1. */
export type TokenHint = 'access_token' | 'refresh_token';

export interface TokenAsk {
  readonly request: TokenRequest;
  readonly grantType: string;
  readonly parameters: Readonly<Record<string, string>>;
  readonly exchange: Exchange;
  /** Absent for a token that no tool server is shown. */
  readonly senderConstrained?: SenderConstrained;
}

export interface TokenAnswer {
  readonly answer: TokenEndpointResponse;
  readonly secrets: readonly string[];
  /** Key for which the token was requested; the answer says whether it is bound to it. */
  readonly key?: ProofKey | undefined;
}

export class ConfiguredClient {
  readonly #client: OAuthClient;
  readonly #source: TokenSource;
  /** True once the server knows this client by a secret in the body, and not by HTTP Basic. */
  #posts = false;
  #kept: { readonly metadata: AuthorizationServer; readonly until: number } | undefined;

  constructor(client: OAuthClient, source: TokenSource) {
    this.#client = client;
    this.#source = source;
  }

  get issuer(): string {
    return this.#client.issuer;
  }

  /** Reads the metadata of the issuer, for a request that must not fail for want of them. */
  async prepare(server: string, exchange: Exchange): Promise<void> {
    await this.#toldIfFailed({ server, exchange }, async () => await this.#metadata(exchange));
  }

  /** Sends the request once more if the endpoint refused it for want of its nonce (RFC 9449 §8). */
  async token(ask: TokenAsk): Promise<TokenAnswer> {
    const { exchange, request, grantType, senderConstrained: mode } = ask;
    const { words } = this.#source;
    const shown: string[] = [];
    return await this.#toldIfFailed({ server: request.server, exchange, grantType }, async () => {
      const { dpop_signing_alg_values_supported: algorithms } = await this.#metadata(exchange);
      const key = mode && (await words.keyFor(mode, request, algorithms));
      const answer = await this.#asClient(ask, key, shown).catch(async (error: unknown) => {
        if (key === undefined || !wantsNonceOfIssuer(error)) throw error;
        return await this.#asClient(ask, key, shown);
      });
      return { answer, secrets: [...shown, ...(key?.secrets() ?? [])], key };
    });
  }

  async #toldIfFailed<Value>(
    asked: Omit<Parameters<typeof oauthFailure>[1], 'issuer'>,
    use: () => Promise<Value>,
  ): Promise<Value> {
    try {
      return await use();
    } catch (error) {
      // The failure may come from stale metadata.
      this.forget();
      throw oauthFailure(error, { ...asked, issuer: this.issuer });
    }
  }

  /**
   * A server may state several ways in which it takes a secret, and take one of them from this client. One that does
   * not know the client has acted on nothing: the request is sent once more in the other way.
   */
  async #asClient(ask: TokenAsk, key: ProofKey | undefined, shown: string[]): Promise<TokenEndpointResponse> {
    const posts = this.#posts;
    try {
      return await this.#asked(ask, key, shown, posts);
    } catch (error) {
      if (this.#client.clientSecret === undefined || !isClientRefusal(error)) throw error;
      const metadata = await this.#metadata(ask.exchange);
      if (!takesBoth(metadata.token_endpoint_auth_methods_supported)) throw error;
    }
    const answer = await this.#asked(ask, key, shown, !posts);
    this.#posts = !posts;
    const facts = { server: ask.request.server, way: posts ? 'client_secret_basic' : 'client_secret_post' };
    this.#source.warn('an authorization server takes the secret of its client in one way alone', facts);
    return answer;
  }

  /** @param shown gets all that is sent as a secret, each time anew: a client's assertion is used once */
  async #asked(
    { request: { server }, grantType, parameters, exchange }: TokenAsk,
    key: ProofKey | undefined,
    shown: string[],
    posts: boolean,
  ): Promise<TokenEndpointResponse> {
    const { issuer, clientId } = this.#client;
    const { metadata, auth, secrets } = await this.#authenticated(server, exchange, posts);
    shown.push(...secrets);
    const client = { client_id: clientId };
    const form = new URLSearchParams(parameters);
    const options = { ...optionsFor(new URL(issuer), proving(exchange, key)), ...(key && { DPoP: key.handle }) };
    const response = await genericTokenEndpointRequest(metadata, client, auth, grantType, form, options);
    // An ID-JAG has the type N_A (RFC 8693 §2.2.1); a caller that wants an access token checks the type itself.
    const recognizedTokenTypes = { n_a: () => undefined };
    return await processGenericTokenEndpointResponse(metadata, client, response, { recognizedTokenTypes });
  }

  /** Ends a token at its issuer (RFC 7009), if that offers a way. The error of a failure is not for showing. */
  async revoke(token: string, hint: TokenHint, server: string, exchange: Exchange): Promise<void> {
    const { issuer, clientId } = this.#client;
    const { revocation_endpoint: endpoint } = await this.#metadata(exchange);
    if (endpoint === undefined) return;
    const { metadata, auth } = await this.#authenticated(server, exchange, this.#posts);
    const additionalParameters = { token_type_hint: hint };
    const options = { ...optionsFor(new URL(issuer), exchange), additionalParameters };
    await processRevocationResponse(await revocationRequest(metadata, { client_id: clientId }, auth, token, options));
  }

  /**
   * Signs who this client is (RFC 7523 §3, RFC 8693 §1.1); undefined if it has no key.
   * @param audience the issuer alone: an assertion that is good at two places can be carried from one to the other
   */
  /** Returns a signed statement of who this client is, for the issuer; undefined if the client has no key. */
  async assertion(audience = this.issuer): Promise<string | undefined> {
    const { clientId, clientKey } = this.#client;
    if (clientKey === undefined) return undefined;
    const seconds = Math.floor(this.#source.now() / 1_000);
    const { kid, alg } = clientKey;
    return await new SignJWT()
      .setProtectedHeader({ alg, kid, typ: 'JWT' })
      .setIssuer(clientId)
      .setSubject(clientId)
      .setAudience(audience)
      .setJti(randomUUID())
      .setIssuedAt(seconds)
      .setExpirationTime(seconds + LIFETIME_SECONDS)
      .sign(this.#source.signingKeys(clientKey));
  }

  /** After a refused token the metadata may be stale. */
  forget(): void {
    this.#kept = undefined;
  }

  /** RFC 8414, then OpenID Connect discovery. */
  async #metadata(exchange: Exchange): Promise<AuthorizationServer> {
    const { now } = this.#source;
    if (this.#kept === undefined || now() >= this.#kept.until)
      this.#kept = { metadata: await discover(new URL(this.issuer), exchange), until: now() + KEPT_MS };
    return this.#kept.metadata;
  }

  /** Makes the proof that this worker is the client, and lists it as secrets, in every form in which it travels. */
  async #authenticated(server: string, exchange: Exchange, posts: boolean) {
    const { clientId, clientSecret } = this.#client;
    const metadata = await this.#metadata(exchange);
    if (clientSecret !== undefined) {
      const auth = authenticationFor(metadata, clientSecret, server, posts);
      return { metadata, auth, secrets: secretsOfClient(clientId, clientSecret) };
    }
    const methods = metadata.token_endpoint_auth_methods_supported ?? ['private_key_jwt'];
    if (!methods.includes('private_key_jwt')) {
      const message = `No token for ${server}: its authorization server takes no signature of a client (private_key_jwt).`;
      throw tokenError('TOKEN_REFUSED', message, { server });
    }
    const assertion = await this.assertion(metadata.issuer);
    // Sound: the schema requires a secret or a key.
    if (assertion === undefined) throw new Error('a client without secret and key');
    const auth: ClientAuth = (_server, _client, body) => {
      body.set('client_id', clientId);
      body.set('client_assertion_type', ASSERTION_TYPE);
      body.set('client_assertion', assertion);
    };
    return { metadata, auth, secrets: [assertion] };
  }
}

const ASSERTION_TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer';

/** RFC 8414 §2: a server that states nothing supports `client_secret_basic`. */
function authenticationFor(
  metadata: AuthorizationServer,
  clientSecret: string,
  server: string,
  posts: boolean,
): ClientAuth {
  const methods = metadata.token_endpoint_auth_methods_supported ?? ['client_secret_basic'];
  if (posts && takesBoth(methods)) return ClientSecretPost(clientSecret);
  if (methods.includes('client_secret_basic')) return clientSecretBasic(clientSecret);
  if (methods.includes('client_secret_post')) return ClientSecretPost(clientSecret);
  const message = `No token for ${server}: its authorization server takes no client secret (client_secret_basic or client_secret_post).`;
  throw tokenError('TOKEN_REFUSED', message, { server });
}

function takesBoth(methods: unknown): boolean {
  return (
    Array.isArray(methods) && ['client_secret_basic', 'client_secret_post'].every((each) => methods.includes(each))
  );
}

/** True if the server does not take the client for the one it names (RFC 6749 §5.2), and not if it wants a nonce. */
function isClientRefusal(error: unknown): boolean {
  if (isDPoPNonceError(error)) return false;
  if (error instanceof WWWAuthenticateChallengeError) return error.status === 401;
  return error instanceof ResponseBodyError && error.error === 'invalid_client';
}

/** Returns the secret, and what a scrubber of it may not know: it in HTTP Basic, and as stricter writers encode it. */
function secretsOfClient(clientId: string, clientSecret: string): readonly string[] {
  return [clientSecret, basicCredentials(clientId, clientSecret), strictFormEncode(clientSecret)];
}

function strictFormEncode(text: string): string {
  return encodeURIComponent(text)
    .replaceAll(/[-_.!~*'()]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)
    .replaceAll('%20', '+');
}

/**
 * Form-encoded before base64 (RFC 6749 §2.3.1). oauth4webapi writes everything but letters and digits as %XX; the form
 * encoding proper leaves `-`, `.`, `_` and `*`, so that servers that do not decode recognise most ids, too.
 */
function clientSecretBasic(clientSecret: string): ClientAuth {
  return (_, client, __, headers) => {
    headers.set('authorization', `Basic ${basicCredentials(client.client_id, clientSecret)}`);
  };
}

export function basicCredentials(clientId: string, clientSecret: string): string {
  return Buffer.from(`${formEncoded(clientId)}:${formEncoded(clientSecret)}`).toString('base64');
}

function formEncoded(text: string): string {
  return new URLSearchParams([['', text]]).toString().slice(1);
}

/** The proofs are secrets of this call. */
function proving(exchange: Exchange, key: ProofKey | undefined): Exchange {
  if (key === undefined) return exchange;
  return {
    ...exchange,
    fetch: async (url, request) => {
      key.note(request.headers);
      return await exchange.fetch(url, request);
    },
  };
}

/** The check of the configuration decided whether this issuer may use plain HTTP. */
function optionsFor(issuer: URL, exchange: Exchange) {
  return { [customFetch]: exchange.fetch, [allowInsecureRequests]: issuer.protocol === 'http:' };
}

async function discover(issuer: URL, exchange: Exchange): Promise<AuthorizationServer> {
  const options = optionsFor(issuer, exchange);
  const oauth = await discoveryRequest(issuer, { ...options, algorithm: 'oauth2' });
  const isElsewhere = oauth.status >= 400 && oauth.status < 500 && oauth.status !== 429 && oauth.status !== 408;
  if (!isElsewhere) return processDiscoveryResponse(issuer, oauth);
  return processDiscoveryResponse(issuer, await discoveryRequest(issuer, { ...options, algorithm: 'oidc' }));
}
