/**
 * Holds what every execution of a run or a catalog has: its journal, its counts, the reading of its keys, and the
 * executions that it continues.
 */
import { workflowInfo } from '@temporalio/workflow';
import type { JournalHead } from '../../contracts/wire/carry.ts';
import { EMPTY_JOURNAL, Journal } from '../../domain/run/journal.ts';
import { decidedIn, type Execution } from '../../domain/state/run.ts';
import { KeyReading } from './keys.ts';
import { rollReason, type RollReason, type Taken } from '../../domain/run/limits.ts';

/** The part of a carry that every entity has. */
interface Carried {
  readonly journal: JournalHead | undefined;
  /** Temporal run ids of earlier executions. */
  readonly earlier: readonly string[] | undefined;
}

/** Knows what is under way: an item is in it from the beginning of its work to the end. */
export class UnderWay<Item> {
  readonly #items = new Set<Item>();

  get items(): ReadonlySet<Item> {
    return this.#items;
  }

  get size(): number {
    return this.#items.size;
  }

  has(item: Item): boolean {
    return this.#items.has(item);
  }

  /**
   * Not `async`: one more promise would change the order of commands in recorded runs (INV-D1).
   * @param work fails by its promise alone: after an error that it throws at once, the item would stay
   */
  during<Result>(item: Item, work: () => Promise<Result>): Promise<Result> {
    this.#items.add(item);
    const over = (): void => void this.#items.delete(item);
    const result = work();
    result.then(over, over);
    return result;
  }
}

export abstract class Entity {
  readonly journal: Journal;
  readonly keys = new KeyReading();
  protected readonly execution: Execution;
  #updates = 0;
  /** Length of the history at the start of the task in which the last update came. */
  #updatedAt = 0;
  #looked = 0;
  #isNudged = false;

  protected constructor({ journal, earlier = [] }: Carried) {
    const { runId, originalExecutionRunId } = workflowInfo();
    this.journal = new Journal(journal ?? EMPTY_JOURNAL);
    this.execution = { runId, originalRunId: originalExecutionRunId ?? runId, earlier };
  }

  /**
   * Temporal runs in which a message to this one may have been made. For live code only (INV-D4): the value differs
   * after a reset.
   */
  get decidedIn(): readonly string[] {
    return decidedIn(this.execution);
  }

  /** Why this execution should continue as new; undefined if it need not yet. */
  get reasonToRoll(): RollReason | undefined {
    const taken = { nudged: this.#isNudged, updates: this.#updates, ...this.turns };
    return rollReason({ ...taken, suggested: workflowInfo().continueAsNewSuggested });
  }

  /** Turns of this execution and their bound, if it has turns. */
  protected get turns(): Pick<Taken, 'turns'> {
    return {};
  }

  /** Counts an update, as Temporal does. */
  countUpdate(): void {
    this.#updates += 1;
    this.#updatedAt = workflowInfo().historyLength;
  }

  /** True if an update is answered in this workflow task. */
  get isAnswering(): boolean {
    return this.#updatedAt === workflowInfo().historyLength;
  }

  /** Returns the number of the next input to be read, see `unread.ts`; it is the same in each replay. */
  nextInput(): number {
    this.#looked += 1;
    return this.#looked;
  }

  /** Makes the execution continue as new at the next safe point. */
  nudge(): void {
    this.#isNudged = true;
  }
}
