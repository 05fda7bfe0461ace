/**
 * Lists the clients that a configuration has at authorization servers, for code that loads, checks or hides
 * their secrets.
 */
import type { Config, Credentials } from '../../contracts/schemas/config.ts';
import type { OAuthClient } from '../../contracts/schemas/credentials.ts';
import { pathText } from '../../contracts/schemas/parse.ts';

export interface PlacedCredentials {
  readonly path: readonly string[];
  /** The name of the server or of the credentials, for warnings. */
  readonly name: string;
  readonly credentials: Credentials;
}

/** Returns the credentials of servers, and those that catalogs may name. */
export function credentialsOf(config: Pick<Config, 'servers' | 'credentials'>): PlacedCredentials[] {
  return [
    ...Object.entries(config.servers).map(([name, { credentials }]) => ({
      path: ['servers', name, 'credentials'],
      name,
      credentials,
    })),
    ...Object.entries(config.credentials).map(([name, { use }]) => ({
      path: ['credentials', name, 'use'],
      name,
      credentials: use,
    })),
  ];
}

export interface PlacedClient {
  readonly path: string;
  readonly client: OAuthClient;
}

export function clientsOf(config: Pick<Config, 'servers' | 'credentials'>): PlacedClient[] {
  return credentialsOf(config).flatMap(({ path, credentials }) => {
    switch (credentials.kind) {
      case 'none':
      case 'given':
      case 'issued':
        return [];
      case 'client-credentials':
      case 'refresh':
      case 'token-exchange':
        return [{ path: pathText(path), client: credentials }];
      case 'enterprise-managed':
        return [
          { path: pathText(path), client: credentials },
          { path: pathText([...path, 'identityProvider']), client: credentials.identityProvider },
        ];
    }
  });
}

/** True if what callers seal for such a server is exchanged, and never sent to it. */
export function isExchanged({ kind }: Credentials): boolean {
  return kind === 'token-exchange' || kind === 'enterprise-managed';
}

/** True if these credentials use a grant of the run. */
export function takeGrant(credentials: Credentials): boolean {
  return credentials.kind === 'given' || credentials.kind === 'refresh' || isExchanged(credentials);
}

// Says which configured header values are secrets, so that they can be scrubbed; `Authorization` itself is
// refused.

const SECRET_NAME = /key|token|secret|auth|cookie|password|credential|signature/i;

export function secretHeaderValues(headers: Readonly<Record<string, string>>): string[] {
  return Object.entries(headers)
    .map(([name, value]) => ({ name, value: asSent(value) }))
    .filter(({ name, value }) => SECRET_NAME.test(name) || looksRandom(value))
    .map(({ value }) => value);
}

/** HTTP has no white space around a value (RFC 9110 §5.5), so a server echoes the value without it. */
function asSent(value: string): string {
  return value.trim();
}

/** A long value without spaces that mixes letters and digits is no prose, under whatever name. */
export function looksRandom(value: string): boolean {
  return /^[\x21-\x7e]{16,}$/.test(value) && /\d/.test(value) && /[A-Za-z]/.test(value) && !URL.canParse(value);
}
