/** Workers, and servers that work on calls as tasks: one that does as it is told, and the same under a name that has little time. */
import { afterAll, afterEach, beforeAll } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import type { RunningTask } from '../../contracts/schemas/legacy-2025.ts';
import { startEngine } from './engine.ts';
import { keepZoneKey } from './keys.ts';
import { executions, replayOwn } from './run-record.ts';
import { type ServedTask, startTaskServer, type TaskServer } from './task-server.ts';
import { until } from './until.ts';
import { startWorld, type World } from './world.ts';

export interface TaskScene {
  readonly server: TaskServer;
  readonly world: World;
}

/** Of each test file its own; every history is replayed. */
export function useTaskScene(): () => TaskScene {
  let server: TaskServer;
  let world: World;

  beforeAll(async () => {
    server = await startTaskServer();
    const engine = await startEngine();
    const zone = await keepZoneKey(engine.directory);
    const at = { url: server.url, credentials: { kind: 'none' }, recheckSeconds: 0 } as const;
    const tools = { dig: 'allow' } as const;
    world = await startWorld({
      engine,
      config: {
        servers: {
          mine: { ...at, tasks: { seconds: 600 } },
          // As a URL of its own: a server is its address.
          brief: { ...at, url: `${server.url}?brief`, tasks: { optional: ['dig'], seconds: 3 } },
        },
        policy: { servers: { mine: { tools }, brief: { tools } }, approvers: { ids: ['ann'] } },
        grants: zone.grants,
      },
    });
  });
  afterEach(async () => {
    await replayOwn(world);
  });
  afterAll(async () => {
    await world.stop();
    await world.engine.stop();
    await server.close();
  });
  return () => ({ server, world });
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

/** What Temporal keeps of a run, as text in which payloads stand in base64. */
export async function keptOf(world: World, run: RunHandle): Promise<string> {
  return JSON.stringify(await executions(world, run.runId));
}

/** Every form in which a text may stand in what Temporal keeps, whatever its place among the bytes of a payload. */
export function formsOf(text: string): readonly string[] {
  const encoded = [0, 1, 2].map((offset) =>
    Buffer.concat([Buffer.alloc(offset), Buffer.from(text)])
      .toString('base64')
      .slice(4, -4),
  );
  return [text, ...encoded];
}

/** How often a task was begun since. */
export function begunSince({ calls }: TaskServer): () => number {
  const before = calls.length;
  return () => calls.length - before;
}

/** The task that was begun last. */
export function newestOf({ tasks }: TaskServer): ServedTask {
  const task = tasks.at(-1);
  if (task === undefined) throw new Error('nothing was begun');
  return task;
}
