/** Starts workers and a server that asks people in the middle of calls, and answers its questions. */
import { afterAll, beforeAll, beforeEach } from '@jest/globals';
import type { RunHandle } from '../../../client/index.ts';
import type { InputResponse } from '../../../contracts/schemas/input.ts';
import type { ApprovalRequest, ProvisionInput } from '../../../contracts/schemas/request.ts';
import { startEngine } from '../engine.ts';
import { type MrtrServer, startMrtrServer } from '../servers/mrtr-server.ts';
import { keepZoneKey } from '../signing/keys.ts';
import { until } from '../until.ts';
import { decisionOn, openRequests, startWorld, type World } from '../world/world.ts';

export interface InputScene {
  readonly server: MrtrServer;
  readonly world: World;
}

/** Gives each test file a scene of its own, and replays every history. */
export function useInputScene(): () => InputScene {
  let server: MrtrServer;
  let world: World;

  beforeAll(async () => {
    server = await startMrtrServer();
    const engine = await startEngine();
    const zone = await keepZoneKey(engine.directory);
    const tools = Object.fromEntries(['book', 'visit', 'stubborn'].map((tool) => [tool, 'allow' as const]));
    world = await startWorld({
      engine,
      config: {
        servers: { desk: { url: server.url, credentials: { kind: 'none' } } },
        policy: { servers: { desk: { tools } }, approvers: { ids: ['ann', 'bob'] } },
        grants: zone.grants,
      },
    });
  });
  beforeEach(() => server.reset());
  afterAll(async () => {
    await world.stop();
    await world.engine.stop();
    await server.close();
  });
  return () => ({ server, world });
}

const END = { text: 'done' };
export const steps = (tool: string) => [{ calls: [{ tool: `desk/${tool}`, arguments: { n: 1 } }] }, END];
export const yes = { confirm: { action: 'accept', content: { sure: true } } } as const;
export const named = (name: string) => ({ who: { action: 'accept', content: { name } } }) as const;

let count = 0;
export function answerTo(
  request: ApprovalRequest,
  responses: Record<string, InputResponse>,
  over: Partial<ProvisionInput> = {},
): ProvisionInput {
  count += 1;
  const { callId, digest, runId } = request;
  const answer = {
    kind: 'provide',
    decisionId: `input-${count}`,
    callId,
    digest,
    runId,
    approver: { id: 'ann' },
    responses,
  };
  // Sound: `over` has the same kind, or leaves the answers unread.
  return { ...answer, ...over } as ProvisionInput;
}

/** Waits until the server's question of this round is open. */
export async function question(run: RunHandle, round = 1): Promise<ApprovalRequest> {
  return await until(
    async () =>
      (await run.requests()).find(
        ({ status, about }) => status === 'open' && about?.kind === 'input' && about.round === round,
      ),
    { what: `question ${round} of ${run.runId}` },
  );
}

export async function approved(run: RunHandle): Promise<void> {
  const [request] = await openRequests(run);
  if (request === undefined) throw new Error('no request');
  await run.decide(decisionOn(request, 'ann'));
}
