/**
 * Replays recorded histories against the current workflow code, as a deploy must before it meets waiting runs (INV-D1).
 *
 * 1. Interceptors and codec are those of the workers, or every history diverges.
 * 2. Each history has its own result, in their order; one that is unreadable, or stops the replayer, hides no other.
 */
import type { Client } from '@temporalio/client';
import { type ReplayWorkerOptions, Worker } from '@temporalio/worker';
import { ReusableVMWorkflowCreator } from '@temporalio/worker/lib/workflow/reusable-vm.js';
import { globalHandlers } from '@temporalio/worker/lib/workflow/vm-shared.js';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import type { WorkflowBundle } from '../bundle.ts';
import { createWorkerDataConverter } from '../codec.ts';
import { zoneKeysOf } from '../config/secrets.ts';
import { UncheckedZoneCodec, ZoneCodec } from '../zone.ts';
import type { History, Recorded } from './recorded-history.ts';

export interface ReplayOptions {
  readonly bundle: WorkflowBundle;
  /**
   * For the payload codecs; the keys must include those with which the histories were recorded. Without zone keys, what
   * workers wrote is taken as it is marked.
   */
  readonly config: Pick<Config, 'encryption'> & Partial<Pick<Config, 'trust'>>;
  /** Namespace in which the runs were recorded, which digests cover. Default `default`. */
  readonly namespace?: string;
  /** Sinks for a bundle made for inspection; `semantics.ts` describes them. */
  readonly sinks?: NonNullable<ReplayWorkerOptions['sinks']>;
  /** Prefix of the queue name that replayed runs see. Default `countersign-replay`. */
  readonly name?: string;
}

export interface ReplayOutcome {
  /** A file, or workflow id and Temporal run id. */
  readonly name: string;
  readonly workflowId: string;
  /** Absent if it could not be read. */
  readonly history?: History;
  /** Why the current code cannot take this history; absent if it can. */
  readonly error?: Error;
  /** Set if the history could not be read, or is encrypted with a key that is not here: it says nothing of the code. */
  readonly isUnread?: true;
}

type Histories = AsyncIterable<Recorded> | Iterable<Recorded>;

export async function* replayHistories(histories: Histories, options: ReplayOptions): AsyncGenerator<ReplayOutcome> {
  const replayer = new Replayer(options);
  try {
    for await (const recorded of histories) yield await replayer.replay(recorded);
  } finally {
    await replayer.close();
  }
}

type Given = Pick<Extract<Recorded, { kind: 'history' }>, 'workflowId' | 'history'>;

/** Replays one history after the other in one worker. */
export class Replayer {
  readonly #options: ReplayOptions;
  #replays: ReturnType<typeof Worker.runReplayHistories> | undefined;
  /** The worker takes it when its result is asked for. */
  #given: Given | undefined;

  constructor(options: ReplayOptions) {
    unhookReplays();
    this.#options = options;
  }

  async replay(recorded: Recorded): Promise<ReplayOutcome> {
    const { name, workflowId } = recorded;
    if (recorded.kind === 'unreadable') return { name, workflowId, error: recorded.error, isUnread: true };
    const { history } = recorded;
    const error = await this.#errorOf({ workflowId, history });
    const keyless = error && keylessIn(error);
    if (keyless !== undefined) return { name, workflowId, history, error: keyless, isUnread: true };
    return { name, workflowId, history, ...defined({ error }) };
  }

  async close(): Promise<void> {
    await this.#replays?.return?.();
  }

  async *#source(): AsyncGenerator<Given> {
    for (let given = this.#given; given !== undefined; given = this.#given) {
      this.#given = undefined;
      yield given;
    }
  }

  async #errorOf(given: Given): Promise<Error | undefined> {
    this.#given = given;
    this.#replays ??= Worker.runReplayHistories(workerOptions(this.#options), this.#source());
    try {
      const next = await this.#replays.next();
      if (next.done !== true) return next.value.error;
      this.#replays = undefined;
      return new Error('the replayer gave no result');
    } catch (error) {
      this.#replays = undefined;
      // No worker could be made.
      if (this.#given !== undefined) throw error;
      // The replayer itself stopped, for instance at a history with a hole; the next history gets another one.
      return error instanceof Error ? error : new Error(String(error));
    }
  }
}

let isUnhooked = false;

/**
 * Takes from a replay, on its first call, what the SDK installs for its debugger (docs/adr/0064). A replay runs on the
 * main thread. For the query `__stack_trace`, the SDK puts a hook on every promise of the whole process, compiles a
 * function in each call of it, and never takes it away. No replay is asked that query. Each call into workflow code has
 * a limit of 49 days, and Node.js starts a system thread for every limit.
 */
function unhookReplays(): void {
  if (isUnhooked) return;
  isUnhooked = true;
  // Another replay of this process may have installed them.
  if (globalHandlers.installed) globalHandlers.uninstall();
  Object.assign(globalHandlers, { setPromiseHook: () => undefined, promiseHookInstalled: false });
  const create = ReusableVMWorkflowCreator.create.bind(ReusableVMWorkflowCreator);
  // Sound: the SDK hands the limit on to `node:vm`, which takes `undefined` for none.
  const unlimited = undefined as unknown as number;
  Object.assign(ReusableVMWorkflowCreator, {
    create: async (bundle: Parameters<typeof create>[0], _limit: number, ...rest: Rest) =>
      await create(bundle, unlimited, ...rest),
  });
}

type Rest = Parameters<typeof ReusableVMWorkflowCreator.create> extends [unknown, unknown, ...infer R] ? R : never;

type Execution = Readonly<Record<'workflowId' | 'runId', string>>;

export async function liveHistory(
  { connection, workflow }: Client,
  { workflowId, runId }: Execution,
  deadlineMs: number,
): Promise<Recorded> {
  const name = `${workflowId} ${runId}`;
  const fetch = async () => await workflow.getHandle(workflowId, runId).fetchHistory();
  try {
    const history = await connection.withDeadline(Date.now() + deadlineMs, fetch);
    return { kind: 'history', name, workflowId, history };
  } catch (error) {
    return { kind: 'unreadable', name, workflowId, error: error instanceof Error ? error : new Error(String(error)) };
  }
}

/** @param deadlineMs for each of them, since a namespace may hold thousands */
export async function* liveHistories(
  client: Client,
  executions: AsyncIterable<Execution>,
  deadlineMs: number,
): AsyncGenerator<Recorded> {
  const listed = executions[Symbol.asyncIterator]();
  for (;;) {
    const next = await client.connection.withDeadline(Date.now() + deadlineMs, () => listed.next());
    if (next.done === true) return;
    yield await liveHistory(client, next.value, deadlineMs);
  }
}

function workerOptions({
  bundle,
  config,
  namespace = 'default',
  sinks = {},
  name = 'countersign-replay',
}: ReplayOptions): ReplayWorkerOptions {
  // The type of a replay worker leaves the namespace out; the worker accepts it, and `workflowInfo` shows it.
  const withNamespace = { namespace };
  const zone = zoneKeysOf(config);
  return {
    ...withNamespace,
    replayName: name,
    sinks,
    workflowBundle: { code: bundle.code },
    dataConverter: createWorkerDataConverter(config, zone.length > 0 ? new ZoneCodec(zone) : new UncheckedZoneCodec()),
  };
}

/** The words with which a run stops that needs a key it has not (`workflows/entity/unread.ts`). */
const KEYLESS = /What this execution was given .+?\. Give this worker the encryption\.keys [^.]+\./;

function keylessIn({ message }: Error): CountersignError | undefined {
  const [says] = KEYLESS.exec(message) ?? [];
  if (says === undefined) return undefined;
  const told = `The history cannot be read here, which says nothing of this code: ${says}`;
  return new CountersignError('CONFIG_INVALID', told, { path: 'encryption.keys' });
}

/** True if nothing can be said of a history, since a key of it is not here. */
export function isKeyless(error: Error): boolean {
  return error instanceof CountersignError && error.facts['path'] === 'encryption.keys';
}
