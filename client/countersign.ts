/** The library of a backend: it starts runs, decides on calls, watches runs and reads catalogs, by Temporal alone. */
import type { Client } from '@temporalio/client';
import { defined } from '../contracts/defined.ts';
import { CountersignError } from '../contracts/errors.ts';
import { DEFAULT_TASK_QUEUE } from '../contracts/names.ts';
import { isFields } from '../domain/shapes/inputs.ts';
import { CatalogHandle } from './catalog/catalog-handle.ts';
import { listCatalogs, type ListedCatalog } from './catalog/list.ts';
import { Engine } from './engine/engine.ts';
import { type Inbox, type InboxFilter, listWaiting, type WaitingRun } from './run/inbox.ts';
import type { ArtifactReader } from './ledger/ledger.ts';
import { RunHandle } from './run/run-handle.ts';
import type { Signer } from './signing/signing.ts';
import { Tickets } from './gate/tickets.ts';
import { type CallOptions, callOptions, SingleCall } from './run/single-call.ts';
import { type SealingTargets, startRun, type StartRunOptions } from './run/start-run.ts';

export interface CountersignOptions {
  /** A client connected to the namespace of the runs, with the payload codec of the workers. */
  readonly client: Client;
  /** URLs of servers, and the public keys of their zones. Needed to seal tokens. */
  readonly servers?: SealingTargets;
  /** Reads stored ledger segments of runs that continued as new, and tool definitions of catalogs. */
  readonly artifacts?: ArtifactReader;
  /** Task queue of the workers, for catalogs and for runs that name none. */
  readonly taskQueue?: string;
  /** Signs starts and messages of runs and catalogs in trust mode `signed`. */
  readonly signer?: Signer;
  /** Deadline of every call but `result` and `watch`; default 10 s, for messages to runs and catalogs 20 s. */
  readonly deadlineMs?: number;
}

const NO_CLIENT =
  'client is missing. Give a Client of @temporalio/client: new Countersign({ client: new Client({ connection }) }).';

export class Countersign {
  readonly #engine: Engine;
  readonly #options: Pick<CountersignOptions, 'servers' | 'artifacts' | 'signer'> & { readonly taskQueue: string };

  /** @throws CountersignError `USAGE` without a client */
  constructor(options: CountersignOptions) {
    // A caller without types may give none.
    if (!isFields(options) || !isFields(options.client)) throw new CountersignError('USAGE', NO_CLIENT);
    const { client, deadlineMs, servers, taskQueue = DEFAULT_TASK_QUEUE, artifacts, signer } = options;
    this.#engine = new Engine(client, deadlineMs);
    this.#options = { taskQueue, ...defined({ servers, artifacts, signer }) };
  }

  /**
   * Starts a run, or finds the one that was started with this id and this spec.
   * @throws CountersignError `RUN_ID_CONFLICT`, `SPEC_INVALID`, …
   */
  async startRun(options: StartRunOptions): Promise<RunHandle & { readonly started: boolean }> {
    const { servers = {}, taskQueue, signer } = this.#options;
    // A caller without types may give none.
    const given: StartRunOptions = { ...options };
    const wanted = given.taskQueue === undefined ? { ...given, taskQueue } : given;
    const started = await startRun(this.#engine, servers, wanted, signer);
    return Object.assign(this.run(options.runId), { started });
  }

  /**
   * Has one tool called through the gate, without a model: the same policy, requests, tokens and ledger as in a run.
   * The same id with the same call is the same call.
   * @throws CountersignError `RUN_ID_CONFLICT`, `SPEC_INVALID`, …
   */
  async call(options: CallOptions): Promise<SingleCall> {
    const run = await this.startRun(callOptions(options));
    return new SingleCall(run, run.started);
  }

  /** Returns the tickets of calls that MCP clients make: a client asks again for an outcome that it did not get. */
  tickets(keepSeconds: number, taskQueue = this.#options.taskQueue): Tickets {
    return new Tickets(this.#engine, { taskQueue, keepSeconds });
  }

  run(runId: string): RunHandle {
    return new RunHandle(this.#engine, runId, this.#options.artifacts, this.#options.signer);
  }

  /** Lists the requests that wait for a decision, the first deadline first; `inbox` says what is not listed. */
  async waiting(filter: InboxFilter = {}): Promise<readonly WaitingRun[]> {
    return (await this.inbox(filter)).runs;
  }

  /** Lists what `waiting` does, and says how many runs wait beyond that, and which cannot be read here. */
  async inbox(filter: InboxFilter = {}): Promise<Inbox> {
    return await listWaiting(this.#engine, filter);
  }

  /** Returns the handle of the catalog of one server for one tenant. @throws CountersignError `CATALOG_INVALID` */
  catalog(server: string, tenant = 'default'): CatalogHandle {
    return new CatalogHandle(this.#engine, { tenant, server }, this.#options);
  }

  /** Lists every catalog, including those whose server is disconnected. */
  async catalogs(filter: { readonly tenant?: string } = {}): Promise<readonly ListedCatalog[]> {
    return await listCatalogs(this.#engine, filter);
  }
}
