/**
 * Starts workers, and a server that works on calls as tasks. The same server has a second name with a short
 * time limit.
 */
import type { RunHandle } from '../../../client/index.ts';
import type { RunningTask } from '../../../contracts/schemas/legacy-2025.ts';
import { type ServedTask, startTaskServer, type TaskServer } from '../servers/task-server.ts';
import { zoneKey } from '../signing/keys.ts';
import { until } from '../until.ts';
import { executions } from '../world/run-record.ts';
import { during } from '../world/during.ts';
import { useWorld, type World } from '../world/world.ts';

export interface TaskScene {
  readonly server: TaskServer;
  readonly world: World;
}

/** Gives each test file a scene of its own, and replays every history. */
export function useTaskScene(): TaskScene {
  const server = during(startTaskServer);
  const world = useWorld(async () => {
    const at = { url: server.url, credentials: { kind: 'none' }, recheckSeconds: 0 } as const;
    const tools = { dig: 'allow' } as const;
    return {
      zone: await zoneKey(),
      config: {
        servers: {
          mine: { ...at, tasks: { seconds: 600 } },
          // A server is its address, so the second name needs a URL of its own.
          brief: { ...at, url: `${server.url}?brief`, tasks: { optional: ['dig'], seconds: 3 } },
        },
        policy: { servers: { mine: { tools }, brief: { tools } }, approvers: { ids: ['ann'] } },
      },
    };
  });
  return { server, world };
}

export const digs = (server = 'mine') => [
  { calls: [{ tool: `${server}/dig`, arguments: { deep: 1 } }] },
  { text: 'done' },
];
/** Nobody is asked what became of a call. */
export const RECORDED = { policy: { unknownOutcomes: 'record' } } as const;

/** Waits until the run shows such a task. */
export async function taskOf(run: RunHandle, fits: (task: RunningTask) => boolean = () => true): Promise<RunningTask> {
  return await until(async () => (await run.state()).tasks?.find(fits), { what: `a task of ${run.runId}` });
}

/** Returns what Temporal keeps of a run, as text with payloads in base64. */
export async function keptOf(world: World, run: RunHandle): Promise<string> {
  return JSON.stringify(await executions(world, run.runId));
}

/** Returns every form in which a text may stand in base64 payloads, at any position. */
export function formsOf(text: string): readonly string[] {
  const encoded = [0, 1, 2].map((offset) =>
    Buffer.concat([Buffer.alloc(offset), Buffer.from(text)])
      .toString('base64')
      .slice(4, -4),
  );
  return [text, ...encoded];
}

/** Counts the tasks that begin from now on. */
export function begunSince({ calls }: TaskServer): () => number {
  const before = calls.length;
  return () => calls.length - before;
}

/** Returns the newest task. */
export function newestOf({ tasks }: TaskServer): ServedTask {
  const task = tasks.at(-1);
  if (task === undefined) throw new Error('nothing was begun');
  return task;
}
