/** Runs the two activities that handle a task, at a test server, without a run. */
import { generateKeyPairSync } from 'node:crypto';
import type { ArtifactStore } from '../../../activities/artifacts/port.ts';
import type { CurrentTool } from '../../../activities/discovery/access.ts';
import { createMcpTaskServer } from '../../../activities/mcp/legacy-2025/tasks.ts';
import { createStateSeal, derivedFrom, type StateSeal } from '../../../activities/mcp/state-seal.ts';
import type { TokenRequest } from '../../../activities/tokens/port.ts';
import { defined } from '../../../contracts/defined.ts';
import { MOST_TRIES, type PollInput, type PollResult } from '../../../contracts/wire/legacy-2025.ts';
import type { DispatchInput, DispatchResult } from '../../../contracts/wire/tools.ts';
import type { TaskServer } from '../servers/task-server.ts';
import { loopbackEgress } from '../egress.ts';
import { type GoingActivity, goingActivity, inActivity, type Tried } from './tool-activities.ts';
import { toolBench } from './tool-bench.ts';
import { aDefinition } from './tool-call.ts';

const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const seal = createStateSeal(
  new Map([['k', derivedFrom(String(privateKey.export({ type: 'pkcs8', format: 'pem' })))]]),
);

const FIRST_TRY: Tried = { attempt: 1 };
const LAST_TRY: Tried = { attempt: MOST_TRIES };

export interface TaskBench {
  /** Token requests, and the tokens. */
  readonly minted: { readonly request: TokenRequest; readonly token: string }[];
  dispatch(over?: Partial<DispatchInput>): Promise<DispatchResult>;
  /** @param tried default: the first attempt, or the last one if the task is given up */
  poll(begun: DispatchResult, over?: Partial<PollInput>, tried?: Tried): Promise<PollResult>;
  polling(begun: DispatchResult, over?: Partial<PollInput>, tried?: Tried): GoingActivity<PollResult>;
}

export interface TaskBenchOptions {
  readonly sealing?: StateSeal | 'none' | undefined;
  readonly mints?: (request: TokenRequest, count: number) => string;
  /** Secrets that the listing before the call used, and tokens that the server has seen. */
  readonly listedWith?: Pick<CurrentTool, 'secrets' | 'shown'>;
  /** Artifact store of the worker that polls. */
  readonly artifacts?: ArtifactStore;
  /** Set if the operator lets the server ask people. */
  readonly asks?: true;
}

export async function taskBench(
  server: Pick<TaskServer, 'url'>,
  {
    sealing = seal,
    mints = (_request: TokenRequest, count: number): string => `token-of-mint-${count}`,
    listedWith = { secrets: [] },
    artifacts: kept,
    asks,
  }: TaskBenchOptions = {},
): Promise<TaskBench> {
  const minted: TaskBench['minted'] = [];
  // Two names share one address.
  const at = { url: server.url, ...(asks === undefined ? {} : { elicitation: { holdSeconds: 60 } }) };
  const bench = await toolBench(server.url, {
    definitions: [aDefinition({ name: 'dig', taskSupport: 'required' })],
    binding: { name: 'mine', url: server.url },
    servers: { mine: at, other: at },
    broker: {
      mint: async (request: TokenRequest) => {
        const token = mints(request, minted.length + 1);
        minted.push({ request, token });
        return { accessToken: token, evidence: { strategy: 'given' }, secrets: [token] };
      },
    },
    seal: sealing === 'none' ? undefined : sealing,
    liveTools: { current: async (_, listed) => ({ tool: listed, ...listedWith }) },
    ...defined({ tasks: kept && createMcpTaskServer({ artifacts: kept, egress: loopbackEgress() }) }),
  });
  const { callTool, pollTask } = bench;
  const input = bench.input({ deep: 1 }, { tasks: true });
  const question = (begun: DispatchResult): PollInput => {
    if (begun.kind !== 'task') throw new Error(`the call is ${begun.kind}`);
    const { run, callId, attempt, name, target, server: binding, toolset, limits } = input;
    return { run, callId, attempt, name, target, server: binding, sealed: begun.task.sealed, toolset, limits };
  };
  return {
    minted,
    dispatch: async (over = {}) => await inActivity(callTool, { ...input, ...over }),
    poll: async (begun, over = {}, tried = over.giveUp === undefined ? FIRST_TRY : LAST_TRY) =>
      await inActivity(pollTask, { ...question(begun), ...over }, tried),
    polling: (begun, over = {}, tried) => goingActivity(pollTask, { ...question(begun), ...over }, tried),
  };
}
