/**
 * Compares a ledger with Temporal's history in both directions: decisions, messages, dispatches and outcomes, as long
 * as the history is retained.
 *
 * 1. The ledger is read before and after the history. An entry in only one reading may be in progress, and is no fault.
 * 2. Answers to requests are read as people signed them, so that `proofs.ts` can compare them with the entries.
 */
import type { Client } from '@temporalio/client';
import { tsToMs } from '@temporalio/common/lib/time.js';
import { ACTIVITIES, SIGNALS, STRETCHING, UPDATES } from '../../contracts/names.ts';
import type { AnyEntry, LedgerFact } from '../../contracts/schemas/ledger.ts';
import { recordedHash } from '../../domain/request/outcome.ts';
import { responsesHash } from '../../domain/request/provision.ts';
import type { AnswerPurpose } from '../../domain/request/signed-answer.ts';
import {
  parseAuthorization,
  type Parsed,
  parseDecision,
  parseProvision,
  parseResolution,
} from '../../domain/shapes/inputs.ts';
import { openMessage } from '../../domain/signing/message.ts';
import { type Answerable, isEdit } from '../../domain/state/run.ts';
import { hashOf, sha256Hex } from '../../domain/text/canonical.ts';
import { activityIn, decoded, executionChain, type HistoryEvent, readable } from '../engine/executions.ts';
import type { LedgerFault } from './check.ts';
import { fieldOf, listAt, textAt } from './files.ts';

interface SentMessage {
  readonly message: unknown;
  /** Time at which Temporal recorded the message, epoch ms. */
  readonly at: number;
}

export type RecordedDeeds = ReturnType<typeof noDeeds>;

function noDeeds() {
  const start: { readonly spec: unknown; readonly at?: number } = { spec: undefined };
  const unread: unknown[] = [];
  return {
    /** The spec of the run; `at` is absent if the history of the first execution is no longer retained. */
    start,
    /** Entries before this number belong to executions whose history is no longer retained. */
    from: 0,
    /** Entries before this number were stored, and delivered to every sink, before the newest execution began. */
    stored: 0,
    /** Messages that were sent, by decision id or message id. */
    messages: new Map<string, readonly SentMessage[]>(),
    /** Ids of messages whose update was answered without an error. */
    accepted: new Set<string>(),
    /** Dispatches, as `callId/attempt`. */
    dispatched: new Set<string>(),
    /** Hash of the outcome with which a call's last dispatch ended, by call id; without unknown ones. */
    outcomes: new Map<string, string>(),
    /** Calls whose last dispatch ended without an answer: only a person can make their outcome known. */
    lost: new Set<string>(),
    /** Why the record of a stretch's calls cannot be read, of each. */
    unread,
  };
}

/**
 * Reads from history what the ledger should say.
 * @param before event id of the newest execution up to which history is read; absent: all of it
 * @param deadlineMs for each execution
 * @throws Temporal's error if the newest execution cannot be read
 */
export async function readDeeds(
  client: Client,
  workflowId: string,
  before?: number,
  deadlineMs?: number,
): Promise<RecordedDeeds> {
  const deeds = noDeeds();
  const { histories, isWhole } = await executionChain(client, workflowId, deadlineMs);
  const chain = histories.map(({ events }, index) =>
    index === histories.length - 1 && before !== undefined
      ? (events ?? []).filter(({ eventId }) => Number(eventId) < before)
      : (events ?? []),
  );
  const first = chain[0]?.[0];
  const input = await decoded(client, first?.workflowExecutionStartedEventAttributes?.input?.payloads);
  deeds.start = { spec: input[0], ...(isWhole ? { at: tsToMs(first?.eventTime) } : {}) };
  // A first execution has nothing carried over. If its input claims otherwise, no earlier entry is hidden by that.
  const carried = carriedIn(input);
  deeds.from = deeds.start.at === undefined ? carried.stored + carried.since : 0;
  const newest = chain.at(-1)?.[0]?.workflowExecutionStartedEventAttributes;
  // Sinks have nothing of what continue-as-new carries beside the stored entries.
  if (!isWhole || chain.length > 1) deeds.stored = carriedIn(await decoded(client, newest?.input?.payloads)).stored;
  for (const events of chain) await readExecution(client, events, deeds);
  return deeds;
}

async function readExecution(client: Client, events: readonly HistoryEvent[], deeds: RecordedDeeds): Promise<void> {
  const updates = new Map<string, string>();
  const scheduled: Scheduled = new Map();
  for (const event of events) {
    const signal = event.workflowExecutionSignaledEventAttributes;
    const at = tsToMs(event.eventTime);
    if (signal?.signalName === SIGNALS.decide)
      // Anybody may send one, also one that nobody can read: it would keep the rest from being verified.
      noteSent(deeds, { message: await readable(client, signal.input?.payloads), at });
    // After a reset Temporal records a reapplied update as admitted; its later acceptance does not repeat the request.
    const accepted =
      event.workflowExecutionUpdateAcceptedEventAttributes?.acceptedRequest ??
      event.workflowExecutionUpdateAdmittedEventAttributes?.request;
    const name = accepted?.input?.name ?? '';
    if (RECORDED.includes(name)) {
      const id = noteSent(deeds, { message: (await decoded(client, accepted?.input?.args?.payloads))[0], at });
      if (id !== undefined) updates.set(accepted?.meta?.updateId ?? '', id);
    }
    const done = event.workflowExecutionUpdateCompletedEventAttributes;
    const answered = updates.get(done?.meta?.updateId ?? '');
    if (answered !== undefined && done?.outcome?.success !== undefined && done.outcome.success !== null)
      deeds.accepted.add(answered);
    await noteActivity(client, event, scheduled, deeds);
  }
}

function noteSent(deeds: RecordedDeeds, sent: SentMessage): string | undefined {
  const { message } = sent;
  const id = textAt(message, 'decisionId') ?? textAt(message, 'messageId');
  if (id !== undefined) deeds.messages.set(id, [...(deeds.messages.get(id) ?? []), sent]);
  return id;
}

/** Notes the calls that left within a stretch: each is on record before it leaves (docs/adr/0058). */
function noteStretch(deeds: RecordedDeeds, record: unknown): void {
  for (const call of listAt(record, 'turns').flatMap((turn) => listAt(turn, 'calls'))) {
    const callId = textAt(call, 'callId');
    if (callId === undefined) continue;
    noteDispatch(deeds, callId, 1);
    noteResult(deeds, callId, fieldOf(call, 'result'));
  }
}

function noteDispatch(deeds: RecordedDeeds, callId: string, attempt: unknown): void {
  deeds.dispatched.add(`${callId}/${typeof attempt === 'number' ? attempt : ''}`);
  deeds.outcomes.delete(callId);
  deeds.lost.delete(callId);
}

/** A call with an unknown outcome may be sent again, or be lost: the run decides. @param result absent if unknown */
function noteResult(deeds: RecordedDeeds, callId: string, result: unknown): void {
  const outcome = fieldOf(result, 'outcome');
  const isEnded = textAt(result, 'kind') === 'ended';
  if (isEnded && textAt(outcome, 'kind') !== 'unknown') {
    deeds.outcomes.set(callId, hashOf(outcome));
    deeds.lost.delete(callId);
  } else if (isEnded || result === undefined) deeds.lost.add(callId);
}

/** `resumeCall` and `pollTask` send nothing to the tool; their results are outcomes of the call that they ask about. */
const ABOUT_CALLS: readonly string[] = [ACTIVITIES.callTool, ACTIVITIES.resumeCall, ACTIVITIES.pollTask];

type Scheduled = Map<string, { readonly name: string; readonly callId: string }>;

async function noteActivity(
  client: Client,
  event: HistoryEvent,
  scheduled: Scheduled,
  deeds: RecordedDeeds,
): Promise<void> {
  const activity = activityIn(event);
  if (activity === undefined) return;
  const { kind, id, payloads } = activity;
  if (kind === 'scheduled') {
    const { name } = activity;
    if (STRETCHING.includes(name)) scheduled.set(id, { name, callId: '' });
    if (!ABOUT_CALLS.includes(name)) return;
    const [input] = await decoded(client, payloads);
    const callId = textAt(input, 'callId') ?? '';
    scheduled.set(id, { name, callId });
    if (name === ACTIVITIES.callTool) noteDispatch(deeds, callId, fieldOf(input, 'attempt'));
    return;
  }
  const begun = scheduled.get(id);
  if (begun === undefined || kind === 'canceled') return;
  if (STRETCHING.includes(begun.name)) {
    const [record] = await decoded(client, payloads).catch((error: unknown) => {
      deeds.unread.push(error);
      return [];
    });
    return noteStretch(deeds, record);
  }
  // An answer that is none, or that cannot be read, says nothing; a call that failed or timed out has none.
  if (kind === 'completed') noteResult(deeds, begun.callId, (await readable(client, payloads)) ?? null);
  // Only the last poll's outcome counts; a failed poll says nothing.
  else if (begun.name !== ACTIVITIES.pollTask) noteResult(deeds, begun.callId, undefined);
}

/**
 * Reports what the ledger and the history do not both have.
 * @param before entries read before the history; `after`: entries read after it
 * @throws why a record of calls cannot be read, if the ledger has a call that may stand in it
 */
export function compareWithHistory(
  { before, after }: { readonly before: readonly AnyEntry[]; readonly after: readonly AnyEntry[] },
  deeds: RecordedDeeds,
): LedgerFault[] {
  const faults: LedgerFault[] = [];
  const fault = (at: number, reason: string): void => void faults.push({ kind: 'history', seq: at, reason });
  for (const { seq, fact } of before.slice(deeds.from)) {
    const id = textAt(fact, 'decisionId') ?? textAt(fact, 'messageId');
    if (isSaid(fact.kind) && id !== undefined && !isInput(fact)) {
      const sent = deeds.messages.get(id);
      const signed = textAt(fact['signature'], 'sha256');
      if (sent === undefined) fault(seq, `is ${fact.kind} of ${id}, which nobody sent to the run`);
      else if (signed !== undefined && !sent.some(({ message }) => isSignedAs(message, signed)))
        fault(seq, `is ${fact.kind} of ${id} under another signature than was sent`);
    }
    if (fact.kind === 'dispatched' && !deeds.dispatched.has(`${textAt(fact, 'callId')}/${String(fact['attempt'])}`)) {
      // The key of that record may be missing here: the call may stand there.
      if (deeds.unread.length > 0) throw deeds.unread[0];
      fault(seq, `says that ${textAt(fact, 'callId')} was dispatched, which history does not`);
    }
    const isKnown = fact.kind === 'outcome' && fact['outcome'] !== 'unknown';
    const outcome = isKnown ? deeds.outcomes.get(textAt(fact, 'callId') ?? '') : undefined;
    if (outcome !== undefined && outcome !== textAt(fact, 'outcomeHash'))
      fault(seq, `is another outcome of ${textAt(fact, 'callId')} than its dispatch had`);
    if (isKnown && deeds.lost.has(textAt(fact, 'callId') ?? '') && !isResolved(before, fact))
      fault(seq, `says what became of ${textAt(fact, 'callId')}, which its dispatch does not and nobody has said`);
  }
  return [...faults, ...missingFrom(after, deeds)];
}

function isResolved(entries: readonly AnyEntry[], outcome: AnyEntry['fact']): boolean {
  return entries.some(
    ({ fact }) =>
      fact.kind === 'outcome.resolved' && fact['callId'] === outcome['callId'] && fact['answer'] === outcome['outcome'],
  );
}

function missingFrom(entries: readonly AnyEntry[], deeds: RecordedDeeds): LedgerFault[] {
  const facts = entries.map(({ fact }) => fact);
  // A dispatch names its decision but does not replace its entry. A refused edit has an entry of its own.
  const told = facts.filter(({ kind }) => isSaid(kind) || kind === 'decision.refused');
  const known = new Set(told.map((fact) => textAt(fact, 'decisionId') ?? textAt(fact, 'messageId')));
  const dispatched = new Set(
    facts.map((fact) => `${fact.kind === 'dispatched' ? textAt(fact, 'callId') : ''}/${String(fact['attempt'])}`),
  );
  const settled = new Set(facts.map((fact) => (fact.kind === 'outcome' ? textAt(fact, 'callId') : undefined)));
  const isOver = facts.at(-1)?.kind === 'run.ended';
  const missing = (reason: string): LedgerFault => ({ kind: 'history', seq: entries.length, reason });
  return [
    ...[...deeds.accepted].filter((id) => !known.has(id)).map((id) => missing(`is not there: ${id} was accepted`)),
    ...[...deeds.dispatched]
      .filter((id) => !dispatched.has(id))
      .map((id) => missing(`is not there: ${id} was dispatched`)),
    // While the run goes on, it may be about to write the outcome.
    ...[...deeds.outcomes.keys()]
      .filter((callId) => isOver && !settled.has(callId))
      .map((callId) => missing(`is not there: the outcome of ${callId}`)),
  ];
}

/** True if the message has the signature whose hash an entry names. */
export function isSignedAs(message: unknown, sha256: string): boolean {
  const { signature } = openMessage(message);
  return signature !== undefined && sha256Hex(signature) === sha256;
}

/** True for the run's first message, which stands in its spec and was not sent to it. */
function isInput(fact: AnyEntry['fact']): boolean {
  return fact.kind === 'said' && textAt(fact, 'messageId') === undefined;
}

/** Returns how many entries an execution began with: stored ones, and those written while these were being stored. */
function carriedIn([, carry]: readonly unknown[]): { readonly stored: number; readonly since: number } {
  const journal = fieldOf(carry, 'journal');
  const stored = Number(fieldOf(journal, 'ledgerLength') ?? 0);
  return { stored: Number.isSafeInteger(stored) ? stored : 0, since: listAt(journal, 'since').length };
}

/** The content of an answer: label, field of the entry, and signed value. Person and request are compared apart. */
type Said = readonly (readonly [string, readonly string[], unknown])[];

type AnswerFactKind = Extract<LedgerFact, { decisionId: string; digest: string }>['kind'];

interface AnswerReader {
  /** Also the name of the update that brings the answer. */
  readonly purpose: AnswerPurpose;
  readonly read: (sent: SentMessage) => SignedAnswer | undefined;
}

/** A new kind of answer does not compile without its row. */
const ANSWERS: Readonly<Record<AnswerFactKind, AnswerReader>> = {
  'decision.accepted': readerOf(
    'decide',
    parseDecision,
    (decision) => [
      ['decision', ['decision'], decision.kind],
      ['comment', ['comment'], decision.kind === 'reject' ? decision.reason : decision.comment],
      ['deadline', ['until'], decision.kind === 'extend' ? decision.until : undefined],
      ['change of arguments', ['edited', 'to'], isEdit(decision) ? hashOf(decision.arguments) : undefined],
      ['answer', ['answerHash'], decision.kind === 'respond' ? sha256Hex(decision.answer) : undefined],
      ['scope', ['remember'], decision.kind === 'approve' ? decision.remember : undefined],
    ],
    isEdit,
  ),
  'outcome.resolved': readerOf('resolveOutcome', parseResolution, (resolution) => [
    ['answer', ['answer'], resolution.kind],
    ['comment', ['comment'], resolution.comment],
    ['result', ['recordedHash'], recordedHash(resolution)],
  ]),
  'input.provided': readerOf('provideInput', parseProvision, (provision) => [
    ['answer', ['answer'], provision.kind],
    ['comment', ['comment'], provision.comment],
    ['answers', ['responsesHash'], responsesHash(provision)],
  ]),
  'authorization.given': readerOf('authorize', parseAuthorization, (given) => [
    ['answer', ['answer'], given.kind],
    ['comment', ['comment'], given.kind === 'decline' ? given.reason : given.comment],
    ['grant', ['grantHash'], given.kind === 'grant' ? hashOf(given.grant) : undefined],
  ]),
};

const RECORDED: readonly string[] = [UPDATES.say, ...Object.values(ANSWERS).map(({ purpose }) => UPDATES[purpose])];

export function isAnswerFact(kind: string): kind is AnswerFactKind {
  return Object.hasOwn(ANSWERS, kind);
}

function isSaid(kind: string): boolean {
  return kind === 'said' || isAnswerFact(kind);
}

export interface SignedAnswer {
  readonly message: Answerable;
  readonly signature: string;
  readonly purpose: AnswerPurpose;
  readonly said: Said;
  readonly isJudged: boolean;
}

/** Reads a sent message as the answer that an entry of this kind records; undefined if the message does not fit. */
export function signedAnswer(kind: string, sent: SentMessage): SignedAnswer | undefined {
  return isAnswerFact(kind) ? ANSWERS[kind].read(sent) : undefined;
}

/**
 * The reader takes a message as the run kept it, with defaults written out.
 * @param isJudged true if the answer is accepted later than it arrives, since it is judged first
 */
function readerOf<Message extends Answerable>(
  purpose: AnswerPurpose,
  parse: (value: unknown) => Parsed<Message>,
  said: (message: Message) => Said,
  isJudged: (message: Message) => boolean = () => false,
): AnswerReader {
  const read = ({ message: input }: SentMessage): SignedAnswer | undefined => {
    const { message, signature } = openMessage(input);
    const shape = parse(message);
    if (shape.kind === 'bad' || signature === undefined) return undefined;
    return { message: shape.value, signature, purpose, said: said(shape.value), isJudged: isJudged(shape.value) };
  };
  return { purpose, read };
}
