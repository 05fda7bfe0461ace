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
