/**
 * One execution of a run as the workflow holds it.
 *
 * It owns the run's state and journal while this execution lives. It does not own the rules (`domain/`) or waiting
 * (`call.ts`). One file, because it is one class: every change of a run goes through it.
 * 1. State changes only through the methods of this class. Changes that belong in the ledger record their facts.
 * 2. After every change, nobody is asked what a waiting interruption overtakes (B-15).
 */
import { CancellationScope, patched, workflowInfo } from '@temporalio/workflow';
import { defined } from '../../contracts/defined.ts';
import type { Outcome } from '../../contracts/schemas/call.ts';
import type { PauseKind, Stop } from '../../contracts/schemas/request.ts';
import type { RunSpec } from '../../contracts/schemas/run-spec.ts';
import type { MessagesState, Tally } from '../../contracts/schemas/run-state.ts';
import type { CallResult, Message } from '../../contracts/schemas/transcript.ts';
import type { TrustSet } from '../../contracts/schemas/trust.ts';
import type { BegunRun, StretchedCall } from '../../contracts/wire/stretch.ts';
import type { Carry, JournalHead } from '../../contracts/wire/carry.ts';
import type { RunIdentity, ToolsetRef } from '../../contracts/wire/identity.ts';
import type { CarriedMessages } from '../../contracts/wire/notify.ts';
import type { ModelStepInput, PreparedRun } from '../../contracts/wire/run.ts';
import { withGrantEnd } from '../../domain/request/deadline.ts';
import { startedFact } from '../../domain/request/digest.ts';
import { ended } from '../../domain/request/transitions.ts';
import { fromCarry, toCarry } from '../../domain/run/carry.ts';
import { EMPTY_JOURNAL, marked } from '../../domain/run/journal.ts';
import { EMPTY_TALLY, type RollReason, type Taken } from '../../domain/run/limits.ts';
import { interrupted, stopped, unqueued } from '../../domain/run/message-queue.ts';
import { withLinks } from '../../domain/run/resource-link.ts';
import { identityOf } from '../../domain/run/stretch.ts';
import { listed } from '../../domain/run/toolset.ts';
import { closeTurn } from '../../domain/run/turn.ts';
import {
  carriedExecutions,
  type Change,
  type EndStatus,
  isDispatched,
  isSendable,
  isSettled,
  type Phase,
  repaired,
  type Run,
  type RunIds,
  type Sendable,
  startRun,
  statusOf,
} from '../../domain/state/run.ts';
import { byteLength } from '../../domain/text/canonical.ts';
import { Entity, UnderWay } from '../entity/entity.ts';
import { seenAt } from '../entity/unread.ts';
import { isChecking } from '../interceptors/zone.ts';

type Prepared = Omit<PreparedRun, 'opening'>;

type Seen = Pick<ModelStepInput['base'], 'length' | 'digest'>;

/** Temporal takes 2 MiB for the input of an execution, and terminates the one that continues as new with more. */
const MOST_INPUT_BYTES = 2_000_000;
/** Room beside that for the journal's head. Without it a run that just fits would hand over again and again. */
const HEAD_BYTES = 65_536;

/** Outcome of a call that is under way when the run fails: nobody will hear its answer. */
const LOST: Outcome = {
  kind: 'unknown',
  code: 'OUTCOME_UNKNOWN',
  message: 'The run ended while the call was under way.',
};

/** The part of `Messenger` that the run shows and hands on. */
interface Telling {
  state(): MessagesState | undefined;
  carried(): CarriedMessages | undefined;
}

export class LiveRun extends Entity {
  /** The spec as the starter sent it; it is read only after `prepareRun` has validated it. */
  readonly spec: RunSpec;
  /** Scope of waits and model steps; cancelled by `stop` and by cancellation of the run. */
  readonly work = new CancellationScope();
  /** Scope of calls in flight; cancelled by cancellation of the run, and by a `stop` that says so. */
  readonly flights = new CancellationScope();
  /** Calls whose dispatch is under way: its worker holds the connection, and may report questions. */
  readonly dispatching = new UnderWay<string>();
  readonly judging = new UnderWay<CancellationScope>();
  /** Calls whose servers are being polled about their task; between two polls a run may hand over. */
  readonly polling = new UnderWay<string>();
  readonly away = new UnderWay<string>();
  readonly stretching = new UnderWay<CancellationScope>();
  /** The rest of what the first activity did. `said` is the number of messages that the model was asked with. */
  begun: Pick<BegunRun, 'found' | 'times' | 'turns' | 'failed'> & { readonly said?: number } = {};
  /** Calls that a stretch has let go, and whose results need something of the run. */
  readonly told = new Map<string, StretchedCall>();
  /** The newest turns of stretches, as people see them. */
  stretched: readonly string[] = [];
  /** Calls that are to be sent again after a while, with nothing under way. */
  readonly retrying = new Set<string>();
  /** True while the run waits for the last judging of an edit before it hands over. */
  takesNoEdits = false;
  readonly listing = new UnderWay<string>();
  telling: Telling | undefined;
  readonly #turnAtStart: number;
  #run: Run;
  #phase: Phase = 'preparing';
  #toolset: readonly ToolsetRef[];
  #seen: Seen;
  #settling: Promise<void> = Promise.resolve();
  #isRolling = false;
  #isClosing = false;
  #endsAs: EndStatus | undefined;
  #isTimeUp = false;
  #because: string | undefined;
  readonly #shows: (() => void)[] = [];
  #prepared: Prepared | undefined;
  #trustReadAt: number | undefined;
  #presentUntil: number | undefined;
  #presences = 0;
  /** True if a message has withdrawn calls of this turn whose timers still run. */
  #leavesTimers = false;
  #isLeaving = false;

  constructor(spec: RunSpec, carry: Carry | undefined) {
    super(carry?.journal, carry?.earlier);
    this.spec = spec;
    this.#run = carry === undefined ? startRun(Date.now()) : fromCarry(carry.run);
    this.#toolset = carry?.toolset ?? [];
    // This is not what the last step has seen: later messages are in the segment and no longer in this journal.
    this.#seen = this.#transcript;
    this.#turnAtStart = this.#run.turn;
    this.#prepared = carry?.prepared;
    this.#trustReadAt = carry?.trustReadAt;
    this.#presentUntil = carry?.presentUntil;
  }

  get run(): Run {
    return this.#run;
  }

  get toolset(): readonly ToolsetRef[] {
    return this.#toolset;
  }

  /** The part of the transcript that a model step finds by digest: seen by the last step, or stored. */
  get seen(): Seen {
    return this.#seen;
  }

  /** True while the run hands over to its next execution; nothing new is dispatched. */
  get rolling(): boolean {
    return this.#isRolling;
  }

  /** True if approved calls wait until their client is back (docs/adr/0078). */
  get awaitsClient(): boolean {
    return this.spec.dispatch === 'on-return' && (this.#isLeaving || (this.#presentUntil ?? 0) <= Date.now());
  }

  /**
   * Notes that the client is there. Earlier builds left these words out of the count of inputs, so they have their own.
   * @param said until when, in epoch ms; whatever else it may be says nothing
   */
  notePresence(said: unknown): void {
    this.#presences += 1;
    const until = seenAt(`present-${this.#presences}`, said);
    if (Number.isSafeInteger(until)) this.#presentUntil = Math.max(this.#presentUntil ?? 0, Number(until));
  }

  /** Keeps calls that wait for their client: the next execution is told of a client that is back in the same task. */
  holdBack(): void {
    this.#isLeaving = true;
  }

  /** True while the run ends; it takes no more messages. */
  get closing(): boolean {
    return this.#isClosing;
  }

  /** Final status of the run, set while the last part of its journal is being stored. */
  get endsAs(): EndStatus | undefined {
    return this.#endsAs;
  }

  get timeIsUp(): boolean {
    return this.#isTimeUp;
  }

  /** Why the run was limited, stopped or failed: the limit, the reason, or the code and message. */
  get because(): string | undefined {
    return this.#because;
  }

  get prepared(): Prepared {
    if (this.#prepared === undefined) throw new Error('the run is not prepared yet');
    return this.#prepared;
  }

  get isPrepared(): boolean {
    return this.#prepared !== undefined;
  }

  get isListed(): boolean {
    return this.#toolset.length === this.prepared.servers.length;
  }

  get ids(): RunIds {
    const { namespace, workflowId, runId } = workflowInfo();
    return { namespace, workflowId, runId, tenant: this.#prepared?.initiator.tenant ?? '' };
  }

  /** End of the run's wall clock in epoch ms; infinite until the run is prepared, since a message may come earlier. */
  get endsAt(): number {
    if (this.#prepared === undefined) return Number.POSITIVE_INFINITY;
    return this.#run.startedAt + this.#prepared.limits.wallClockSeconds * 1_000;
  }

  get identity(): RunIdentity {
    return identityOf(workflowInfo(), this.prepared);
  }

  /** True in trust mode `signed`. The start of the run decides this, whatever was said of the run since. */
  get isSigned(): boolean {
    return isChecking();
  }

  /** For inputs that reach a server. A run in trust mode `temporal` has none, whatever its prepared run says. */
  get signedSpec(): Pick<PreparedRun, 'signedSpec'> {
    return this.isSigned ? defined({ signedSpec: this.prepared.signedSpec }) : {};
  }

  asksAbout(kind: PauseKind): boolean {
    return this.prepared.pauses?.includes(kind) === true;
  }

  get trust(): TrustSet | undefined {
    return this.#prepared?.trust;
  }

  /** When the keys were last read, in epoch ms. */
  get trustReadAt(): number | undefined {
    return this.#trustReadAt;
  }

  believe(trust: TrustSet): void {
    this.#prepared = { ...this.prepared, trust };
    this.#trustReadAt = Date.now();
  }

  /** Call counts of the turns before this one, if some rule asks for them. */
  get earlier(): { readonly earlier?: Tally } {
    return this.prepared.tally === undefined ? {} : { earlier: this.#run.tally ?? EMPTY_TALLY };
  }

  /** Absent also as long as the run does not fit into the input of the next execution: its turn has to end first. */
  override get reasonToRoll(): RollReason | undefined {
    const reason = super.reasonToRoll;
    return reason === undefined || this.isTooLarge() ? undefined : reason;
  }

  get status(): ReturnType<typeof statusOf> {
    return this.#endsAs === undefined ? statusOf(this.#phase, this.#run) : 'storing';
  }

  get turnsLeft(): number {
    return Math.max(1, this.prepared.limits.turnsPerExecution - (this.#run.turn - this.#turnAtStart));
  }

  protected override get turns(): Pick<Taken, 'turns'> {
    if (this.#prepared === undefined) return {};
    return { turns: { had: this.#run.turn - this.#turnAtStart, most: this.#prepared.limits.turnsPerExecution } };
  }

  get #transcript(): Seen {
    return { length: this.journal.transcriptLength, digest: this.journal.transcriptDigest };
  }

  showWith(show: () => void): void {
    this.#shows.push(show);
  }

  #show(): void {
    for (const show of this.#shows) show();
  }

  /** Takes what `prepareRun` found. @param at epoch ms; absent: now */
  prepare({ opening, ...prepared }: PreparedRun, at?: number): void {
    this.#prepared = prepared;
    if (prepared.price !== undefined) this.#run = { ...this.#run, spent: 0 };
    if (prepared.trust !== undefined) this.believe(prepared.trust);
    this.commit({ run: this.#run, facts: [startedFact({ ...prepared, opening }, this.spec.agent)] }, at);
    for (const message of opening) this.say(message);
  }

  list<T>(server: string, ask: () => Promise<T>): Promise<T> {
    return this.listing.during(server, () => {
      this.#show();
      return ask();
    });
  }

  /** Takes the tools of all servers; the run calls no others. @param at epoch ms; absent: now */
  pin(toolset: readonly ToolsetRef[], facts: Change['facts'], at?: number): void {
    this.#toolset = toolset;
    this.commit({ run: listed(this.#run), facts }, at);
  }

  markSeen(): void {
    this.#seen = this.#transcript;
  }

  takeQueue(): void {
    if (this.#run.queue.length === 0) return;
    for (const { text, from } of this.#run.queue) this.say({ role: 'user', text, from });
    this.#run = unqueued(this.#run);
  }

  repair(message: Message): void {
    this.#run = repaired(this.#run);
    this.say(message);
  }

  closeTurn(results: CallResult[]): void {
    this.#isLeaving = false;
    this.#leavesTimers = false;
    const { links, tally } = this.prepared;
    if (links !== undefined) this.#run = withLinks(this.#run, links, this.journal.transcriptLength);
    this.say({ role: 'tool', results });
    this.#run = closeTurn(this.#run, tally);
  }

  /** Notes who settles the calls of this turn; see `takeBack`. */
  settleWith(settling: Promise<void>): void {
    this.#settling = settling;
  }

  /** Begins to hand over. From now on nothing new leaves, and calls that wait are let go. */
  handOver(): void {
    this.#isRolling = true;
    this.record({ kind: 'run.rolled', turn: this.#run.turn, because: this.reasonToRoll ?? 'request' });
  }

  /** Ends the handing over, once this execution has let go of every call of the turn. */
  async takeBack(): Promise<void> {
    await this.#settling;
    this.#isRolling = false;
    this.#isLeaving = false;
  }

  stop(stop: Stop): void {
    this.commit(stopped(this.#run, stop));
    this.work.cancel();
    if (this.#run.stop?.inFlight === 'cancel') this.flights.cancel();
  }

  runOutOfTime(): void {
    if (this.#isClosing) return;
    this.#isTimeUp = true;
    this.record({ kind: 'limit.reached', limit: 'wallClockSeconds', value: this.prepared.limits.wallClockSeconds });
    this.work.cancel();
  }

  close(because?: string): void {
    this.#isClosing = true;
    this.#because = because;
  }

  record(...facts: Change['facts']): void {
    this.commit({ run: this.#run, facts });
  }

  /** Applies a change, and withdraws what a waiting interruption overtakes. @param at epoch ms of the facts */
  commit(change: Change, at = Date.now()): void {
    this.#apply(change, at);
    if (this.#run.queue.length > 0) this.#apply(interrupted(this.#run));
    if (this.#run.queue.some(({ interrupt }) => interrupt === true)) {
      this.endStretch();
      this.#endWaits();
    }
    this.#show();
  }

  /** Withdraws calls that wait to be sent again, or for their client: that may take a day, and a message waits. */
  #endWaits(): void {
    const waiting = this.#run.calls.filter((state) => isSendable(state) && this.#mayWaitLong(state));
    if (waiting.length === 0 || !patched('as-documented')) return;
    const ids = waiting.map(({ call }) => call.callId);
    this.#apply(interrupted(this.#run, new Set(ids)));
    this.#leavesTimers ||= ids.some((callId) => this.retrying.has(callId));
  }

  #mayWaitLong({ call, consent }: Sendable): boolean {
    return this.retrying.has(call.callId) || (consent !== undefined && this.awaitsClient);
  }

  get isOverEarly(): boolean {
    return this.#leavesTimers && this.#run.calls.every(isSettled);
  }

  /** Ends the stretch under way: it begins nothing more, and returns what was done. */
  endStretch(): void {
    for (const scope of this.stretching) scope.cancel();
  }

  /** @param at epoch ms, at which the facts happened */
  #apply({ run, facts }: Change, now = Date.now()): void {
    this.#run = run;
    for (const fact of facts) {
      const said = fact.kind === 'request.opened' ? withGrantEnd(fact, this) : fact;
      this.journal.record(now, marked(said, this.journal));
    }
  }

  get withdrawal(): Outcome {
    return { kind: 'cancelled', reason: this.#whyItEnds() };
  }

  #whyItEnds(): string {
    if (this.#phase === 'failed') return 'The run failed.';
    if (this.#run.stop !== undefined) return `The run was stopped: ${this.#run.stop.reason}`;
    return this.#isTimeUp ? "The run's time is over." : 'The run was cancelled.';
  }

  withdrawAll(): void {
    for (const state of this.#run.calls) {
      const isUnderWay = isDispatched(state) || state.status === 'asking-on-connection';
      this.commit(ended(this.#run, state.call.callId, isUnderWay ? LOST : this.withdrawal));
    }
  }

  say(message: Message): void {
    this.journal.append(message);
  }

  enter(phase: Phase): void {
    this.#phase = phase;
    this.#show();
  }

  /** Marks the run as ended. `stored` then says that its record is stored, or that nobody waits for that. */
  endAs(status: EndStatus, isStored: boolean): void {
    if (isStored && this.isPrepared) this.#endsAs = status;
    this.enter(status);
  }

  stored(): void {
    this.#endsAs = undefined;
  }

  /** The first user messages are in the transcript by then. */
  get carriedSpec(): RunSpec {
    return { ...this.spec, input: [] };
  }

  /** True if Temporal would terminate the next execution for its input. @param head absent: nothing is stored yet */
  isTooLarge(head?: JournalHead): boolean {
    if (this.#prepared === undefined) return false;
    const bytes = byteLength(JSON.stringify([this.carriedSpec, this.carry(head ?? EMPTY_JOURNAL)]));
    return bytes > MOST_INPUT_BYTES + (head === undefined ? 0 : HEAD_BYTES);
  }

  carry(journal: JournalHead): Carry {
    return {
      ...toCarry(this.#run),
      prepared: this.prepared,
      toolset: this.#toolset,
      journal,
      earlier: carriedExecutions(this.decidedIn),
      ...defined({
        trustReadAt: this.#trustReadAt,
        messages: this.telling?.carried(),
        presentUntil: this.#presentUntil,
      }),
    };
  }
}
