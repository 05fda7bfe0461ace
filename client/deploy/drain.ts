/**
 * Moves the runs that wait on one build of a deployment to the current one (docs/adr/0083).
 *
 * 1. A run is asked to continue as new, which it does at its next safe point; Temporal begins it on the current build.
 *    Where Temporal is too old for that, it is first moved by its options, if `mayMove` says that this will do.
 * 2. An execution is asked once by each call. Calls may be repeated, and may overlap.
 * 3. Never more than `batch` executions are asked and not moved, by what they say themselves: visibility lags behind.
 * 4. An execution has moved once it has done a workflow task elsewhere: one that only begins there may fail at once.
 * 5. What does not move in time stays, and is told. No execution is left with an override, however this ends.
 * 6. It stops once somebody has sent new runs elsewhere: nothing is moved to a build that was left.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { CATALOG_WORKFLOW, RUN_WORKFLOW, SIGNALS } from '../../contracts/names.ts';
import type { Engine } from '../engine/engine.ts';
import { ifThere } from '../engine/executions.ts';
import { each, type ExecutionId, setOverride, standingOf } from './moves.ts';
import { buildOf, countPinned, type DeploymentState, pinnedTo, readDeployment } from './versions.ts';

export interface DrainOptions {
  /** Executions that are asked and have not moved yet, at most. Default 50. */
  readonly batch?: number;
  /** Default ten minutes. */
  readonly withinMs?: number;
  /**
   * Moves executions by their options. Returns why one must stay: it has to replay the execution with the code of the
   * current build, or to know that this was done. An execution of which it throws `ENGINE_UNAVAILABLE` is left.
   */
  readonly mayMove?: (execution: ExecutionId, current: string) => Promise<string | undefined>;
  readonly tell?: (left: number) => void;
  /** Ends the drain early, as the end of its time does. */
  readonly signal?: AbortSignal;
}

export interface Drained {
  readonly deployment: string;
  readonly build: string;
  readonly current: string;
  readonly asked: number;
  /** Executions that stay with the build, and those that have begun on the current one and have not worked there. */
  readonly left: number;
  /** Those that Temporal has begun on the build again, although it moves others. */
  readonly unmoved: readonly string[];
  /** Those that `mayMove` has kept. */
  readonly kept: readonly { readonly workflowId: string; readonly reason: string }[];
  /** Those of which `mayMove` could not tell. Another drain asks again. */
  readonly unread: readonly { readonly workflowId: string; readonly reason: string }[];
}

const BATCH = 50;
const WITHIN_MS = 600_000;
/** Executions that go ahead, until one of them shows that Temporal moves those that continue as new. */
const AHEAD = 2;
/** An execution that goes ahead, and still works on something after this time, has another one go beside it. */
const PATIENCE_MS = 20_000;
const AT_ONCE = 8;
/** Pause between two looks while runs move. */
const SOON_MS = 100;
/** For how long a reading of the deployment need not be repeated: Temporal asks a workflow of its own for it. */
const FRESH_MS = 1_000;

/** Workflows that the signal `nudge` makes continue as new. */
const OURS: readonly string[] = [RUN_WORKFLOW, CATALOG_WORKFLOW];

/** @throws CountersignError `DRAIN_REFUSED`, `DEPLOYMENT_CHANGED`, `BUILD_UNKNOWN`, `DEPLOYMENT_UNKNOWN` */
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

type Route = Pick<Drained, 'deployment' | 'build' | 'current'>;

class Drain {
  readonly #engine: Engine;
  readonly #route: Route;
  readonly #options: DrainOptions;
  /** Workflow id → the execution that was asked last. */
  readonly #asked = new Map<string, string>();
  /** Workflow id → its execution under way, and when that was asked. */
  readonly #underWay = new Map<string, { readonly runId: string; readonly at: number }>();
  readonly #kept = new Map<string, Drained['kept'][number]>();
  readonly #unread = new Map<string, Drained['unread'][number]>();
  /** Those under way whose next execution belongs to no build yet. */
  readonly #begun = new Set<string>();
  readonly #unmoved = new Set<string>();
  #hasMoved = false;
  #readAt = Number.NEGATIVE_INFINITY;
  readonly #end: number;

  constructor(engine: Engine, route: Route, options: DrainOptions) {
    this.#engine = engine;
    this.#route = route;
    this.#options = options;
    this.#end = Date.now() + (options.withinMs ?? WITHIN_MS);
  }

  async run(): Promise<Drained> {
    let left: number;
    try {
      left = await this.#untilOver();
    } catch (error) {
      // The first error says why it ended.
      await this.#leave().catch(() => undefined);
      throw error;
    }
    const [kept, unread] = [[...this.#kept.values()], [...this.#unread.values()]];
    left += await this.#leave();
    const unmoved = [...this.#unmoved];
    // Visibility may not list these yet.
    return { ...this.#route, asked: this.#asked.size, left: Math.max(left, unmoved.length), unmoved, kept, unread };
  }

  /** @returns how many visibility counts for the build */
  async #untilOver(): Promise<number> {
    const { deployment, build } = this.#route;
    const { signal, tell } = this.#options;
    for (let pauseMs = SOON_MS; ; pauseMs = Math.min(1_000, pauseMs * 1.5)) {
      await this.#assertUnchanged();
      if (await this.#settle()) pauseMs = SOON_MS;
      const isQuiet = await this.#round();
      const left = await countPinned(this.#engine, deployment, build);
      tell?.(left + this.#moving);
      if ((isQuiet && this.#underWay.size === 0) || this.#isOver) return left;
      const rest = Math.max(1, Math.min(pauseMs, this.#end - Date.now()));
      await pause(rest, undefined, defined({ signal })).catch(() => undefined);
    }
  }

  get #isAborted(): boolean {
    return this.#options.signal?.aborted === true;
  }

  get #isOver(): boolean {
    return Date.now() >= this.#end || this.#isAborted;
  }

  /** Executions under way that visibility does not count for the build: an override names another, or none has them. */
  get #moving(): number {
    return this.#options.mayMove === undefined ? this.#begun.size : this.#underWay.size;
  }

  async #assertUnchanged(): Promise<void> {
    const { deployment, build, current } = this.#route;
    if (Date.now() - this.#readAt < FRESH_MS) return;
    const readAt = Date.now();
    const state = await readDeployment(this.#engine, deployment);
    this.#readAt = readAt;
    if (state.current === current && state.ramping?.build !== build) return;
    const message = `New runs of deployment ${deployment} were sent elsewhere meanwhile (current build: ${state.current ?? 'none'}), so build ${build} is drained no further. Runs that have moved stay where they are. Look, and decide again: countersign deploy status`;
    throw new CountersignError('DEPLOYMENT_CHANGED', message, { deployment, build });
  }

  /** Asks as many as there is room for. @returns true if nothing is left that could still move */
  async #round(): Promise<boolean> {
    const { deployment, build } = this.#route;
    const room = this.#room();
    const fresh: ExecutionId[] = [];
    let isQuiet = true;
    for await (const { workflowId, runId, type } of this.#engine.list(pinnedTo(deployment, build))) {
      if (!OURS.includes(type) || this.#isLeft(workflowId)) continue;
      isQuiet = false;
      if (fresh.length >= room) break;
      // One that has moved may still be listed.
      if (!this.#underWay.has(workflowId) && this.#asked.get(workflowId) !== runId) fresh.push({ workflowId, runId });
    }
    const { mayMove } = this.#options;
    await each(fresh, mayMove === undefined ? AT_ONCE : 1, async (execution) => {
      await this.#ask(execution);
      // A replay takes a while, and a batch of them may outlast the drain.
      return mayMove === undefined ? !this.#isAborted : !this.#isOver;
    });
    return isQuiet;
  }

  #isLeft(workflowId: string): boolean {
    return this.#kept.has(workflowId) || this.#unread.has(workflowId) || this.#unmoved.has(workflowId);
  }

  #room(): number {
    const { batch = BATCH, mayMove } = this.#options;
    if (this.#isAborted) return 0;
    const late = Date.now() - PATIENCE_MS;
    const slow = [...this.#underWay.values()].filter(({ at }) => at <= late).length;
    const most = mayMove !== undefined || this.#hasMoved ? batch : Math.min(batch, AHEAD + slow);
    return most - this.#underWay.size;
  }

  async #ask(execution: ExecutionId): Promise<void> {
    const { deployment, current } = this.#route;
    const { workflowId, runId } = execution;
    const { mayMove } = this.#options;
    if (mayMove !== undefined) {
      const mayGo = await this.#mayGo(execution, mayMove);
      // Replays take a while; and where Temporal is away, this says so.
      await this.#assertUnchanged();
      if (!mayGo) return;
    }
    // It may be moved or asked although no answer comes.
    this.#asked.set(workflowId, runId);
    this.#underWay.set(workflowId, { runId, at: Date.now() });
    if (mayMove !== undefined)
      await setOverride(this.#engine, execution, { deploymentName: deployment, buildId: current });
    const handle = this.#engine.client.workflow.getHandle(workflowId, runId);
    await this.#engine.call(workflowId, async () => ifThere(async () => await handle.signal(SIGNALS.nudge)));
  }

  async #mayGo(execution: ExecutionId, mayMove: NonNullable<DrainOptions['mayMove']>): Promise<boolean> {
    const { workflowId } = execution;
    try {
      const reason = await mayMove(execution, this.#route.current);
      if (reason !== undefined) this.#kept.set(workflowId, { workflowId, reason });
      return reason === undefined;
    } catch (error) {
      if (!(error instanceof CountersignError) || error.code !== 'ENGINE_UNAVAILABLE') throw error;
      this.#unread.set(workflowId, { workflowId, reason: error.message });
      return false;
    }
  }

  /**
   * Looks what became of those that were asked.
   * @returns true if it is settled for one of them
   * @throws CountersignError `DRAIN_REFUSED`
   */
  async #settle(): Promise<boolean> {
    const before = this.#underWay.size;
    await each([...this.#underWay], AT_ONCE, async ([workflowId, { runId }]) => {
      if (!(await this.#isSettled(workflowId, runId))) return;
      this.#underWay.delete(workflowId);
      this.#begun.delete(workflowId);
    });
    // One that was looked at beside it may show that the server moves others.
    const [unmoved] = this.#unmoved;
    if (unmoved === undefined || this.#hasMoved) return this.#underWay.size < before;
    const { deployment, build, current } = this.#route;
    const message = `Run ${unmoved} has continued as new, and Temporal began it on build ${build} again: this server does not move runs as they continue. Nothing is lost. Move them by their options, once the code of ${current} replays them: countersign deploy drain ${build} --move`;
    throw new CountersignError('DRAIN_REFUSED', message, { deployment, build });
  }

  /** @param runId the execution that was asked */
  async #isSettled(workflowId: string, runId: string): Promise<boolean> {
    const { build, current } = this.#route;
    const newest = { workflowId, runId: '' };
    const standing = await standingOf(this.#engine, newest);
    // One that has ended does not show that Temporal moves runs.
    if (standing === undefined) return true;
    if (standing.build !== undefined && standing.build !== build) {
      this.#hasMoved = true;
      // The run stays there by itself. Newer servers hand an override on, which would keep it from moving again.
      if (standing.movedTo === current) await setOverride(this.#engine, newest);
      return true;
    }
    if (this.#options.mayMove === undefined) {
      if (standing.runId === runId) return false;
      if (standing.stays) this.#unmoved.add(workflowId);
      else this.#begun.add(workflowId);
      return standing.stays;
    }
    if (standing.movedTo === current) return false;
    // Somebody else, such as a drain that has ended, has moved it back: it may be asked again.
    this.#asked.delete(workflowId);
    return true;
  }

  /**
   * Leaves executions that the current build has not taken up where they are, and withdraws moves; each is tried.
   * @returns how many they are, without those that visibility counts for the build
   */
  async #leave(): Promise<number> {
    const { current } = this.#route;
    const isByOptions = this.#options.mayMove !== undefined;
    let left = 0;
    const failures: unknown[] = [];
    await each([...this.#underWay.keys()], AT_ONCE, async (workflowId) => {
      const newest = { workflowId, runId: '' };
      try {
        const standing = await standingOf(this.#engine, newest);
        if (isByOptions && standing?.movedTo === current) await setOverride(this.#engine, newest);
        if (standing !== undefined && standing.build !== current && (isByOptions || !standing.stays)) left += 1;
        this.#underWay.delete(workflowId);
      } catch (error) {
        failures.push(error);
      }
    });
    if (failures.length > 0) throw failures[0];
    return left;
  }
}
