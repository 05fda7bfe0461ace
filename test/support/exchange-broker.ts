/**
 * Makes brokers of each strategy that asks an authorization server or signs, over one server `notes`, and
 * callers' sealed grants.
 */
import type { Grant } from '../../contracts/schemas/run-spec.ts';
import { Config, type ConfigInput } from '../../contracts/schemas/config.ts';
import { sealAuthorization } from '../../client/signing/sealing.ts';
import { createTokenBroker, type TokenBrokerOptions } from '../../activities/tokens/broker.ts';
import type { TokenBroker, TokenRequest } from '../../activities/tokens/port.ts';
import { type ZoneKey, privateKeysOf, zoneKey } from './keys.ts';
import { URL_OF, requestFor, runOf } from './oauth-broker.ts';
import type { RunningAuthorizationServer } from './oauth.ts';
import { type TestSigningKey, signingKeysOf } from './signing-key.ts';
import { loopbackEgress } from './egress.ts';

type ServerInput = NonNullable<ConfigInput['servers']>[string];
export type CredentialsInput = NonNullable<ServerInput['credentials']>;

export const SCOPES = { discovery: ['notes:read'], default: ['notes:write'], tools: { delete: ['notes:delete'] } };
export const RESOURCES = { [URL_OF.notes]: 'notes:read notes:write notes:delete', [URL_OF.files]: 'notes:read' };

export interface ZonedBroker {
  readonly broker: TokenBroker;
  readonly zone: ZoneKey;
  /** Seals what a caller hands over for this run. */
  grant(authorization: string, run?: number): Promise<Grant>;
  /** Makes a token request of this run with this grant. */
  request(authorization: string, tool?: string, run?: number): Promise<TokenRequest>;
}

export async function zonedBroker(
  credentials: CredentialsInput,
  keys: readonly TestSigningKey[] = [],
  over: ConfigInput = {},
  rest: Partial<TokenBrokerOptions> = {},
): Promise<ZonedBroker> {
  const zone = await zoneKey();
  const config = Config.parse({ servers: { notes: { url: URL_OF.notes, credentials } }, ...over });
  const grant = async (authorization: string, run = 1): Promise<Grant> => ({
    server: 'notes',
    jwe: await sealAuthorization({
      authorization,
      serverUrl: URL_OF.notes,
      binding: runOf(run),
      key: zone.publicJwk,
      expiresInSeconds: 3_600,
    }),
  });
  return {
    broker: createTokenBroker({
      config,
      keys: privateKeysOf(zone),
      signingKeys: signingKeysOf(...keys),
      egress: loopbackEgress(),
      ...rest,
    }),
    zone,
    grant,
    request: async (authorization, tool, run = 1) => ({
      ...requestFor('notes', tool),
      run: runOf(run),
      grant: await grant(authorization, run),
    }),
  };
}

/** Returns the values of the last token request that are more than names. */
export function shownAt(...servers: readonly RunningAuthorizationServer[]): string[] {
  return servers.flatMap(({ seen }) => {
    const { authorization, form } = seen.at(-1) ?? {};
    const fields = ['client_secret', 'client_assertion', 'subject_token', 'actor_token', 'assertion'];
    return [authorization?.replace('Basic ', ''), ...fields.map((field) => form?.get(field))].filter(
      (value) => value !== undefined && value !== null,
    );
  });
}
