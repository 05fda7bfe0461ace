/**
 * Starts an authorization server that no one here wrote (oidc-provider), and records what it saw. It replaces
 * a refresh token with each use, and revokes the whole grant when it sees one a second time (RFC 9700 §4.14.2).
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { exportJWK, generateKeyPair } from 'jose';
import { bodyOf, listenOnLoopback } from '../servers/loopback-server.ts';
import { dPoPOf, type ProviderOptions } from './provider.ts';

export interface RefreshProvider {
  readonly issuer: string;
  /** Refresh tokens in the order of their use, with scope and resource. */
  readonly used: readonly { readonly token: string; readonly scope: string | null; readonly resource: string | null }[];
  /** Makes a refresh token of a user who has consented to these scopes. */
  grant(account: string, scope: string, resource: string): Promise<string>;
  /**
   * Handles the next request specially: the server acts on it, and its answer is lost, or comes only after `release`.
   */
  next(what: 'lose' | 'hold'): { readonly arrived: Promise<void>; release(): void };
  close(): Promise<void>;
}

export interface RefreshProviderOptions {
  readonly client: { readonly id: string; readonly secret: string };
  /** Resource URI → its scopes, separated by spaces. */
  readonly resources: Readonly<Record<string, string>>;
  /** Default: the token is replaced with each use. */
  readonly rotate?: boolean;
  /** As of `startProvider`. */
  readonly proofs?: ProviderOptions['proofs'];
}

export async function startRefreshProvider(options: RefreshProviderOptions): Promise<RefreshProvider> {
  const { client, resources, rotate = true } = options;
  const used: { token: string; scope: string | null; resource: string | null }[] = [];
  let upcoming: { what: 'lose' | 'hold'; arrive: () => void; released: Promise<void> } | undefined;
  let answer = (_request: IncomingMessage, response: ServerResponse): void => void response.writeHead(503).end();
  const server = await listenOnLoopback((request, response) => {
    if (request.method === 'POST') {
      record(request);
      const held = upcoming;
      upcoming = undefined;
      if (held !== undefined) intercept(request, response, held);
    }
    answer(request, response);
  });
  const issuer = server.origin;
  const { Provider, errors } = await import('oidc-provider');
  const { privateKey } = await generateKeyPair('RS256', { extractable: true });
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: client.id,
        client_secret: client.secret,
        grant_types: ['refresh_token', 'authorization_code'],
        redirect_uris: ['https://client.example.com/callback'],
        response_types: ['code'],
      },
    ],
    // Without offline access the server gives nobody a refresh token.
    scopes: ['openid', 'offline_access', ...new Set(Object.values(resources).flatMap((scope) => scope.split(' ')))],
    rotateRefreshToken: rotate,
    cookies: { keys: ['test'] },
    jwks: { keys: [{ ...(await exportJWK(privateKey)), alg: 'RS256', use: 'sig' }] },
    features: {
      devInteractions: { enabled: false },
      dPoP: dPoPOf(options.proofs),
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_context: unknown, resource: string) => {
          const scope = Object.hasOwn(resources, resource) ? resources[resource] : undefined;
          if (scope === undefined) throw new errors.InvalidTarget();
          return { scope, accessTokenFormat: 'jwt', accessTokenTTL: 120 };
        },
      },
    },
  });
  answer = provider.callback();
  return {
    issuer,
    used,
    grant: async (account, scope, resource) => {
      const grant = new provider.Grant({ accountId: account, clientId: client.id });
      grant.addResourceScope(resource, scope);
      const grantId = await grant.save();
      const found = await provider.Client.find(client.id);
      const token = new provider.RefreshToken({
        accountId: account,
        client: found,
        grantId,
        gty: 'authorization_code',
        scope,
        resource: Object.keys(resources),
      });
      return await token.save();
    },
    next: (what) => {
      let release = (): void => undefined;
      let arrive = (): void => undefined;
      const released = new Promise<void>((resolve) => (release = resolve));
      const arrived = new Promise<void>((resolve) => (arrive = resolve));
      upcoming = { what, arrive, released };
      return { arrived, release };
    },
    close: server.close,
  };

  function record(request: IncomingMessage): void {
    void bodyOf(request).then((body) => {
      const form = new URLSearchParams(body);
      const token = form.get('refresh_token');
      if (token !== null) used.push({ token, scope: form.get('scope'), resource: form.get('resource') });
    });
  }
}

/** The server has done what it was asked by the time it answers. */
function intercept(
  request: IncomingMessage,
  response: ServerResponse,
  { what, arrive, released }: { what: 'lose' | 'hold'; arrive: () => void; released: Promise<void> },
): void {
  const end = response.end.bind(response);
  // Sound: the provider answers with one text.
  response.end = ((body: string) => {
    arrive();
    if (what === 'lose') request.socket.destroy();
    else void released.then(() => end(body));
    return response;
  }) as typeof response.end;
}
