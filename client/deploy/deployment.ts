/** A worker deployment, as operators see and change it from a program (docs/operations/moving-runs.md). */
import type { Client } from '@temporalio/client';
import { Engine } from '../engine/engine.ts';
import { drain, type Drained, type DrainOptions } from './drain.ts';
import { promote, ramp, rollback, type RolledBack, type Routed } from './routing.ts';
import { type Build, countPinned, type DeploymentState, readDeployment } from './versions.ts';

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

  /** Has a build take all new runs. */
  async promote(build: string): Promise<Routed> {
    return await promote(this.#engine, this.#name, build);
  }

  /** Has a build take a share of new runs; 0 ends it. */
  async ramp(build: string, percent: number): Promise<Routed> {
    return await ramp(this.#engine, this.#name, build, percent);
  }

  /** Ends a ramp, or makes the build current again that was current before. */
  async rollback(to?: string): Promise<RolledBack> {
    return await rollback(this.#engine, this.#name, to);
  }

  /** Moves the runs that wait on a build to the current one. */
  async drain(build: string, options?: DrainOptions): Promise<Drained> {
    return await drain(this.#engine, this.#name, build, options);
  }
}
