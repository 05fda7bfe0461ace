/**
 * Ties one attempt of a stretch to Temporal: its record goes there, and its end is heard from there.
 *
 * 1. A run that no longer wants the stretch ends the model step at once; calls under way are let finish, unless the run
 *    says otherwise. A worker that shuts down ends both.
 * 2. The SDK does not see these heartbeats, takes a long attempt for over, and drops how it ends. Then the answer or
 *    failure goes to Temporal by the client that sends the heartbeats.
 */
import { setMaxListeners } from 'node:events';
import {
  type ApplicationFailure,
  asyncLocalStorage,
  CancelledFailure,
  CompleteAsyncError,
  Context,
} from '@temporalio/activity';
import type { ActivityCancellationDetailsHolder } from '@temporalio/common/lib/activity-cancellation-details.js';
import { failureOf } from '../../contracts/failure.ts';
import type { StretchBeat } from '../../contracts/wire/stretch.ts';
import { progressIn } from '../../domain/shapes/reported-progress.ts';
import { codedFailure } from '../kit/activity.ts';
import { KeptRecord } from './record.ts';

/** The part of `AsyncCompletionClient` that is used. */
export interface Completion {
  heartbeat(taskToken: Uint8Array, beat: StretchBeat): Promise<void>;
  complete(taskToken: Uint8Array, answer: unknown): Promise<void>;
  fail(taskToken: Uint8Array, failure: ApplicationFailure): Promise<void>;
}

export interface LifelineParts {
  /** Sends heartbeats whose answer is awaited. */
  readonly completion: Completion;
  /** Asks a run that no longer wants the stretch whether calls under way are to be cancelled. It ends by itself. */
  readonly cancelsCalls: (workflowId: string, runId: string) => Promise<boolean>;
}

export class Lifeline {
  readonly record: KeptRecord;
  readonly #parts: LifelineParts;
  readonly #context = Context.current();
  readonly #steps = new AbortController();
  readonly #calls = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #isAsking = false;

  constructor(parts: LifelineParts) {
    this.#parts = parts;
    const { taskToken } = this.#context.info;
    this.record = new KeptRecord(
      async (beat) => await parts.completion.heartbeat(taskToken, beat),
      (what) => {
        if (what === 'cancelled') void this.#cancelled();
        else this.#end('Temporal no longer waits for this stretch.');
      },
    );
    const { cancellationSignal } = this.#context;
    const told = (): void => {
      if (!this.#isMissed) this.#end('The worker shuts down.');
    };
    if (cancellationSignal.aborted) told();
    else cancellationSignal.addEventListener('abort', told, { once: true });
  }

  /** Ends the model step, and begins nothing more, at that time. @param at epoch ms */
  endAt(at: number): void {
    const over = (): void => this.#steps.abort(new CancelledFailure('The time of this stretch is over.'));
    this.#timer = setTimeout(over, Math.max(0, at - Date.now()));
  }

  /** True once nothing new may begin. */
  get isEnding(): boolean {
    return this.#steps.signal.aborted;
  }

  /** True once calls that have not left are not to leave, because the worker or the attempt ends. */
  get isEnded(): boolean {
    return this.#calls.signal.aborted;
  }

  /** Runs an activity that ends with the stretch. */
  async step<T>(activity: () => Promise<T>): Promise<T> {
    return await inside(this.#context, this.#steps.signal, activity);
  }

  /** Runs the activity of a call. It may outlast the end of the stretch, and its progress is told while it runs. */
  async call<T>(callId: string, activity: () => Promise<T>): Promise<T> {
    const hear = (details: unknown): void => {
      const progress = progressIn(details);
      if (progress?.callId === callId) this.record.report(progress);
    };
    try {
      return await inside(this.#context, this.#calls.signal, activity, hear);
    } finally {
      this.record.forget(callId);
    }
  }

  /** Does the work of the attempt, and gives its answer to Temporal. */
  async through<T>(work: () => Promise<T>): Promise<T> {
    const { completion } = this.#parts;
    const { taskToken } = this.#context.info;
    let tell: () => Promise<void>;
    try {
      const answer = await work();
      this.assertWaitedFor();
      if (!this.#isMissed) return answer;
      tell = async () => await completion.complete(taskToken, answer);
    } catch (error) {
      if (!this.#isMissed || this.record.isLost) throw error;
      tell = async () => await completion.fail(taskToken, codedFailure(error));
    } finally {
      this.record.stop();
      clearTimeout(this.#timer);
    }
    await tell();
    throw new CompleteAsyncError();
  }

  /** Ends an attempt that is over for Temporal; nothing that it says counts any more. */
  assertWaitedFor(): void {
    if (!this.record.isLost) return;
    throw failureOf('INTERNAL', 'Temporal no longer waits for this stretch.', {}, undefined, true);
  }

  get #isMissed(): boolean {
    return this.#context.cancellationDetails?.timedOut === true;
  }

  async #cancelled(): Promise<void> {
    this.#steps.abort(new CancelledFailure('The run no longer wants this stretch.'));
    const { workflowExecution } = this.#context.info;
    // Each heartbeat from now on says the same, and asks again. One question at a time is enough for a run that is
    // slow.
    if (workflowExecution === undefined || this.#isAsking) return;
    const { workflowId, runId } = workflowExecution;
    this.#isAsking = true;
    const withCalls = await this.#parts.cancelsCalls(workflowId, runId).catch(() => false);
    this.#isAsking = false;
    if (withCalls) this.#calls.abort(new CancelledFailure('The run was ended with its calls.'));
  }

  #end(reason: string): void {
    this.#steps.abort(new CancelledFailure(reason));
    this.#calls.abort(new CancelledFailure(reason));
  }
}

/**
 * Runs another activity inside of a stretch: it sees the same facts of Temporal, and a cancellation and heartbeats of
 * its own.
 * @param signal ends the inner activity; its reason is a `CancelledFailure`
 * @param hear takes the details of its heartbeats, which go no further: the record of the stretch is its heartbeat, and
 * those of inner activities would replace it
 * @returns what the inner activity returns
 */
export async function inside<T>(
  outer: Context,
  signal: AbortSignal,
  activity: () => Promise<T>,
  hear: (details: unknown) => void = () => undefined,
): Promise<T> {
  // Node takes the eleventh call of a turn for a leak, and warns.
  setMaxListeners(0, signal);
  let told = (): void => undefined;
  const cancelled = new Promise<never>((_, reject) => {
    told = () => reject(reasonOf(signal));
    if (signal.aborted) told();
    else signal.addEventListener('abort', told, { once: true });
  });
  // Nobody need wait for it.
  cancelled.catch(() => undefined);
  // Says if the worker shuts down, which only the SDK knows; it may become known later.
  const details: ActivityCancellationDetailsHolder = Object.defineProperty({}, 'details', {
    get: () => outer.cancellationDetails,
  });
  const inner = new Context(outer.info, cancelled, signal, hear, undefined, outer.log, outer.metricMeter, details);
  try {
    return await asyncLocalStorage.run(inner, activity);
  } finally {
    // The signal outlives the activity, and many others share it.
    signal.removeEventListener('abort', told);
  }
}

function reasonOf({ reason }: AbortSignal): Error {
  return reason instanceof Error ? reason : new CancelledFailure('The activity was cancelled.');
}
