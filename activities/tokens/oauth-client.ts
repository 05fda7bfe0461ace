/**
 * This worker as a client of one configured authorization server asks its token endpoint, and ends tokens there.
 *
 * 1. Secrets go to endpoints of the configured issuer's own metadata and nowhere else, over TLS.
 * 2. The `CountersignError`s thrown here hold nothing of what was sent or answered.
 */
import {
  type AuthorizationServer,
  type TokenEndpointResponse,
  allowInsecureRequests,
  customFetch,
  genericTokenEndpointRequest,
  processGenericTokenEndpointResponse,
  processRevocationResponse,
  revocationRequest,
} from 'oauth4webapi';
import type { OAuthClient } from '../../contracts/schemas/credentials.ts';
import type { GuardedFetch } from '../egress/fetch.ts';
import { isSecureTransport } from '../egress/secure-transport.ts';
import { signAssertion } from './assertion.ts';
import type { AuthorizationServers } from './authorization-server.ts';
import { type Authentication, authenticate } from './client-authentication.ts';
import type { Exchange } from './exchange.ts';
import { oauthFailure } from './oauth-failure.ts';
import type { SigningKeys } from './private-keys.ts';
import { tokenError } from './port.ts';

export interface TokenSource {
  readonly servers: AuthorizationServers;
  readonly signingKeys: SigningKeys;
  /** Fetches from the issuers of these credentials, as far as egress rules allow. */
  readonly send: GuardedFetch;
  /** Limit for discovery and token request together. */
  readonly timeoutMs: number;
  readonly allowInsecure: boolean;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** Logs what went wrong without changing the outcome. */
  readonly warn: (message: string, facts: Readonly<Record<string, string>>) => void;
}

/** RFC 7009 §2.1. */
export type TokenHint = 'access_token' | 'refresh_token';

export interface TokenAsk {
  /** The tool server, for errors. */
  readonly server: string;
  readonly grantType: string;
  readonly parameters: Readonly<Record<string, string>>;
  readonly exchange: Exchange;
}

export interface TokenAnswer {
  readonly answer: TokenEndpointResponse;
  /** The secrets with which the token is asked for. */
  readonly secrets: readonly string[];
}

export class ConfiguredClient {
  readonly #client: OAuthClient;
  readonly #source: TokenSource;

  constructor(client: OAuthClient, source: TokenSource) {
    this.#client = client;
    this.#source = source;
  }

  get issuer(): string {
    return this.#client.issuer;
  }

  async token({ server, grantType, parameters, exchange }: TokenAsk): Promise<TokenAnswer> {
    const { issuer, clientId } = this.#client;
    try {
      const { metadata, auth, secrets } = await this.#authenticated(server, 'token_endpoint', exchange);
      const client = { client_id: clientId };
      const form = new URLSearchParams(parameters);
      const options = this.#options(exchange);
      const response = await genericTokenEndpointRequest(metadata, client, auth, grantType, form, options);
      // An ID-JAG has the type N_A (RFC 8693 §2.2.1); a caller that wants a bearer token checks the type itself.
      const recognizedTokenTypes = { n_a: () => undefined };
      const answer = await processGenericTokenEndpointResponse(metadata, client, response, { recognizedTokenTypes });
      return { answer, secrets };
    } catch (error) {
      // The failure may come from stale metadata.
      this.forget();
      throw oauthFailure(error, { server, issuer, exchange });
    }
  }

  /** Ends a token at its issuer (RFC 7009). Returns false if the issuer offers no way. */
  async revoke(token: string, hint: TokenHint, server: string, exchange: Exchange): Promise<boolean> {
    const { issuer, clientId } = this.#client;
    try {
      const { revocation_endpoint: endpoint } = await this.#source.servers.metadataOf(issuer, exchange);
      if (endpoint === undefined) return false;
      const { metadata, auth } = await this.#authenticated(server, 'revocation_endpoint', exchange);
      const additionalParameters = { token_type_hint: hint };
      const options = { ...this.#options(exchange), additionalParameters };
      await processRevocationResponse(await revocationRequest(metadata, { client_id: clientId }, auth, token, options));
      return true;
    } catch (error) {
      throw oauthFailure(error, { server, issuer, exchange });
    }
  }

  /** Returns a signed statement of who this client is, for the issuer; undefined if the client has no key. */
  async assertion(): Promise<string | undefined> {
    const { issuer, clientId, clientKey } = this.#client;
    if (clientKey === undefined) return undefined;
    const { signingKeys, now } = this.#source;
    return await signAssertion(clientKey, signingKeys(clientKey), clientId, issuer, now());
  }

  /** Drops the metadata, so that the next request reads it anew. */
  forget(): void {
    this.#source.servers.forget(this.issuer);
  }

  async #authenticated(
    server: string,
    endpoint: 'token_endpoint' | 'revocation_endpoint',
    exchange: Exchange,
  ): Promise<Authentication & { readonly metadata: AuthorizationServer }> {
    const { servers, signingKeys, now } = this.#source;
    const metadata = await servers.metadataOf(this.issuer, exchange);
    this.#checkEndpoint(metadata[endpoint], server, endpoint.replace('_', ' '));
    return { ...(await authenticate(this.#client, { metadata, keys: signingKeys, server, now: now() })), metadata };
  }

  #checkEndpoint(endpoint: string | undefined, server: string, what: string): void {
    const { issuer } = this;
    // The egress rules decide where the endpoint may be.
    if (endpoint === undefined || !URL.canParse(endpoint)) return;
    if (isSecureTransport(endpoint, this.#source.allowInsecure)) return;
    const message = `No token for ${server}: its authorization server ${issuer} has a ${what} without TLS. Nothing secret was sent.`;
    throw tokenError('TOKEN_REFUSED', message, { server, issuer });
  }

  #options(exchange: Exchange) {
    return {
      [customFetch]: exchange.fetch,
      [allowInsecureRequests]: new URL(this.issuer).protocol === 'http:',
    };
  }
}
