/** Makes a zone with two tool servers that take a caller's authorization, and the clients that seal it. */
import type { SealingTargets } from '../../../client/run/start-run.ts';
import type { ConfigInput } from '../../../contracts/schemas/config.ts';
import { startEngine, type TestEngine } from '../engine.ts';
import { type RawServer, startRawServer, succeedWith } from '../servers/raw-server.ts';
import { keepZoneKey, type ZoneKey } from '../signing/keys.ts';
import { startWorld, type World } from '../world/world.ts';

export interface GrantScene {
  readonly engine: TestEngine;
  readonly zone: ZoneKey;
  readonly shared: RawServer;
  readonly other: RawServer;
  readonly world: World;
  readonly targets: SealingTargets;
  /** Returns the configuration of `world` under another task queue. */
  configOf(taskQueue: string, over?: ConfigInput): ConfigInput;
  close(): Promise<void>;
}

/** Two calls of a tool that policy allows. */
export const TWO_CALLS = [{ calls: [{ tool: 'shared/act' }, { tool: 'shared/act' }] }, { text: 'Done.' }];
/** One call that waits for a decision. */
export const GATED_CALL = [{ calls: [{ tool: 'shared/gated' }] }, { text: 'Done.' }];

export async function startGrantScene(): Promise<GrantScene> {
  const shared = await startRawServer({
    era: 'modern',
    tools: { act: succeedWith('done'), gated: succeedWith('done') },
  });
  const other = await startRawServer({ era: 'modern', tools: { act: succeedWith('done') } });
  const engine = await startEngine();
  const zone = await keepZoneKey(engine.directory);
  const targets = Object.fromEntries(
    Object.entries({ shared, other }).map(([name, { url }]) => [name, { url, key: zone.publicJwk }]),
  );
  const configOf: GrantScene['configOf'] = (taskQueue, over = {}) => ({
    taskQueue,
    servers: { shared: { url: shared.url }, other: { url: other.url } },
    grants: zone.grants,
    ...over,
    policy: {
      approvers: { ids: ['bob'] },
      missingAuthorization: 'fail',
      servers: { shared: { default: 'allow', tools: { gated: 'ask' } } },
      ...over.policy,
    },
  });
  const client = { servers: targets };
  const world = await startWorld({ engine, config: configOf('countersign'), client, beside: [shared, other] });
  return {
    engine,
    zone,
    shared,
    other,
    world,
    targets,
    configOf,
    close: async () => {
      await world.stop();
      await engine.stop();
    },
  };
}

/** Returns the authorization headers under which a server got requests of one kind. */
export function authorizationsOf(server: RawServer, rpcMethod: string): (string | undefined)[] {
  return server.seen.filter((request) => request.rpcMethod === rpcMethod).map(({ headers }) => headers.authorization);
}
