/**
 * Moves the runs that wait on one build of a deployment to the current one (docs/adr/0083).
 *
 * 1. A run is asked to continue as new, which it does at its next safe point, with all that it waits for. Temporal begins
 *    the next execution on the current build.
 * 2. Where Temporal is too old for that, an execution is first moved by its options (`move`), and then asked. The current
 *    build replays it, so it is moved only if `mayMove` says that this will do.
 * 3. An execution is asked once by each call. Calls may be repeated, and may overlap.
 * 4. What does not move in time stays, and is told. No execution is left with an override, however this ends.
 * 5. It stops once somebody has sent new runs elsewhere: nothing is moved to a build that was left.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { CountersignError } from '../../contracts/errors.ts';
import { CATALOG_WORKFLOW, RUN_WORKFLOW, SIGNALS } from '../../contracts/names.ts';
import type { Engine } from '../engine/engine.ts';
import {
  each,
  type ExecutionId,
  moveTo,
  type Pinned,
  pinnedExecutions,
  standingOf,
  unlessGone,
  withdrawMove,
} from './moves.ts';
import { buildOf, countPinned, type DeploymentState, readDeployment } from './versions.ts';

export interface DrainOptions {
  /** Executions that are asked and have not moved yet, at once. Default 50. */
  readonly batch?: number;
  /** Default ten minutes. */
  readonly withinMs?: number;
  /**
   * Moves executions by their options. Called for each; returns why one must stay. It has to replay the execution with the
   * code of the current build, or to know that this was done.
   */
  readonly mayMove?: (execution: ExecutionId, current: string) => Promise<string | undefined>;
  /** Hears how many are left. */
  readonly tell?: (left: number) => void;
}

export interface Drained {
  readonly deployment: string;
  readonly build: string;
  readonly current: string;
  /** Executions that were asked. */
  readonly asked: number;
  /** Executions that stay with the build. */
  readonly left: number;
  /** Executions that `mayMove` has kept, with its reason. */
  readonly kept: readonly { readonly workflowId: string; readonly reason: string }[];
}

const BATCH = 50;
const WITHIN_MS = 600_000;
/** How long an execution that was asked takes the place of another: one that works on something rolls later. */
const PATIENCE_MS = 20_000;
/** Executions that go ahead, until one of them shows that Temporal moves those that continue as new. */
const AHEAD = 2;
const AT_ONCE = 8;

/** Workflows that the signal `nudge` makes continue as new. */
const OURS: readonly string[] = [RUN_WORKFLOW, CATALOG_WORKFLOW];

/** @throws CountersignError `DRAIN_REFUSED`, `BUILD_UNKNOWN`, `DEPLOYMENT_UNKNOWN` */
export async function drain(
  engine: Engine,
  deployment: string,
  build: string,
  options: DrainOptions = {},
): Promise<Drained> {
  const state = await readDeployment(engine, deployment);
  const current = targetOf(state, build);
  return await new Drain(engine, { deployment, build, current }, options).run();
}

function targetOf(state: DeploymentState, build: string): string {
  const { current, ramping, deployment } = state;
  buildOf(state, build);
  const facts = { deployment, build };
  if (current === undefined) {
    const message = `Deployment ${deployment} has no current build to which runs could move. Nothing was done; make one current: countersign deploy promote BUILD`;
    throw new CountersignError('DRAIN_REFUSED', message, facts);
  }
  if (current !== build && ramping?.build !== build) return current;
  const how = current === build ? 'is the current build' : 'takes a share of new runs';
  const next = current === build ? 'promote another build' : 'end its ramp (countersign deploy rollback)';
  const message = `Build ${build} ${how}, so runs would come back to it. Nothing was done; ${next} first.`;
  throw new CountersignError('DRAIN_REFUSED', message, facts);
}

interface Route {
  readonly deployment: string;
  readonly build: string;
  readonly current: string;
}

class Drain {
  readonly #engine: Engine;
  readonly #route: Route;
  readonly #options: DrainOptions;
  /** Workflow id → the execution that was asked, and when. */
  readonly #asked = new Map<string, { readonly runId: string; readonly at: number }>();
  readonly #kept = new Map<string, string>();
  /** Workflow ids of those that were moved by options and were not seen on the current build yet. */
  readonly #moving = new Set<string>();
  #hasMoved = false;

  constructor(engine: Engine, route: Route, options: DrainOptions) {
    this.#engine = engine;
    this.#route = route;
    this.#options = options;
  }

  async run(): Promise<Drained> {
    try {
      return await this.#rounds();
    } finally {
      await this.#withdraw();
    }
  }

  async #rounds(): Promise<Drained> {
    const { deployment, build } = this.#route;
    const end = Date.now() + (this.#options.withinMs ?? WITHIN_MS);
    for (let pauseMs = 100; ; pauseMs = Math.min(1_000, pauseMs * 1.5)) {
      await this.#assertUnchanged();
      const isQuiet = await this.#round();
      const left = await countPinned(this.#engine, deployment, build);
      this.#options.tell?.(left + this.#moving.size);
      if ((isQuiet && this.#moving.size === 0) || Date.now() >= end) {
        const kept = [...this.#kept].map(([workflowId, reason]) => ({ workflowId, reason }));
        return { ...this.#route, asked: this.#asked.size, left: left + this.#moving.size, kept };
      }
      await pause(Math.max(1, Math.min(pauseMs, end - Date.now())));
    }
  }

  /** @throws CountersignError `DEPLOYMENT_CHANGED` */
  async #assertUnchanged(): Promise<void> {
    const { deployment, build, current } = this.#route;
    const state = await readDeployment(this.#engine, deployment);
    if (state.current === current && state.ramping?.build !== build) return;
    const message = `New runs of deployment ${deployment} were sent elsewhere meanwhile (current build: ${state.current ?? 'none'}), so build ${build} is drained no further. Runs that have moved stay where they are. Look, and decide again: countersign deploy status`;
    throw new CountersignError('DEPLOYMENT_CHANGED', message, { deployment, build });
  }

  /** Leaves executions that the current build has not taken up where they were. */
  async #withdraw(): Promise<void> {
    await this.#settle();
    await each(from([...this.#moving]), AT_ONCE, async (workflowId) => {
      await withdrawMove(this.#engine, { workflowId, runId: '' });
      return true;
    });
  }

  /**
   * Asks as many as there is room for.
   * @returns true if nothing is left that could still move
   */
  async #round(): Promise<boolean> {
    const { deployment, build } = this.#route;
    const { batch = BATCH, mayMove } = this.#options;
    const now = Date.now();
    const fresh: Pinned[] = [];
    const seen = new Set<string>();
    let movable = 0;
    let waited = 0;
    for await (const execution of pinnedExecutions(this.#engine, deployment, build)) {
      seen.add(execution.workflowId);
      if (!OURS.includes(execution.type) || this.#kept.has(execution.workflowId)) continue;
      movable += 1;
      const before = this.#asked.get(execution.workflowId);
      if (before === undefined) fresh.push(execution);
      else if (before.runId !== execution.runId) this.#cameBack(execution);
      else if (now - before.at < PATIENCE_MS) waited += 1;
      if (fresh.length >= batch) break;
    }
    if (fresh.length < batch && [...this.#asked.keys()].some((id) => !seen.has(id))) this.#hasMoved = true;
    const room = mayMove !== undefined || this.#hasMoved ? batch : Math.min(AHEAD, batch);
    await each(
      from(fresh.slice(0, Math.max(0, room - waited))),
      mayMove === undefined ? AT_ONCE : 1,
      async (execution) => {
        await this.#ask(execution);
        return true;
      },
    );
    await this.#settle();
    return movable === 0;
  }

  /** An execution that has continued as new on the same build shows that Temporal does not move it. */
  #cameBack({ workflowId }: Pinned): void {
    if (this.#options.mayMove !== undefined) {
      this.#asked.delete(workflowId);
      return;
    }
    const { deployment, build, current } = this.#route;
    const message = `Run ${workflowId} has continued as new, and Temporal began it on build ${build} again: this server does not move runs as they continue. Nothing is lost. Move them by their options, once the code of ${current} replays them: countersign deploy drain ${build} --move`;
    throw new CountersignError('DRAIN_REFUSED', message, { deployment, build });
  }

  async #ask({ workflowId, runId }: Pinned): Promise<void> {
    const { deployment, current } = this.#route;
    const execution = { workflowId, runId };
    const { mayMove } = this.#options;
    if (mayMove !== undefined) {
      const reason = await mayMove(execution, current);
      if (reason !== undefined) {
        this.#kept.set(workflowId, reason);
        return;
      }
      await moveTo(this.#engine, deployment, current, execution);
      this.#moving.add(workflowId);
    }
    const handle = this.#engine.client.workflow.getHandle(workflowId, runId);
    await this.#engine.call(workflowId, async () => unlessGone(async () => await handle.signal(SIGNALS.nudge)));
    this.#asked.set(workflowId, { runId, at: Date.now() });
  }

  /**
   * Takes the override away once the current build has done a task: then the run stays there by itself. Newer servers
   * hand an override on to the next execution, which would keep it from moving again.
   */
  async #settle(): Promise<void> {
    const { current } = this.#route;
    await each(from([...this.#moving.keys()]), AT_ONCE, async (workflowId) => {
      const newest = { workflowId, runId: '' };
      const standing = await standingOf(this.#engine, newest);
      if (standing !== undefined && standing.build !== current) return true;
      if (standing?.movedTo === current) await withdrawMove(this.#engine, newest);
      this.#moving.delete(workflowId);
      return true;
    });
  }
}

async function* from<T>(items: readonly T[]): AsyncGenerator<T> {
  yield* items;
}
