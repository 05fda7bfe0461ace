/** Starts workers and a server that asks people in the middle of calls, and answers its questions. */
import { beforeEach } from '@jest/globals';
import type { RunHandle } from '../../../client/index.ts';
import type { InputResponse } from '../../../contracts/schemas/input.ts';
import type { ApprovalRequest, ProvisionInput } from '../../../contracts/schemas/request.ts';
import { type MrtrServer, startMrtrServer } from '../servers/mrtr-server.ts';
import { zoneKey } from '../signing/keys.ts';
import { during } from '../world/during.ts';
import { answerOf, decisionOn, openRequests, requestThat, useWorld, type World } from '../world/world.ts';

export interface InputScene {
  readonly server: MrtrServer;
  readonly world: World;
}

/** Gives each test file a scene of its own, and replays every history. */
export function useInputScene(): InputScene {
  const server = during(startMrtrServer);
  const tools = Object.fromEntries(['book', 'visit', 'stubborn'].map((tool) => [tool, 'allow' as const]));
  const world = useWorld(async () => ({
    zone: await zoneKey(),
    config: {
      servers: { desk: { url: server.url, credentials: { kind: 'none' } } },
      policy: { servers: { desk: { tools } }, approvers: { ids: ['ann', 'bob'] } },
    },
  }));
  beforeEach(() => server.reset());
  return { server, world };
}

const END = { text: 'done' };
export const steps = (tool: string) => [{ calls: [{ tool: `desk/${tool}`, arguments: { n: 1 } }] }, END];
export const yes = { confirm: { action: 'accept', content: { sure: true } } } as const;
export const named = (name: string) => ({ who: { action: 'accept', content: { name } } }) as const;

export function answerTo(
  request: ApprovalRequest,
  responses: Record<string, InputResponse>,
  over: Partial<ProvisionInput> = {},
): ProvisionInput {
  return { ...answerOf(request, 'ann', { kind: 'provide', responses }), ...over };
}

/** Waits until the server's question of this round is open. */
export async function question(run: RunHandle, round = 1): Promise<ApprovalRequest> {
  return await requestThat(
    run,
    ({ status, about }) => status === 'open' && about?.kind === 'input' && about.round === round,
    `question ${round}`,
  );
}

export async function approved(run: RunHandle): Promise<void> {
  const [request] = await openRequests(run);
  await run.decide(decisionOn(request, 'ann'));
}
