/**
 * How runs and catalogs take messages: the registering of updates, the refusing of what has not the right shape, and the
 * messages that both take. The storing of a segment asks both queries, page by page.
 */
import type { HandlerUnfinishedPolicy, UpdateDefinition } from '@temporalio/common';
import { defineQuery, defineSignal, setHandler } from '@temporalio/workflow';
import { defined } from '../../contracts/defined.ts';
import type { ErrorCode } from '../../contracts/errors.ts';
import { failureOf } from '../../contracts/failure.ts';
import { QUERIES, SIGNALS } from '../../contracts/names.ts';
import { isUndecodable } from '../../contracts/payload-converter.ts';
import type { LedgerPage, TranscriptPage } from '../../contracts/schemas/run-state.ts';
import type { Parsed } from '../../domain/shapes/inputs.ts';
import { pageOf } from '../../domain/text/page.ts';
import type { Refusal } from '../../domain/text/refusal.ts';
import type { Entity } from './entity.ts';
import { assertReadable } from './unread.ts';

const nudgeSignal = defineSignal(SIGNALS.nudge);
const transcriptQuery = defineQuery<TranscriptPage, [unknown, unknown]>(QUERIES.transcript);
const ledgerQuery = defineQuery<LedgerPage, [unknown, unknown]>(QUERIES.ledger);

export function serveEntity(entity: Entity): void {
  setHandler(transcriptQuery, (from, to) => transcriptPage(entity, from, to));
  setHandler(ledgerQuery, (from, to) => ledgerPage(entity, from, to));
  setHandler(nudgeSignal, () => entity.nudge(), { description: 'Continue as new at the next safe point' });
}

function transcriptPage({ journal }: Entity, ...asked: Bounds): TranscriptPage {
  const [from, to] = boundsOf(asked, journal.transcriptLength);
  return {
    from: Math.max(from, journal.transcriptFrom),
    total: journal.transcriptLength,
    messages: [...pageOf(journal.messages(from, to))],
    ...defined({ segment: journal.segment }),
  };
}

function ledgerPage({ journal }: Entity, ...asked: Bounds): LedgerPage {
  const [from, to] = boundsOf(asked, journal.ledgerLength);
  return {
    from: Math.max(from, journal.ledgerFrom),
    total: journal.ledgerLength,
    head: journal.ledgerHead,
    entries: [...pageOf(journal.entries(from, to))],
    ...defined({ segment: journal.segment }),
  };
}

type Bounds = readonly [from: unknown, to: unknown];

/**
 * Bounds of a page; a missing bound means everything.
 * @throws ApplicationFailure if a bound is not a whole number
 */
function boundsOf([from, to]: Bounds, length: number): readonly [number, number] {
  return [numberOr(from, 0, 'from'), numberOr(to, length, 'to')];
}

function numberOr(value: unknown, otherwise: number, path: string): number {
  if (value === undefined || value === null) return otherwise;
  if (Number.isSafeInteger(value)) return Number(value);
  const reason = isUndecodable(value) ? value.says : 'must be a whole number';
  throw failureOf('MESSAGE_INVALID', `${path} ${reason}: ask with two numbers, from and to.`, { path });
}

// Registers updates. Each is counted, read, checked and acted on here, so that no handler forgets one of these.

/** One kind of update. */
export interface Taking<Message, Ack> {
  readonly description: string;
  /** Reads the message; throws if it has not the right shape. */
  readonly read: (input: unknown) => Message;
  /** Throws if the message is refused, before it enters history (INV-G2). It changes nothing. */
  readonly check?: (message: Message, input: unknown) => void;
  readonly act: (message: Message, input: unknown) => Ack | Promise<Ack>;
  readonly unfinishedPolicy?: HandlerUnfinishedPolicy;
}

/** One kind of update that says nothing. */
export interface Nudging<Ack> {
  readonly description: string;
  readonly check?: () => void;
  readonly act: () => Ack | Promise<Ack>;
}

export function onUpdate<Message, Ack>(
  entity: Entity,
  update: UpdateDefinition<Ack, [unknown?]>,
  { description, read, check, act, unfinishedPolicy }: Taking<Message, Ack>,
): void {
  const handle = (input?: unknown): Ack | Promise<Ack> => {
    assertReadable(input);
    entity.countUpdate();
    return act(read(input), input);
  };
  const validator = (input?: unknown): void => check?.(read(input), input);
  setHandler(update, handle, { description, validator, ...defined({ unfinishedPolicy }) });
}

/** Registers an update that says nothing: whatever comes along with it is not looked at, and so stops nothing. */
export function onNudge<Ack>(
  entity: Entity,
  update: UpdateDefinition<Ack, [unknown?]>,
  { description, check, act }: Nudging<Ack>,
): void {
  const handle = (_input?: unknown): Ack | Promise<Ack> => {
    entity.countUpdate();
    return act();
  };
  setHandler(update, handle, { description, validator: (_input?: unknown) => check?.() });
}

// Refuses inputs that have not the right shape, or cannot be decoded, as failures with a code.

/** @throws ApplicationFailure with the code of the refusal, if there is one */
export function refuseWith(refusal: Refusal | undefined): void {
  if (refusal !== undefined) throw failureOf(refusal.code, refusal.message, refusal.facts);
}

/** Returns the argument of a query, if it could be decoded. */
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
