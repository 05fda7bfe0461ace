/**
 * One execution of a run as the workflow holds it.
 *
 * It owns the run's state and journal while this execution lives. It does not own the rules (`domain/`) or waiting
 * (`turn.ts`).
 * 1. Changes of state that belong in the ledger go through `commit`, which records their facts.
 */
import { CancellationScope, workflowInfo } from '@temporalio/workflow';
import { defined } from '../../contracts/defined.ts';
import type { Outcome } from '../../contracts/schemas/call.ts';
import type { RunSpec } from '../../contracts/schemas/run-spec.ts';
import type { Tally } from '../../contracts/schemas/run-state.ts';
import type { Message } from '../../contracts/schemas/transcript.ts';
import type { TrustSet } from '../../contracts/schemas/trust.ts';
import type { PreparedRun } from '../../contracts/wire/run.ts';
import { isHeldOpen } from '../../domain/legacy-2025/open-question.ts';
import { withGrantEnd } from '../../domain/request/grant-end.ts';
import { ended } from '../../domain/request/transitions.ts';
import { type Carry, carryVersionOf } from '../../domain/run/carry.ts';
import {
  carriedExecutions,
  type Change,
  decidedIn,
  type EndStatus,
  type Execution,
  type Phase,
  type Run,
  type RunIds,
  startRun,
  statusOf,
} from '../../domain/state/run.ts';
import { EMPTY_JOURNAL, Journal, type JournalHead, marked } from '../../domain/run/journal.ts';
import { EMPTY_TALLY } from '../../domain/run/limits.ts';
import { isChecking } from '../interceptors/zone.ts';
import type { RunIdentity, ToolsetRef } from '../../contracts/wire/identity.ts';

export type Prepared = Omit<PreparedRun, 'opening'>;

/** Outcome of a call that is under way when the run fails: nobody will hear its answer. */
const LOST: Outcome = {
  kind: 'unknown',
  code: 'OUTCOME_UNKNOWN',
  message: 'The run ended while the call was under way.',
};

/** State of one execution, shared by its handlers and its main loop. */
export class LiveRun {
  /** The spec as the starter sent it; it is read only after `prepareRun` has validated it. */
  readonly spec: RunSpec;
  readonly journal: Journal;
  readonly turnAtStart: number;
  /** Scope of waits and model steps; cancelled by `stop` and by cancellation of the run. */
  readonly work = new CancellationScope();
  /** Scope of calls in flight; cancelled by cancellation of the run, and by a `stop` that says so. */
  readonly flights = new CancellationScope();
  /**
   * Calls whose dispatch is under way. Its worker holds the server's connection and may report the server's questions.
   */
  readonly dispatching = new Set<string>();
  /** Scopes of the edits that are being judged. */
  readonly judging = new Set<CancellationScope>();
  /** Calls whose servers are being polled about their task; between two polls a run may hand over. */
  readonly polling = new Set<string>();
  /** Servers whose tools are being listed. */
  readonly listing = new Set<string>();
  /** Settles once this execution has let go of every call of the turn: with its outcome, or for the next execution. */
  settling: Promise<void> = Promise.resolve();
  /** True once the run refuses further edits, because it waits for the last judging before it hands over. */
  takesNoEdits = false;
  run: Run;
  phase: Phase = 'preparing';
  toolset: readonly ToolsetRef[];
  /**
   * The part of the transcript that a model step finds by digest: seen by the last step, or stored by earlier
   * executions.
   */
  seen: { readonly length: number; readonly digest: string };
  /** True while the run hands over to its next execution; nothing new is dispatched. */
  rolling = false;
  nudged = false;
  /** True while the run ends; it takes no more messages. */
  closing = false;
  /** Final status of the run, set while the last part of its journal is being stored. */
  endsAs: EndStatus | undefined;
  timeIsUp = false;
  /** Why the run was limited, stopped or failed: the limit, the reason, or the code and message. */
  because: string | undefined;
  updates = 0;
  /** Number of signals and activity answers read, see `workflows/entity/unread.ts`. */
  looked = 0;
  isReadingTrust = false;
  /** Time at which a sender last made this execution read its keys, in epoch ms. */
  trustAskedAt = 0;
  /** Called when something that people see has changed. */
  onChange: () => void = () => undefined;
  #prepared: Prepared | undefined;
  #trustReadAt: number | undefined;
  readonly #execution: Execution;

  constructor(spec: RunSpec, carry: Carry | undefined) {
    const info = workflowInfo();
    this.spec = spec;
    this.run = carry?.run ?? startRun(Date.now());
    this.journal = new Journal(carry?.journal ?? EMPTY_JOURNAL);
    this.toolset = carry?.toolset ?? [];
    // This is not what the last step has seen: later messages are in the segment and no longer in this journal.
    this.seen = { length: this.journal.transcriptLength, digest: this.journal.transcriptDigest };
    this.turnAtStart = this.run.turn;
    this.#prepared = carry?.prepared;
    this.#trustReadAt = carry?.trustReadAt;
    this.#execution = {
      runId: info.runId,
      originalRunId: info.originalExecutionRunId ?? info.runId,
      earlier: carry?.earlier ?? [],
    };
  }

  get prepared(): Prepared {
    if (this.#prepared === undefined) throw new Error('the run is not prepared yet');
    return this.#prepared;
  }

  set prepared(prepared: Prepared) {
    this.#prepared = prepared;
  }

  get isPrepared(): boolean {
    return this.#prepared !== undefined;
  }

  /** True once the tools of all servers are there. */
  get isListed(): boolean {
    return this.toolset.length === this.prepared.servers.length;
  }

  get ids(): RunIds {
    const { namespace, workflowId, runId } = workflowInfo();
    return { namespace, workflowId, runId, tenant: this.#prepared?.initiator.tenant ?? '' };
  }

  /** End of the run's wall clock in epoch ms; infinite until the run is prepared. */
  get endsAt(): number {
    if (this.#prepared === undefined) return Number.POSITIVE_INFINITY;
    return this.run.startedAt + this.#prepared.limits.wallClockSeconds * 1_000;
  }

  get identity(): RunIdentity {
    const { namespace, workflowId } = workflowInfo();
    return { namespace, workflowId, initiator: this.prepared.initiator, specHash: this.prepared.specHash };
  }

  /** True in trust mode `signed`. The start of the run decides this, whatever was said of the run since. */
  get isSigned(): boolean {
    return isChecking();
  }

  /**
   * The signed spec for inputs that reach a server. A run in trust mode `temporal` never has one, whatever its prepared
   * run says.
   */
  get signedSpec(): Pick<PreparedRun, 'signedSpec'> {
    const signedSpec = this.isSigned ? this.prepared.signedSpec : undefined;
    return signedSpec === undefined ? {} : { signedSpec };
  }

  /** The trusted keys; undefined in trust mode `temporal`. */
  get trust(): TrustSet | undefined {
    return this.#prepared?.trust;
  }

  /** When the keys were last read, in epoch ms. */
  get trustReadAt(): number | undefined {
    return this.#trustReadAt;
  }

  believe(trust: TrustSet, readAt: number): void {
    this.#prepared = { ...this.prepared, trust };
    this.#trustReadAt = readAt;
  }

  /**
   * Temporal runs in which a decision may have been made. For live code only (INV-D4): the value differs after a reset.
   */
  get decidedIn(): readonly string[] {
    return decidedIn(this.#execution);
  }

  /** Call counts of the turns before this one, if some rule asks for them. */
  get earlier(): { readonly earlier?: Tally } {
    return this.prepared.tally === undefined ? {} : { earlier: this.run.tally ?? EMPTY_TALLY };
  }

  get status(): ReturnType<typeof statusOf> {
    return this.endsAs === undefined ? statusOf(this.phase, this.run) : 'storing';
  }

  commit({ run, facts }: Change): void {
    this.run = run;
    const now = Date.now();
    const isMarked = this.#prepared?.messages === 'hashed';
    const isDated = this.#prepared?.grantEnds === 'recorded';
    for (const fact of facts) {
      const said = isDated ? withGrantEnd(fact, this) : fact;
      this.journal.record(now, isMarked ? marked(said, this.journal) : said);
    }
    this.onChange();
  }

  /** Outcome of a call that is not run because the run ends. */
  get withdrawal(): Outcome {
    return { kind: 'cancelled', reason: this.#whyItEnds() };
  }

  #whyItEnds(): string {
    if (this.phase === 'failed') return 'The run failed.';
    if (this.run.stop !== undefined) return `The run was stopped: ${this.run.stop.reason}`;
    return this.timeIsUp ? "The run's time is over." : 'The run was cancelled.';
  }

  /** Gives every open call an outcome. */
  withdrawAll(): void {
    for (const state of this.run.calls) {
      const isUnderWay = state.status === 'in-flight' || isHeldOpen(state);
      this.commit(ended(this.run, state.call.callId, isUnderWay ? LOST : this.withdrawal));
    }
  }

  say(message: Message): void {
    this.journal.append(message);
  }

  enter(phase: Phase): void {
    this.phase = phase;
    this.onChange();
  }

  /**
   * Marks the run as ended; it is over once it is stored. `stored` says that it is stored, or that nobody waits for
   * that.
   */
  endAs(status: EndStatus): void {
    if (this.#prepared?.endings === 'stored') this.endsAs = status;
    this.enter(status);
  }

  stored(): void {
    this.endsAs = undefined;
  }

  carry(journal: JournalHead): Carry {
    return {
      version: carryVersionOf(this.run),
      prepared: this.prepared,
      toolset: this.toolset,
      run: this.run,
      journal,
      earlier: carriedExecutions(this.#execution),
      ...defined({ trustReadAt: this.#trustReadAt }),
    };
  }
}
