/**
 * Keeps the record of a stretch with Temporal: what was decided is there before anything is sent (INV-G1,
 * docs/adr/0058).
 *
 * 1. The record is the details of the activity's heartbeats. They go through the client for asynchronous completion,
 *    whose answer is awaited; `heartbeat()` of an activity is neither awaited nor acknowledged.
 * 2. One heartbeat is under way at a time, so an older record never replaces a newer one. After a heartbeat whose fate
 *    is unknown, nothing more is acknowledged in this attempt.
 * 3. Progress of calls rides on the heartbeats that are sent anyway. None is sent for it, so none is in the way of a
 *    record, and each has the newest record.
 * 4. Temporal takes heartbeats only as long as it waits for this attempt: a worker that was frozen for too long is told
 *    so, and sends nothing more.
 */
import {
  ActivityCancelledError,
  ActivityNotFoundError,
  ActivityPausedError,
  ActivityResetError,
} from '@temporalio/client';
import { defined } from '../../contracts/defined.ts';
import type { BeginRecord, ReportedProgress, StretchBeat, StretchedTurn } from '../../contracts/wire/stretch.ts';
import { MOST_REPORTED } from '../../domain/shapes/reported-progress.ts';

/** A message that ends the stretch is heard within this time. */
const EVERY_MS = 1_000;

/**
 * @throws ActivityCancelledError, ActivityPausedError, ActivityResetError if the stretch is no longer wanted; the
 * record was taken all the same
 * @throws ActivityNotFoundError if this attempt is over
 */
export type TellTemporal = (beat: StretchBeat) => Promise<void>;

/** Answers of heartbeats: the run no longer wants the stretch, or Temporal no longer waits for it. */
type Heard = (what: 'cancelled' | 'lost') => void;

export class KeptRecord {
  readonly #tell: TellTemporal;
  readonly #heard: Heard;
  readonly #timer: NodeJS.Timeout;
  /** By call id; the call that was heard of last comes last. */
  readonly #progress = new Map<string, ReportedProgress>();
  #turns: readonly StretchedTurn[] = [];
  #begun: Omit<BeginRecord, 'turns'> = {};
  #queue: Promise<void> = Promise.resolve();
  #beats = 0;
  #isDoubtful = false;
  isCancelled = false;
  /** True if Temporal no longer waits for this attempt: what it returns is dropped. */
  isLost = false;

  constructor(tell: TellTemporal, heard: Heard) {
    this.#tell = tell;
    this.#heard = heard;
    this.#timer = setInterval(() => this.#beat(), EVERY_MS);
  }

  /** True if no turn is on record. */
  get isEmpty(): boolean {
    return this.#turns.length === 0;
  }

  begin(begun: Omit<BeginRecord, 'turns'>): void {
    this.#begun = begun;
  }

  /** Takes what is known by now; the next heartbeat tells it. */
  note(turns: readonly StretchedTurn[]): void {
    this.#turns = turns;
  }

  /** Takes how far a call under way has come; the next heartbeat tells it. */
  report(progress: ReportedProgress): void {
    this.#progress.delete(progress.callId);
    this.#progress.set(progress.callId, progress);
  }

  forget(callId: string): void {
    this.#progress.delete(callId);
  }

  /** Returns true once Temporal has the record and the stretch is still wanted. */
  async acknowledge(turns: readonly StretchedTurn[]): Promise<boolean> {
    this.#turns = turns;
    await this.#told();
    return !this.#isDoubtful && !this.isCancelled && !this.isLost;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** A heartbeat that waits for another one would say the same. */
  #beat(): void {
    if (this.#beats === 0) void this.#told();
  }

  async #told(): Promise<void> {
    this.#beats += 1;
    const next = this.#queue.then(async () => await this.#tellOnce());
    this.#queue = next;
    await next;
    this.#beats -= 1;
  }

  async #tellOnce(): Promise<void> {
    if (this.isLost) return;
    // A record is a heartbeat, too.
    this.#timer.refresh();
    try {
      const progress = [...this.#progress.values()].slice(-MOST_REPORTED);
      const reported = progress.length === 0 ? undefined : progress;
      // In this order people read it: Temporal UI shows the first lines.
      await this.#tell({ ...defined({ progress: reported }), turns: this.#turns, ...this.#begun });
    } catch (error) {
      if (ENDING.some((kind) => error instanceof kind)) {
        this.isCancelled = true;
        this.#heard('cancelled');
      } else if (error instanceof ActivityNotFoundError) {
        this.isLost = true;
        this.#heard('lost');
      } else this.#isDoubtful = true;
    }
  }
}

/** Temporal has taken the record, and somebody wants the activity to end: the run, or an operator. */
const ENDING = [ActivityCancelledError, ActivityPausedError, ActivityResetError];
