/**
 * Starts servers that want another authorization, an issuer for one of them, and workers that may ask people.
 */
import type { CountersignOptions } from '../../client/index.ts';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import { startEngine, type TestEngine } from './engine.ts';
import { keepZoneKey, type ZoneKey } from './keys.ts';
import { type RawServer, startRawServer, succeedWith } from './mcp-raw-server.ts';
import { startProvider } from './oauth.ts';
import { wants } from './wanted-authorizations.ts';
import { startWorld, type World } from './world.ts';

const CLIENT = { id: 'countersign', secret: 'client-secret-3a7f/19+c0=' };

export interface WantedScene {
  readonly engine: TestEngine;
  readonly server: RawServer;
  readonly zone: ZoneKey;
  readonly world: World;
  close(): Promise<void>;
}

/** Starts the scene: `notes/admin` and `notes/gated` want a scope; `mine/fresh` wants the token `fresh-token`. */
export async function startWantedScene(
  over: (engine: TestEngine) => Promise<{ config: ConfigInput; client?: Partial<CountersignOptions> }>,
): Promise<WantedScene> {
  const server = await startRawServer({
    era: 'modern',
    tools: {
      admin: wants('notes:admin'),
      gated: wants('notes:admin'),
      fresh: (exchange, attempt) =>
        exchange.request.headers.authorization === 'Bearer fresh-token'
          ? succeedWith('done')(exchange, attempt)
          : exchange.status(401),
    },
  });
  const provider = await startProvider({ clients: [CLIENT], resources: { [server.url]: 'notes:read notes:admin' } });
  const engine = await startEngine();
  const zone = await keepZoneKey(engine.directory);
  const { config, client = {} } = await over(engine);
  const scopes = { discovery: ['notes:read'], default: ['notes:read'], consentable: ['notes:admin'] };
  const issued = { issuer: provider.issuer, clientId: CLIENT.id, clientSecret: CLIENT.secret, scopes };
  const world = await startWorld({
    engine,
    client: { servers: { mine: { url: server.url, key: zone.publicJwk } }, ...client },
    config: {
      ...config,
      servers: {
        notes: { url: server.url, credentials: { kind: 'client-credentials', ...issued } },
        mine: { url: server.url },
      },
      grants: zone.grants,
    },
  });
  const close = async (): Promise<void> => {
    await world.stop();
    await engine.stop();
    await Promise.all([server.close(), provider.close()]);
  };
  return { engine, server, zone, world, close };
}
