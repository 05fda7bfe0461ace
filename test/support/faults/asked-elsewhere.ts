/**
 * Takes runs to each point at which they may wait, loses the worker that has them in memory, and has another one asked
 * first. Compares what becomes of each run with what a replay makes of it.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { isRefusedQuery } from '../../../contracts/failure.ts';
import type { WorkflowBundle } from '../../../workers/bundle.ts';
import type { Recorded } from '../../../workers/replay/recorded-history.ts';
import { bundleForReading } from '../../../workers/replay/replayed-run.ts';
import { compareHistories } from '../../../workers/replay/semantics.ts';
import { plainClient } from '../engine.ts';
import { pollInstead } from './lost-poller.ts';
import {
  editBeingJudged,
  POINTS,
  pointsConfig,
  type PointServers,
  type Reached,
  startPointServers,
  withoutGuard,
} from './rebuilt-points.ts';
import { type FaultEngine, type FaultWorld, startFaultEngine, startFaultWorld } from './world.ts';
import { sharedBundle } from '../shared-bundle.ts';
import { until } from '../until.ts';
import { executions } from '../world/run-record.ts';
import type { WorkerProcess } from '../world/worker-process.ts';

/** temporal.api.enums.v1.PendingWorkflowTaskState */
const STARTED = 2;
/** A run that takes nothing any more. */
const STUCK_MS = 60_000;
/** Less than the 3 s that Temporal waits for a lost worker, and more than it needs to hand out all queries. */
const AHEAD_MS = 1_500;
const EDIT = 'an edit being judged';
/** Of all points. */
export const NAMES = [...Object.keys(POINTS), EDIT];
export const FORMS = ['an event without a task', 'a task that another process has started'] as const;
export type Form = (typeof FORMS)[number];

export interface Played {
  /** False: workers have no guard. */
  readonly guarded: boolean;
  /** Called before the world stops. */
  ended(world: FaultWorld, runs: ReadonlyMap<string, PlayedRun>): Promise<void>;
}

/** A run at its point. */
export interface PlayedRun {
  readonly workflowId: string;
  /** Its ledger, as the worker that was asked tells it. */
  readonly told: string;
}

export interface Seen {
  /** How the query itself ended, as whoever asks without this library has it. */
  readonly refused: boolean;
  /** What went wrong, or what a replay makes of it otherwise. */
  different: string | undefined;
}

/** What all plays of a file share. */
export interface Stage {
  readonly engine: FaultEngine;
  readonly servers: PointServers;
  readonly replayBundle: WorkflowBundle;
  close(): Promise<void>;
}

export async function startStage(): Promise<Stage> {
  const [engine, servers, replayBundle] = await Promise.all([
    startFaultEngine(),
    startPointServers(),
    sharedBundle(bundleForReading),
  ]);
  const close = async (): Promise<void> => {
    await servers.close();
    await engine.stop();
  };
  return { engine, servers, replayBundle, close };
}

async function worldOf({ engine, servers }: Stage, taskQueue: string, guarded: boolean): Promise<FaultWorld> {
  const bundle = await sharedBundle();
  const { zone, notes } = servers;
  return await startFaultWorld({
    engine,
    bundle: guarded ? bundle : withoutGuard(bundle),
    config: pointsConfig(servers, taskQueue),
    files: { 'zone.pem': zone.pem },
    client: { taskQueue, servers: { notes: { url: notes.url, key: zone.publicJwk } } },
  });
}

/** A worker that has all runs in its memory, and answers nothing any more. */
interface Away {
  /** All queries are on their way to it. */
  asked(): Promise<void>;
  /** What has happened waits for it. */
  gone(): Promise<void>;
}

type Points = ReadonlyMap<string, Reached>;

const AWAY: Readonly<Record<Form, (world: FaultWorld, lost: WorkerProcess, points: Points) => Promise<Away>>> = {
  /** Killed: what comes for it stays in its queue. */
  'an event without a task': async ({ client, config }, lost, points) => {
    await lost.kill();
    // One that this worker alone has had.
    const poller = await pollInstead(client, points.get('approval asked')?.workflowId ?? '', config.taskQueue);
    const ids = [...points.values()].map(({ workflowId }) => workflowId);
    return {
      asked: async () => {
        await until(() => ids.every((id) => poller.asked.has(id)), {
          what: 'all queries on their way',
          instead: async () => [...poller.asked],
        });
        await poller.stop();
        const sent = Date.now();
        await until(() => Date.now() - sent > AHEAD_MS, {
          what: 'queries well ahead of all tasks',
        });
      },
      gone: async () => undefined,
    };
  },
  /** Frozen with the queries and the tasks of all runs in its hands, for longer than Temporal waits. */
  'a task that another process has started': async ({ client }, lost, points) => {
    const handles = [...points.values()].map(({ workflowId }) => client.workflow.getHandle(workflowId));
    const runIds = await Promise.all(handles.map(async (handle) => (await handle.describe()).runId));
    await lost.hold();
    return {
      asked: async () => {
        await until(() => runIds.every((id) => lost.output().includes(`holds a task of ${id}`)), {
          what: 'all queries in its hands',
          instead: async () => lost.output().slice(-3_000),
        });
      },
      gone: async () => {
        await until(
          async () => {
            const all = await Promise.all(handles.map(async (handle) => (await handle.describe()).raw));
            return all.every(({ pendingWorkflowTask: task }) => task?.state === STARTED);
          },
          { what: 'all tasks in its hands' },
        );
        // It asks for no more, or it would be handed queries of the common queue while it stands still.
        lost.terminate();
        await until(() => lost.log().includes('SIGTERM'), {
          what: 'a worker that asks for no more',
        });
        lost.freeze();
      },
    };
  },
};

/** Takes all points at once to one worker, loses it, and lets another one be asked first. */
export async function played(stage: Stage, form: Form, { guarded, ended }: Played): Promise<ReadonlyMap<string, Seen>> {
  const taskQueue = `${guarded ? 'guarded' : 'bare'}-${FORMS.indexOf(form)}-${randomUUID()}`;
  const { servers } = stage;
  const world = await worldOf(stage, taskQueue, guarded);
  try {
    await world.startWorker({ role: 'tools' });
    let lost: WorkerProcess = await world.startWorker({ role: 'runs', holds: true });
    const points = new Map<string, Reached>();
    const restart = async (): Promise<void> => {
      await lost.kill();
      lost = await world.startWorker({ role: 'runs', holds: true });
    };
    const edit = await editBeingJudged(world, restart);
    await Promise.all(
      Object.entries(POINTS).map(async ([name, reach]) => points.set(name, await reach(world, servers))),
    );
    points.set(EDIT, await edit());
    const ids = [...points.values()].map(({ workflowId }) => workflowId);
    await Promise.all(ids.map((id) => atRest(world, id)));
    const other = await world.startWorker({ role: 'runs' });
    const away = await AWAY[form](world, lost, points);

    const plain = plainClient(world.client);
    const queries = new Map(
      [...points].map(([name, { workflowId, query }]) => [
        name,
        plain.connection
          .withDeadline(Date.now() + 60_000, async () =>
            plain.workflow.getHandle(workflowId).query(query, ...pageOf(query)),
          )
          .then(
            () => false,
            (error: unknown) => {
              if (!isRefusedQuery(error)) throw error;
              return true;
            },
          ),
      ]),
    );
    // From here on Temporal gives each query to the other worker 3 s after it was sent, and each task 3 s after it came
    // about.
    await away.asked();
    await Promise.all([...points.values()].map(({ happens }) => happens()));
    await away.gone();
    const seen = await Promise.all(
      [...points].map(async ([name, { answered }]): Promise<[string, Seen]> => {
        const refused = await queries.get(name);
        // Somebody who saw it answers at once.
        return [name, { refused: refused === true, different: await inTime(answered()) }];
      }),
    );
    const differences = await differencesIn(stage, world, ids);
    for (const [index, [, each]] of seen.entries()) each.different ??= differences.get(ids[index] ?? '');
    const told = await ledgersOf(world, ids);
    await other.kill();
    await world.startWorker({ role: 'runs' });
    const rebuilt = await ledgersOf(world, ids);
    for (const [index, [, each]] of seen.entries())
      if (told[index] !== rebuilt[index]) each.different ??= 'its ledger is another one once it is rebuilt';
    await ended(
      world,
      new Map([...points].map(([name, { workflowId }], index) => [name, { workflowId, told: told[index] ?? '' }])),
    );
    return new Map(seen);
  } finally {
    await world.stop();
  }
}

/** The ledger of each, as a worker tells it. */
async function ledgersOf({ client }: FaultWorld, ids: readonly string[]): Promise<string[]> {
  return await Promise.all(
    ids.map(async (id) => {
      const ask = async (): Promise<unknown> =>
        await client.connection.withDeadline(Date.now() + STUCK_MS, async () =>
          client.workflow.getHandle(id).query('ledger', 0, 1_000),
        );
      return await ask().then(JSON.stringify, (error: unknown) => `none: ${String(error)}`);
    }),
  );
}

/** What became of it where it did not go as it should. */
async function inTime(answer: Promise<unknown>): Promise<string | undefined> {
  const over = new AbortController();
  try {
    return await Promise.race([
      answer.then(
        () => undefined,
        (error: unknown) => String(error),
      ),
      pause(STUCK_MS, 'it is stuck', { signal: over.signal }),
    ]);
  } finally {
    over.abort();
  }
}

function pageOf(query: string): number[] {
  return query === 'ledger' || query === 'transcript' ? [0, 1_000] : [];
}

/** No task of the workflow is on its way: a query that comes now is sent alone. */
async function atRest(world: FaultWorld, workflowId: string): Promise<void> {
  const handle = world.client.workflow.getHandle(workflowId);
  await until(async () => !(await handle.describe()).raw.pendingWorkflowTask, {
    what: `rest of ${workflowId}`,
  });
}

/** Returns what a replay makes of workflows otherwise, by their ids. */
async function differencesIn(
  { replayBundle }: Stage,
  world: FaultWorld,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const recorded: Recorded[] = [];
  for (const workflowId of ids)
    for (const { runId, history } of await executions(world, workflowId))
      recorded.push({ kind: 'history', name: `${workflowId} ${runId}`, workflowId, history });
  const differences = new Map<string, string>();
  for await (const { name, error } of compareHistories(recorded, { bundle: replayBundle, config: world.config })) {
    const [workflowId = ''] = name.split(' ');
    if (error !== undefined && !differences.has(workflowId)) differences.set(workflowId, error.message);
  }
  return differences;
}
