/** The library of a backend: start runs, decide, watch. Speaks to Temporal only. */
import type { Client } from '@temporalio/client';
import { Engine } from './engine.ts';
import { type InboxFilter, listWaiting, type WaitingRun } from './inbox.ts';
import type { ArtifactReader } from './ledger.ts';
import { RunHandle } from './run-handle.ts';
import { type SealingTargets, startRun, type StartRunOptions } from './start-run.ts';

export interface CountersignOptions {
  /** Connected to the namespace of the runs, with the payload codec of the workers. */
  readonly client: Client;
  /** For `authorizations`: where servers are, and the public keys of their zones. */
  readonly servers?: SealingTargets;
  /** For ledgers and watches of runs that have continued as new. */
  readonly artifacts?: ArtifactReader;
  /** Of every call but `result` and `watch`, which take their own; default 10 s. */
  readonly deadlineMs?: number;
}

export class Countersign {
  readonly #engine: Engine;
  readonly #servers: SealingTargets;
  readonly #artifacts: ArtifactReader | undefined;

  constructor({ client, servers = {}, artifacts, deadlineMs = 10_000 }: CountersignOptions) {
    this.#engine = new Engine(client, deadlineMs);
    this.#servers = servers;
    this.#artifacts = artifacts;
  }

  /** Starts a run, or finds the one that was started with this id and this spec. @throws CountersignError `RUN_ID_CONFLICT`, `SPEC_INVALID`, … */
  async startRun(options: StartRunOptions): Promise<RunHandle & { readonly started: boolean }> {
    const { started } = await startRun(this.#engine, this.#servers, options);
    return Object.assign(this.run(options.runId), { started });
  }

  run(runId: string): RunHandle {
    return new RunHandle(this.#engine, runId, this.#artifacts);
  }

  /** Requests of all runs that wait for a decision. */
  async waiting(filter: InboxFilter = {}): Promise<readonly WaitingRun[]> {
    return await this.#engine.call('', () => listWaiting(this.#engine.client, filter));
  }
}
