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
  /** Why the current code cannot take this history; absent if it can. */
  readonly error?: Error;
  /** Set if the history could not be read, or is encrypted with a key that is not here: it says nothing of the code. */
  readonly isUnread?: true;
}

type Histories = AsyncIterable<Recorded> | Iterable<Recorded>;

export async function* replayHistories(histories: Histories, options: ReplayOptions): AsyncGenerator<ReplayOutcome> {
  unhookReplays();
  const source = new Source(histories);
  while (!source.isDrained) {
    try {
      for await (const { error } of Worker.runReplayHistories(workerOptions(options), source.readable())) {
        yield* source.unreadable();
        yield source.settle(error);
      }
    } catch (error) {
      // The replayer itself stopped, for instance at a history with a hole: that is the result of the history it was
      // given.
      if (source.current === undefined) throw error;
      yield* source.unreadable();
      yield source.settle(error instanceof Error ? error : new Error(String(error)));
    }
  }
  yield* source.unreadable();
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

/** Feeds histories one after another to a replayer, and knows which of them a result is about. */
class Source {
  current: Extract<Recorded, { kind: 'history' }> | undefined;
  isDrained = false;
  readonly #broken: ReplayOutcome[] = [];
  readonly #histories: AsyncIterator<Recorded> | Iterator<Recorded>;

  constructor(histories: Histories) {
    this.#histories =
      Symbol.asyncIterator in histories ? histories[Symbol.asyncIterator]() : histories[Symbol.iterator]();
  }

  async *readable(): AsyncGenerator<{ workflowId: string; history: History }> {
    // No `for await`: it would end the source with a replayer that has stopped.
    for (let next = await this.#histories.next(); next.done !== true; next = await this.#histories.next()) {
      if (next.value.kind === 'unreadable') {
        const { name, workflowId, error } = next.value;
        this.#broken.push({ name, workflowId, error, isUnread: true });
        continue;
      }
      this.current = next.value;
      yield { workflowId: next.value.workflowId, history: next.value.history };
    }
    this.isDrained = true;
  }

  /** Returns the unreadable ones met on the way to the current history. */
  unreadable(): ReplayOutcome[] {
    return this.#broken.splice(0);
  }

  settle(error: Error | undefined): ReplayOutcome {
    // Sound: a result is always about the history that was handed out last.
    const { name, workflowId } = this.current as NonNullable<typeof this.current>;
    this.current = undefined;
    const keyless = error && keylessIn(error);
    if (keyless !== undefined) return { name, workflowId, error: keyless, isUnread: true };
    return { name, workflowId, ...defined({ error }) };
  }
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
