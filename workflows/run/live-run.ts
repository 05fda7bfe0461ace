/**
 * One execution of a run as the workflow holds it.
 *
 * Owns: the run's state and journal while this execution lives. Does not own: rules (`domain/`), waiting (`turn.ts`).
 * 1. State changes only through `commit`, so that each change is in the ledger.
 */
import { CancellationScope, workflowInfo } from '@temporalio/workflow';
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
import { carriedExecutions, decidedIn, type Execution } from '../../domain/state/chain.ts';
import { EMPTY_JOURNAL, Journal, type JournalHead, marked } from '../../domain/run/journal.ts';
import { type Change, type Run, type RunIds, startRun } from '../../domain/state/run.ts';
import { type EndStatus, type Phase, statusOf } from '../../domain/state/status.ts';
import { EMPTY_TALLY } from '../../domain/run/tally.ts';
import { isChecking } from '../interceptors/zone.ts';
import type { RunIdentity, ToolsetRef } from '../../contracts/wire/identity.ts';

export type Prepared = Omit<PreparedRun, 'opening'>;

/** A call that is under way when the run fails: nobody will hear its answer. */
const LOST: Outcome = {
  kind: 'unknown',
  code: 'OUTCOME_UNKNOWN',
  message: 'The run ended while the call was under way.',
};

export class LiveRun {
  /** As the starter sent it; read only after `prepareRun` has validated it. */
  readonly spec: RunSpec;
  readonly journal: Journal;
  readonly turnAtStart: number;
  /** Waits and model steps; cancelled by `stop` and by cancellation of the run. */
  readonly work = new CancellationScope();
  /** Calls in flight; cancelled by `stop` only where it says so, and by cancellation of the run. */
  readonly flights = new CancellationScope();
  /** Calls whose dispatch is under way: its worker holds the connection of the server, and may tell of what that asks. */
  readonly dispatching = new Set<string>();
  /** Edits that are being judged. */
  readonly judging = new Set<CancellationScope>();
  /** Calls whose servers are being asked how far their task is; between two questions a run may hand over. */
  readonly polling = new Set<string>();
  /** Servers whose tools are being listed. */
  readonly listing = new Set<string>();
  /** Settles once this execution has let go of every call of the turn: with its outcome, or for the next execution. */
  settling: Promise<void> = Promise.resolve();
  /** The run waits for the last of them before it hands over: no further one is judged. */
  takesNoEdits = false;
  run: Run;
  phase: Phase = 'preparing';
  toolset: readonly ToolsetRef[];
  /** How much of the transcript a model step finds by digest: what the last step has seen, or what earlier executions have stored. */
  seen: { readonly length: number; readonly digest: string };
  /** Set while the run hands over to its next execution: nothing new is dispatched. */
  rolling = false;
  nudged = false;
  /** The run is ending: no message is taken any more. */
  closing = false;
  /** As what the run ends, while all of it is being stored. */
  endsAs: EndStatus | undefined;
  timeIsUp = false;
  /** Of a run that was limited or stopped: the limit, the reason. */
  because: string | undefined;
  updates = 0;
  /** Signals and answers of activities, see `workflows/entity/unread.ts`. */
  looked = 0;
  isReadingTrust = false;
  /** Epoch ms; when somebody last made this execution read its keys. */
  trustAskedAt = 0;
  /** Told when something that people see has changed. */
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
    // Not what the last step has seen: what was said since then stands in the segment, and no longer in this journal.
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

  /** Are the tools of all its servers there? */
  get isListed(): boolean {
    return this.toolset.length === this.prepared.servers.length;
  }

  get ids(): RunIds {
    const { namespace, workflowId, runId } = workflowInfo();
    return { namespace, workflowId, runId, tenant: this.#prepared?.initiator.tenant ?? '' };
  }

  /** Epoch ms; for ever as long as the run is not prepared. */
  get endsAt(): number {
    if (this.#prepared === undefined) return Number.POSITIVE_INFINITY;
    return this.run.startedAt + this.#prepared.limits.wallClockSeconds * 1_000;
  }

  get identity(): RunIdentity {
    const { namespace, workflowId } = workflowInfo();
    return { namespace, workflowId, initiator: this.prepared.initiator, specHash: this.prepared.specHash };
  }

  /** Trust mode `signed`: by what its starter sent, whatever was said of it since. */
  get isSigned(): boolean {
    return isChecking();
  }

  /** For what reaches a server. A run that believes what is not proven never has it, whatever its prepared run says. */
  get signedSpec(): Pick<PreparedRun, 'signedSpec'> {
    const signedSpec = this.isSigned ? this.prepared.signedSpec : undefined;
    return signedSpec === undefined ? {} : { signedSpec };
  }

  /** Undefined in trust mode `temporal`. */
  get trust(): TrustSet | undefined {
    return this.#prepared?.trust;
  }

  /** Epoch ms. */
  get trustReadAt(): number | undefined {
    return this.#trustReadAt;
  }

  believe(trust: TrustSet, readAt: number): void {
    this.#prepared = { ...this.prepared, trust };
    this.#trustReadAt = readAt;
  }

  /** For live code only (INV-D4): differs after a reset. */
  get decidedIn(): readonly string[] {
    return decidedIn(this.#execution);
  }

  /** Of the turns before this one, where some rule asks for it. */
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

  /** What a call gets that is not run because the run ends. */
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

  /** The run has come to its end, and is over once it is stored; `stored` says that it is, or that nobody waits for it. */
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
      ...(this.#trustReadAt === undefined ? {} : { trustReadAt: this.#trustReadAt }),
    };
  }
}
