/**
 * A worker deployment, as operators see and change it from a program (docs/operations/moving-runs.md).
 *
 * 1. Each change may be repeated: where it is done already, nothing is sent. Runs that have begun stay where they are.
 * 2. A change is sent with what was read before it, so two people at once do not undo each other unseen.
 */
import { status as grpcStatus } from '@grpc/grpc-js';
import { type Client, isGrpcServiceError } from '@temporalio/client';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { Engine } from '../engine/engine.ts';
import { drain, type Drained, type DrainOptions } from './drain.ts';
import { withdrawMoves } from './moves.ts';
import {
  type Build,
  buildOf,
  countPinned,
  type DeploymentState,
  percentOf,
  readDeployment,
  unservedQueue,
} from './versions.ts';
import { watch, type Watched, type WatchOptions } from './watch.ts';

export interface DeploymentOptions {
  readonly client: Client;
  /** `worker.deployment.name` of the workers. */
  readonly name: string;
  readonly deadlineMs?: number;
}

export interface DeploymentStatus extends Omit<DeploymentState, 'builds' | 'token'> {
  readonly builds: readonly (Build & {
    /** Open runs, catalogs and other workflows that stay with the build. */
    readonly runs: number;
  })[];
}

export class Deployment {
  readonly #engine: Engine;
  readonly #name: string;

  constructor({ client, name, deadlineMs }: DeploymentOptions) {
    this.#engine = new Engine(client, deadlineMs);
    this.#name = name;
  }

  /** @throws CountersignError `DEPLOYMENT_UNKNOWN` */
  async status(): Promise<DeploymentStatus> {
    const { token: _, builds: found, ...state } = await readDeployment(this.#engine, this.#name);
    const builds = [];
    for (const each of found) builds.push({ ...each, runs: await countPinned(this.#engine, this.#name, each.build) });
    return { ...state, builds };
  }

  /** Has a build take all new runs. A ramp ends with that: one to another build first, and a repeat does the rest. */
  async promote(build: string): Promise<Routed> {
    const state = await this.#read();
    buildOf(state, build);
    const isCurrent = state.current === build;
    const ended = state.ramping?.build === build ? undefined : state.ramping;
    if (isCurrent && ended === undefined) return routed(state, false);
    if (!isCurrent) await this.#assertServed(state, build);
    if (ended !== undefined) await this.#send(state, '', 0);
    if (!isCurrent) await this.#send(ended === undefined ? state : await this.#withoutRamp(state), build);
    return { ...routed(await this.#read(), true), ...defined({ ended }) };
  }

  /** Has a build take a share of new runs. @param percent of new runs, above 0 and up to 100; 0 ends the ramp */
  async ramp(build: string, percent: number): Promise<Routed> {
    const state = await this.#read();
    buildOf(state, build);
    if (state.current === build) {
      const message = `Build ${build} takes new runs already, as the current one. Name another; see them: countersign deploy status`;
      throw new CountersignError('BUILD_CURRENT', message, { deployment: this.#name, build });
    }
    const isRamping = state.ramping?.build === build;
    if (isRamping ? state.ramping?.percent === percentOf(percent) : percent === 0) return routed(state, false);
    if (percent > 0) await this.#assertServed(state, build);
    await this.#send(state, percent === 0 ? '' : build, percent);
    return routed(await this.#read(), true);
  }

  /**
   * Leaves the newest build: ends its ramp, or else has the build before take new runs. Repeated, it goes no further
   * back.
   * @param to the build to go back to, where Temporal cannot tell, or another one is wanted
   */
  async rollback(to?: string): Promise<RolledBack> {
    const state = await this.#read();
    if (to !== undefined) buildOf(state, to);
    const { current, ramping } = state;
    const isEarliest = to === undefined && ramping === undefined && newerAndLeft(state).length > 0;
    const target = to ?? (ramping !== undefined || isEarliest ? current : previous(state).build);
    if (target !== undefined && target !== current) await this.#assertServed(state, target);
    if (ramping !== undefined) await this.#send(state, '', 0);
    if (target !== undefined && target !== current)
      await this.#send(ramping === undefined ? state : await this.#withoutRamp(state), target);
    const isChanged = ramping !== undefined || target !== current;
    const now = await this.#read();
    // Repeated, it ends what an earlier one has begun.
    const leaving = isChanged ? [ramping?.build, current] : newerAndLeft(now);
    const left: LeftBuild[] = [];
    for (const build of new Set(leaving)) {
      if (build === undefined || build === now.current || build === now.ramping?.build) continue;
      const withdrawn = await withdrawMoves(this.#engine, this.#name, build);
      left.push({ build, withdrawn, remaining: await countPinned(this.#engine, this.#name, build) });
    }
    return { ...routed(now, isChanged), left, isEarliest };
  }

  /** Looks for a while how the runs of a build do. */
  async watch(build: string, options?: WatchOptions): Promise<Watched> {
    return await watch(this.#engine, this.#name, build, options);
  }

  /** Moves the runs that wait on a build to the current one. */
  async drain(build: string, options?: DrainOptions): Promise<Drained> {
    return await drain(this.#engine, this.#name, build, options);
  }

  async #read(): Promise<DeploymentState> {
    return await readDeployment(this.#engine, this.#name);
  }

  /** Reads the deployment without its ramp. @throws `DEPLOYMENT_CHANGED` if somebody else has changed it meanwhile */
  async #withoutRamp({ current }: DeploymentState): Promise<DeploymentState> {
    const state = await this.#read();
    if (state.current === current && state.ramping === undefined) return state;
    const message = `The ramp was ended, and somebody else has changed deployment ${this.#name} at the same time: see it (countersign deploy status), and repeat what is still wanted.`;
    throw new CountersignError('DEPLOYMENT_CHANGED', message, { deployment: this.#name });
  }

  /** Refuses a build that does not serve what the current one serves: runs would wait for nobody. */
  async #assertServed({ current }: DeploymentState, build: string): Promise<void> {
    const like = current ?? build;
    const taskQueue = await unservedQueue(this.#engine, this.#name, build, like);
    if (taskQueue === undefined) return;
    const message = `No worker of build ${build} takes runs from task queue ${taskQueue}, which build ${like} serves. Nothing was changed; start workers of the build for that queue, and repeat the command.`;
    throw new CountersignError('BUILD_UNSERVED', message, { deployment: this.#name, build, taskQueue });
  }

  /** Makes the build current; with a share, gives it that of new runs, or ends the ramp where no build is named. */
  async #send({ token: conflictToken }: DeploymentState, buildId: string, percentage?: number): Promise<void> {
    const { namespace, client } = this.#engine;
    const { workflowService } = client.connection;
    const { identity } = client.options;
    const request = { namespace, deploymentName: this.#name, conflictToken, identity, buildId };
    await this.#engine.call('', async () => {
      try {
        await (percentage === undefined
          ? workflowService.setWorkerDeploymentCurrentVersion(request)
          : workflowService.setWorkerDeploymentRampingVersion({ ...request, percentage }));
      } catch (error) {
        throw refusalOf(error, this.#name, buildId);
      }
    });
  }
}

export interface Routed {
  readonly deployment: string;
  /** False if it was so already. */
  readonly changed: boolean;
  readonly current?: string;
  readonly ramping?: { readonly build: string; readonly percent: number };
  /** The share of another build that a promotion has ended. */
  readonly ended?: { readonly build: string; readonly percent: number };
}

/** A build that takes no new runs any more. */
export interface LeftBuild {
  readonly build: string;
  /** Runs that were to move to it, and stay where they were: none of them has worked on it. */
  readonly withdrawn: number;
  /** Runs that have worked on it, and stay with it until it is drained. */
  readonly remaining: number;
}

export interface RolledBack extends Routed {
  /** Builds that were left, now or before; newest first. */
  readonly left: readonly LeftBuild[];
  /** True if nothing was changed because Temporal tells of no earlier build to go back to. */
  readonly isEarliest: boolean;
}

function newerAndLeft({ builds, current, ramping }: DeploymentState): readonly string[] {
  const since = builds.find(({ build }) => build === current)?.createdAt ?? Number.POSITIVE_INFINITY;
  const left = builds.filter(({ createdAt, endedAt }) => createdAt > since && endedAt !== undefined);
  return left.map(({ build }) => build).filter((build) => build !== ramping?.build);
}

/** One change of the current build ends one and begins another: Temporal writes both times of one clock. */
const SAME_CHANGE_MS = 1_000;

function previous({ builds, current, deployment }: DeploymentState): Build {
  const since = builds.find(({ build }) => build === current)?.currentSince ?? Number.POSITIVE_INFINITY;
  const apart = ({ endedAt = Number.NEGATIVE_INFINITY }: Build): number => Math.abs(endedAt - since);
  const others = builds.filter(({ build }) => build !== current);
  const [nearest] = others.toSorted((one, other) => apart(one) - apart(other));
  if (nearest !== undefined && apart(nearest) <= SAME_CHANGE_MS) return nearest;
  const message = `Temporal does not tell which build of deployment ${deployment} was current before ${current ?? 'now'}. Nothing was changed; name it: countersign deploy rollback --to BUILD`;
  throw new CountersignError('BUILD_UNKNOWN', message, { deployment });
}

function refusalOf(error: unknown, deployment: string, build: string): unknown {
  if (!isGrpcServiceError(error) || error.code !== grpcStatus.FAILED_PRECONDITION) return error;
  const facts = { deployment, build };
  if (/conflict token/i.test(error.details)) {
    const message = `Deployment ${deployment} was changed by somebody else meanwhile; nothing was changed now. Look, and decide again: countersign deploy status`;
    return new CountersignError('DEPLOYMENT_CHANGED', message, facts, { cause: error });
  }
  const message = `Temporal does not send runs to build ${build}: ${error.details.replace(/\.+$/, '')}. Start workers of the build for the same task queue, and repeat the command.`;
  return new CountersignError('BUILD_UNSERVED', message, facts, { cause: error });
}

function routed({ deployment, current, ramping }: DeploymentState, isChanged: boolean): Routed {
  return { deployment, changed: isChanged, ...defined({ current, ramping }) };
}
