/** The part of oidc-provider that tests use; the package has no types of its own. */
declare module 'oidc-provider' {
  import type { IncomingMessage, ServerResponse } from 'node:http';

  export interface ResourceServerInfo {
    scope: string;
    audience?: string;
    accessTokenFormat: 'jwt' | 'opaque';
    /** Seconds. */
    accessTokenTTL: number;
  }

  export interface ProviderConfiguration {
    clients: readonly Record<string, unknown>[];
    scopes: readonly string[];
    clientAuthMethods?: readonly string[];
    rotateRefreshToken?: boolean;
    features: Record<string, unknown>;
    jwks?: { keys: readonly object[] };
    cookies?: { keys: readonly string[] };
  }

  export class Provider {
    constructor(issuer: string, configuration: ProviderConfiguration);
    readonly Client: { find(id: string): Promise<object> };
    readonly Grant: new (properties: object) => {
      addResourceScope(resource: string, scope: string): void;
      save(): Promise<string>;
    };
    readonly RefreshToken: new (properties: object) => { save(): Promise<string> };
    callback(): (request: IncomingMessage, response: ServerResponse) => void;
  }

  export const errors: { InvalidTarget: new () => Error };
}
