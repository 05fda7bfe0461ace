/** Starts servers that want another authorization, an issuer for one of them, workers that may ask people, and people's answers. */
import { decodeJwt } from 'jose';
import type { RunHandle } from '../../../client/index.ts';
import type { ApprovalRequest, AuthorizationInput } from '../../../contracts/schemas/request.ts';
import type { Grant } from '../../../contracts/schemas/run-spec.ts';
import { startProvider } from '../oauth/provider.ts';
import { type RawServer, startRawServer, succeedWith } from '../servers/raw-server.ts';
import { type ZoneKey, zoneKey } from '../signing/keys.ts';
import { beforehand, during } from '../world/during.ts';
import { answerOf, requestThat, useWorld, type World, type WorldOptions } from '../world/world.ts';

/** Waits until the run asks for an authorization of a call. */
export async function wantedFor(run: RunHandle, callId = 't1.c0', round = 1): Promise<ApprovalRequest> {
  return await requestThat(
    run,
    ({ callId: id, status, about }) =>
      id === callId && status === 'open' && about?.kind === 'authorization' && about.round === round,
    `an authorization of ${callId}`,
    60_000,
  );
}

type Said =
  | { readonly kind: 'consent' }
  | { readonly kind: 'grant'; readonly grant: Grant }
  | { readonly kind: 'decline'; readonly reason: string };

export function authorizationOf(request: ApprovalRequest, approver: string, said: Said): AuthorizationInput {
  return answerOf(request, approver, said);
}

/** Answers 403 until the token has the scope. */
export const wants = (scope: string) => (exchange: Parameters<ReturnType<typeof succeedWith>>[0], attempt: number) => {
  const token = exchange.request.headers.authorization?.replace(/^(?:Bearer|DPoP) /, '') ?? '';
  if (String(decodeJwt(token)['scope']).split(' ').includes(scope)) return succeedWith('done')(exchange, attempt);
  return exchange.status(403, { 'www-authenticate': `Bearer error="insufficient_scope", scope="${scope}"` });
};

/** Turns every token but `fresh-token` away. */
export const wantsFreshToken: ReturnType<typeof succeedWith> = (exchange, attempt) =>
  exchange.request.headers.authorization === 'Bearer fresh-token'
    ? succeedWith('done')(exchange, attempt)
    : exchange.status(401);

const CLIENT = { id: 'countersign', secret: 'client-secret-3a7f/19+c0=' };

export interface WantedScene {
  readonly server: RawServer;
  readonly zone: ZoneKey;
  readonly world: World;
}

/**
 * Has one during the tests of a file: `notes/admin` and `notes/gated` want a scope; `mine/fresh` wants the token
 * `fresh-token`.
 */
export function useWantedScene(options: WorldOptions | (() => WorldOptions)): WantedScene {
  const server = during(() =>
    startRawServer({
      era: 'modern',
      tools: {
        admin: wants('notes:admin'),
        gated: wants('notes:admin'),
        fresh: wantsFreshToken,
      },
    }),
  );
  const provider = during(() =>
    startProvider({ clients: [CLIENT], resources: { [server.url]: 'notes:read notes:admin' } }),
  );
  const zone = beforehand(zoneKey);
  const world = useWorld(() => {
    const { config, client, ...given } = typeof options === 'function' ? options() : options;
    const scopes = { discovery: ['notes:read'], default: ['notes:read'], consentable: ['notes:admin'] };
    const issued = { issuer: provider.issuer, clientId: CLIENT.id, clientSecret: CLIENT.secret, scopes };
    return {
      ...given,
      zone,
      client: { servers: { mine: { url: server.url, key: zone.publicJwk } }, ...client },
      config: {
        ...config,
        servers: {
          notes: { url: server.url, credentials: { kind: 'client-credentials', ...issued } },
          mine: { url: server.url },
        },
      },
    };
  });
  return { server, zone, world };
}
