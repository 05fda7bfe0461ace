/**
 * Proves to an authorization server that this worker is the client, by a secret or by a signature.
 *
 * 1. Everything sent for that proof is reported as a secret, in every form in which it travels.
 */
import { type AuthorizationServer, type ClientAuth, ClientSecretPost } from 'oauth4webapi';
import type { OAuthClient } from '../../contracts/schemas/credentials.ts';
import { signAssertion } from './assertion.ts';
import { tokenError } from './port.ts';
import type { SigningKeys } from './private-keys.ts';

export interface Authentication {
  readonly auth: ClientAuth;
  readonly secrets: readonly string[];
}

const ASSERTION_TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer';

export interface Authenticating {
  readonly metadata: AuthorizationServer;
  readonly keys: SigningKeys;
  /** The tool server, for errors. */
  readonly server: string;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

export async function authenticate(client: OAuthClient, context: Authenticating): Promise<Authentication> {
  const { clientId, clientSecret, clientKey } = client;
  const { metadata, keys, server, now } = context;
  if (clientSecret !== undefined)
    return {
      auth: authenticationFor(metadata, clientSecret, server),
      secrets: secretsOfClient(clientId, clientSecret),
    };
  // Sound: the schema requires one of the two.
  if (clientKey === undefined) throw new Error('a client without secret and key');
  const methods = metadata.token_endpoint_auth_methods_supported ?? ['private_key_jwt'];
  if (!methods.includes('private_key_jwt')) {
    const message = `No token for ${server}: its authorization server takes no signature of a client (private_key_jwt).`;
    throw tokenError('TOKEN_REFUSED', message, { server });
  }
  const assertion = await signAssertion(clientKey, keys(clientKey), clientId, metadata.issuer, now);
  return {
    auth: (_server, _client, body) => {
      body.set('client_id', clientId);
      body.set('client_assertion_type', ASSERTION_TYPE);
      body.set('client_assertion', assertion);
    },
    secrets: [assertion],
  };
}

/** RFC 8414 §2: a server that states nothing supports `client_secret_basic`. */
function authenticationFor(metadata: AuthorizationServer, clientSecret: string, server: string): ClientAuth {
  const methods = metadata.token_endpoint_auth_methods_supported ?? ['client_secret_basic'];
  if (methods.includes('client_secret_basic')) return clientSecretBasic(clientSecret);
  if (methods.includes('client_secret_post')) return ClientSecretPost(clientSecret);
  const message = `No token for ${server}: its authorization server takes no client secret (client_secret_basic or client_secret_post).`;
  throw tokenError('TOKEN_REFUSED', message, { server });
}

/**
 * Returns the secret and the travelling forms that a scrubber of the plain secret would not know. Those are its form
 * encoding, and base64 of that together with the client id (RFC 6749 §2.3.1): as we send it, as stricter writers encode
 * it, and as servers read it.
 */
export function secretsOfClient(clientId: string, clientSecret: string): readonly string[] {
  const [id, secret] = [strictFormEncode(clientId), strictFormEncode(clientSecret)];
  const basic = [`${id}:${secret}`, `${clientId}:${clientSecret}`].map((pair) => Buffer.from(pair).toString('base64'));
  const sent = new URLSearchParams([['', clientSecret]]).toString().slice(1);
  return [...new Set([clientSecret, secret, sent, ...basic, basicCredentials(clientId, clientSecret)])];
}

/** Encodes everything but letters and digits as %XX, and a space as plus. */
function strictFormEncode(text: string): string {
  return encodeURIComponent(text)
    .replaceAll(/[-_.!~*'()]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)
    .replaceAll('%20', '+');
}

/**
 * `client_secret_basic` is written in the one form that every authorization server reads.
 *
 * Id and secret are form-encoded before base64 (RFC 6749 §2.3.1 and appendix B). oauth4webapi writes everything but
 * letters and digits as %XX, which only servers that decode can read. The form encoding proper leaves `-`, `.`, `_` and
 * `*` as they are (URL standard, application/x-www-form-urlencoded). Servers that decode get the same text; servers
 * that do not decode still recognise the ids and secrets that most clients have.
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
