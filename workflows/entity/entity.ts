/**
 * An entity is what runs and catalogs have in common: an execution that has a journal, counts and keys, continues
 * earlier executions, and takes messages.
 *
 * 1. `onUpdate` and `onNudge` count, read and check each update before it acts, so that no handler forgets one of
 *    these.
 * 2. A message that has not the right shape, or cannot be decoded, is refused with a code.
 */
import type { HandlerUnfinishedPolicy } from '@temporalio/common';
import { defineQuery, defineSignal, defineUpdate, setHandler, workflowInfo } from '@temporalio/workflow';
import { defined } from '../../contracts/defined.ts';
import type { ErrorCode } from '../../contracts/errors.ts';
import { failureOf } from '../../contracts/failure.ts';
import { QUERIES, SIGNALS } from '../../contracts/names.ts';
import { isUndecodable } from '../../contracts/payload-converter.ts';
import type { LedgerPage, TranscriptPage } from '../../contracts/schemas/run-state.ts';
import type { JournalHead } from '../../contracts/wire/carry.ts';
import { EMPTY_JOURNAL, Journal } from '../../domain/run/journal.ts';
import { rollReason, type RollReason, type Taken } from '../../domain/run/limits.ts';
import type { Parsed } from '../../domain/shapes/inputs.ts';
import { claimOf } from '../../domain/signing/jws.ts';
import { decidedIn } from '../../domain/state/run.ts';
import { pageOf } from '../../domain/text/page.ts';
import { isRefusal, type Refusal } from '../../domain/text/refusal.ts';
import { KeyReading } from './keys.ts';
import { assertReadable } from './unread.ts';

/** Knows what is under way: an item is in it from the beginning of its work to the end. Only `during` adds one. */
export class UnderWay<Item> extends Set<Item> {
  /**
   * Not `async`: one more promise would change the order of commands in recorded runs (INV-D1).
   * @param work fails by its promise alone: after an error that it throws at once, the item would stay
   */
  during<Result>(item: Item, work: () => Promise<Result>): Promise<Result> {
    this.add(item);
    const over = (): void => void this.delete(item);
    const result = work();
    result.then(over, over);
    return result;
  }
}

export abstract class Entity {
  readonly journal: Journal;
  readonly keys = new KeyReading();
  /** Temporal runs in which a message to this one may be made. For live code only: a reset changes it (INV-D4). */
  readonly decidedIn: readonly string[];
  #updates = 0;
  /** Length of the history at the start of the task in which the last update came. */
  #updatedAt = 0;
  #looked = 0;
  #isNudged = false;

  protected constructor(journal: JournalHead = EMPTY_JOURNAL, earlier: readonly string[] = []) {
    const { runId, originalExecutionRunId } = workflowInfo();
    this.journal = new Journal(journal);
    this.decidedIn = decidedIn(runId, originalExecutionRunId ?? runId, earlier);
  }

  /** The run that a signature must name: an earlier one that counts, or this one. For live code only (INV-D4). */
  namedBy(signature: string | undefined): string {
    const claimed = signature === undefined ? undefined : claimOf(signature, 'runId');
    return this.decidedIn.find((earlier) => earlier === claimed) ?? workflowInfo().runId;
  }

  get reasonToRoll(): RollReason | undefined {
    const taken = { nudged: this.#isNudged, updates: this.#updates, ...this.turns };
    return rollReason({ ...taken, suggested: workflowInfo().continueAsNewSuggested });
  }

  protected get turns(): Pick<Taken, 'turns'> {
    return {};
  }

  countUpdate(): void {
    this.#updates += 1;
    this.#updatedAt = workflowInfo().historyLength;
  }

  get isAnswering(): boolean {
    return this.#updatedAt === workflowInfo().historyLength;
  }

  /** Returns the number of the next input to be read, see `unread.ts`; it is the same in each replay. */
  nextInput(): number {
    this.#looked += 1;
    return this.#looked;
  }

  nudge(): void {
    this.#isNudged = true;
  }
}

// The messages that runs and catalogs both take. The storing of a segment asks both queries, page by page.

export function serveEntity(entity: Entity): void {
  const { journal } = entity;
  setHandler(defineQuery(QUERIES.transcript), (...asked: Bounds): TranscriptPage => {
    const { transcriptFrom, transcriptLength: total, segment } = journal;
    const [from, to] = boundsOf(asked, total);
    const messages = [...pageOf(journal.messages(from, to))];
    return { from: Math.max(from, transcriptFrom), total, messages, ...defined({ segment }) };
  });
  setHandler(defineQuery(QUERIES.ledger), (...asked: Bounds): LedgerPage => {
    const { ledgerFrom, ledgerLength: total, ledgerHead: head, segment } = journal;
    const [from, to] = boundsOf(asked, total);
    const entries = [...pageOf(journal.entries(from, to))];
    return { from: Math.max(from, ledgerFrom), total, head, entries, ...defined({ segment }) };
  });
  setHandler(defineSignal(SIGNALS.nudge), () => entity.nudge(), {
    description: 'Continue as new at the next safe point',
  });
}

type Bounds = [from?: unknown, to?: unknown];

/** Bounds of a page; a missing one means everything. @throws ApplicationFailure if one is not a whole number */
function boundsOf([from, to]: Bounds, length: number): readonly [number, number] {
  return [numberOr(from, 0, 'from'), numberOr(to, length, 'to')];
}

function numberOr(value: unknown, otherwise: number, path: string): number {
  if (value === undefined || value === null) return otherwise;
  if (Number.isSafeInteger(value)) return Number(value);
  const reason = isUndecodable(value) ? value.says : 'must be a whole number';
  throw failureOf('MESSAGE_INVALID', `${path} ${reason}: ask with two numbers, from and to.`, { path });
}

export interface Taking<Message, Ack> {
  readonly description: string;
  /** Reads the message; throws if it has not the right shape. */
  readonly read: (input: unknown) => Message;
  /** Throws if the message is refused, before it enters history (INV-G2). It changes nothing. */
  readonly check?: (message: Message, input: unknown) => void;
  readonly act: (message: Message, input: unknown) => Ack | Promise<Ack>;
  readonly unfinishedPolicy?: HandlerUnfinishedPolicy;
}

/** Registers an update. Its input is `unknown`: anyone who may write to the namespace may send anything. */
export function onUpdate<Message, Ack>(
  entity: Entity,
  name: string,
  { description, read, check, act, unfinishedPolicy }: Taking<Message, Ack>,
): void {
  const handle = (input?: unknown): Ack | Promise<Ack> => {
    assertReadable(input);
    entity.countUpdate();
    return act(read(input), input);
  };
  const validator = (input?: unknown): void => check?.(read(input), input);
  setHandler(defineUpdate(name), handle, { description, validator, ...defined({ unfinishedPolicy }) });
}

/** Registers an update that says nothing: whatever comes along with it is not looked at, and so stops nothing. */
export function onNudge<Ack>(
  entity: Entity,
  name: string,
  { description, check, act }: { description: string; check?: () => void; act: () => Ack | Promise<Ack> },
): void {
  const handle = (_input?: unknown): Ack | Promise<Ack> => {
    entity.countUpdate();
    return act();
  };
  setHandler(defineUpdate(name), handle, { description, validator: (_input?: unknown) => check?.() });
}

/** @throws ApplicationFailure with the code of the refusal, if it is one */
export function refuseWith<T>(value: T): asserts value is Exclude<T, Refusal> {
  if (isRefusal(value)) throw failureOf(value.code, value.message, value.facts);
}

export function askedAbout(about: unknown): unknown {
  if (isUndecodable(about)) throw failureOf('MESSAGE_INVALID', `What is asked about ${about.says}.`);
  return about;
}

/** @throws ApplicationFailure with this code, if the message has not the right shape */
export function parsed<T>(shape: Parsed<T>, code: ErrorCode): T {
  if (shape.kind === 'ok') return shape.value;
  throw failureOf(code, `${shape.path === '' ? 'The message' : shape.path} ${shape.reason}; nothing was changed.`, {
    path: shape.path,
  });
}
