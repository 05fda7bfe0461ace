/** Types the part of oidc-provider that tests use; the package has no types of its own. */
declare module 'oidc-provider' {
  import type { IncomingMessage, ServerResponse } from 'node:http';

  export interface ResourceServerInfo {
    scope: string;
    audience?: string;
    accessTokenFormat: 'jwt' | 'opaque';
    /** Lifetime in seconds. */
    accessTokenTTL: number;
  }

  export interface ProviderConfiguration {
    clients: readonly Record<string, unknown>[];
    scopes: readonly string[];
    clientAuthMethods?: readonly string[];
    rotateRefreshToken?: boolean;
    features: Record<string, unknown>;
    extraTokenClaims?: (context: KoaContext, token: { accountId?: string }) => Record<string, unknown> | undefined;
    findAccount?: (context: unknown, id: string) => { accountId: string; claims: () => object };
    jwks?: { keys: readonly object[] };
    cookies?: { keys: readonly string[] };
    claims?: Readonly<Record<string, readonly string[]>>;
    conformIdTokenClaims?: boolean;
    findAccount?: (
      context: unknown,
      id: string,
    ) => { accountId: string; claims: () => Readonly<Record<string, unknown>> };
  }

  export interface OidcClient {
    clientId: string;
  }

  /** Context of one request to the token endpoint. */
  export interface KoaContext {
    readonly oidc: { readonly client: OidcClient; readonly params: Readonly<Record<string, string | undefined>> };
    body: unknown;
    /** A header of the request, or ''. */
    get(name: string): string;
  }

  export interface IssuedAccessToken {
    resourceServer: unknown;
    readonly tokenType: string;
    readonly expiration: number;
    readonly scope?: string;
    setThumbprint(kind: 'jkt', thumbprint: string): void;
    save(): Promise<string>;
  }

  export class Provider {
    constructor(issuer: string, configuration: ProviderConfiguration);
    readonly issuer: string;
    readonly Client: { find(id: string): Promise<object> };
    readonly Grant: new (properties: object) => {
      addResourceScope(resource: string, scope: string): void;
      save(): Promise<string>;
    };
    readonly RefreshToken: new (properties: object) => { save(): Promise<string> };
    readonly AccessToken: new (fields: Readonly<Record<string, unknown>>) => IssuedAccessToken;
    readonly ResourceServer: new (identifier: string, info: ResourceServerInfo) => unknown;
    registerGrantType(
      name: string,
      handler: (context: KoaContext) => Promise<void>,
      parameters: readonly string[],
    ): void;
    callback(): (request: IncomingMessage, response: ServerResponse) => void;
  }

  export const errors: {
    InvalidTarget: new () => Error;
    InvalidGrant: new (detail: string) => Error;
    InvalidScope: new (detail: string, scope: string) => Error;
  };
}
