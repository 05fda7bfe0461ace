/**
 * Do a ledger and Temporal's history say the same? Of decisions, messages, dispatches and outcomes, in both directions, for as
 * long as the history is retained.
 *
 * 1. The ledger is read before and after the history: what is in neither reading of it may be under way, and is no fault.
 */
import { createHash } from 'node:crypto';
import type { Client } from '@temporalio/client';
import { decodeArrayFromPayloads } from '@temporalio/common/lib/internal-non-workflow/index.js';
import { tsToMs } from '@temporalio/common/lib/time.js';
import { ACTIVITIES, SIGNALS, UPDATES } from '../contracts/names.ts';
import type { AnyEntry } from '../contracts/schemas/ledger-record.ts';
import { hashOf } from '../domain/canonical.ts';
import { executionChain } from './execution-chain.ts';
import type { LedgerFault } from './ledger-check.ts';
import { fieldOf, textAt } from './ledger-files.ts';
import type { AnswerFactKind } from './signed-answers.ts';

type History = Awaited<ReturnType<ReturnType<Client['workflow']['getHandle']>['fetchHistory']>>;
type HistoryEvent = NonNullable<History['events']>[number];
type Payloads = Parameters<typeof decodeArrayFromPayloads>[1];

/** As it stands in history. */
export interface SentMessage {
  readonly message: unknown;
  /** When Temporal recorded it, epoch ms. */
  readonly at: number;
}

export interface RecordedDeeds {
  /** What the run was started with; `at` is absent where its first execution is not retained any more. */
  start: { readonly spec: unknown; readonly at?: number };
  /** Entries before this one are of executions whose history is not retained any more. */
  from: number;
  /** Decision id, or message id → hashes of what came with it, of which one is that of its signature. */
  readonly sent: Map<string, readonly string[]>;
  /** The same messages, whole. */
  readonly messages: Map<string, readonly SentMessage[]>;
  /** Those whose update was answered without an error. */
  readonly accepted: Set<string>;
  /** `callId/attempt` of dispatches. */
  readonly dispatched: Set<string>;
  /** Call id → hash of the outcome with which its last dispatch ended, save where it is not known how. */
  readonly outcomes: Map<string, string>;
  /** Calls whose last dispatch ended without an answer: only a person's word makes their outcome known. */
  readonly lost: Set<string>;
}

/**
 * @param before event of the newest execution up to which it is read; absent: all of it
 * @throws as Temporal does where the newest execution cannot be read
 */
export async function readDeeds(client: Client, workflowId: string, before?: number): Promise<RecordedDeeds> {
  const deeds: RecordedDeeds = {
    start: { spec: undefined },
    from: 0,
    sent: new Map(),
    messages: new Map(),
    accepted: new Set(),
    dispatched: new Set(),
    outcomes: new Map(),
    lost: new Set(),
  };
  const { histories, isWhole } = await executionChain(client, workflowId);
  const chain = histories.map(({ events }, index) =>
    index === histories.length - 1 && before !== undefined
      ? (events ?? []).filter(({ eventId }) => Number(eventId) < before)
      : (events ?? []),
  );
  const first = chain[0]?.[0];
  const input = await decoded(client, first?.workflowExecutionStartedEventAttributes?.input?.payloads);
  deeds.start = { spec: input[0], ...(isWhole ? { at: tsToMs(first?.eventTime) } : {}) };
  // Whoever starts a run hands over nothing: a first execution that says so does not hide what comes before.
  deeds.from = deeds.start.at === undefined ? carriedLength(input) : 0;
  for (const events of chain) await readExecution(client, events, deeds);
  return deeds;
}

/** Facts that messages of people become, and the updates that bring them: a new kind of answer does not compile without its row. */
const SAID: Readonly<Record<AnswerFactKind | 'said', string>> = {
  'decision.accepted': UPDATES.decide,
  'outcome.resolved': UPDATES.resolveOutcome,
  'input.provided': UPDATES.provideInput,
  'authorization.given': UPDATES.authorize,
  said: UPDATES.say,
};
const RECORDED: readonly string[] = Object.values(SAID);

async function readExecution(client: Client, events: readonly HistoryEvent[], deeds: RecordedDeeds): Promise<void> {
  const updates = new Map<string, string>();
  const scheduled = { calls: new Map<string, string>(), polls: new Map<string, string>() };
  for (const event of events) {
    const signal = event.workflowExecutionSignaledEventAttributes;
    const at = tsToMs(event.eventTime);
    if (signal?.signalName === SIGNALS.decide)
      noteSent(deeds, { message: (await decoded(client, signal.input?.payloads))[0], at }, undefined);
    // After a reset an update that is applied again stands there as admitted, and is accepted without being repeated.
    const accepted =
      event.workflowExecutionUpdateAcceptedEventAttributes?.acceptedRequest ??
      event.workflowExecutionUpdateAdmittedEventAttributes?.request;
    const name = accepted?.input?.name ?? '';
    if (RECORDED.includes(name))
      noteSent(deeds, { message: (await decoded(client, accepted?.input?.args?.payloads))[0], at }, (id) =>
        updates.set(accepted?.meta?.updateId ?? '', id),
      );
    const done = event.workflowExecutionUpdateCompletedEventAttributes;
    const answered = updates.get(done?.meta?.updateId ?? '');
    if (answered !== undefined && done?.outcome?.success !== undefined && done.outcome.success !== null)
      deeds.accepted.add(answered);
    await noteCall(client, event, scheduled, deeds);
  }
}

function noteSent(deeds: RecordedDeeds, sent: SentMessage, found: ((id: string) => void) | undefined): void {
  const { message } = sent;
  const id = textAt(message, 'decisionId') ?? textAt(message, 'messageId');
  if (id === undefined || typeof message !== 'object' || message === null) return;
  const texts = Object.values(message).filter((value): value is string => typeof value === 'string');
  deeds.sent.set(id, [...(deeds.sent.get(id) ?? []), ...texts.map(sha256)]);
  deeds.messages.set(id, [...(deeds.messages.get(id) ?? []), sent]);
  found?.(id);
}

async function noteCall(
  client: Client,
  event: HistoryEvent,
  { calls, polls }: Readonly<Record<'calls' | 'polls', Map<string, string>>>,
  deeds: RecordedDeeds,
): Promise<void> {
  const scheduled = event.activityTaskScheduledEventAttributes;
  if (scheduled?.activityType?.name === ACTIVITIES.callTool) {
    const [input] = await decoded(client, scheduled.input?.payloads);
    const callId = textAt(input, 'callId') ?? '';
    const attempt = typeof input === 'object' && input !== null && 'attempt' in input ? String(input.attempt) : '';
    calls.set(String(event.eventId), callId);
    deeds.dispatched.add(`${callId}/${attempt}`);
    deeds.outcomes.delete(callId);
    deeds.lost.delete(callId);
  }
  // It sends nothing; what it ends with is how the call ended that it asks for.
  if (scheduled?.activityType?.name === ACTIVITIES.resumeCall) {
    const [input] = await decoded(client, scheduled.input?.payloads);
    calls.set(String(event.eventId), textAt(input, 'callId') ?? '');
  }
  // The same call, not sent again: only what a poll says at last counts, and one that failed says nothing.
  if (scheduled?.activityType?.name === ACTIVITIES.pollTask) {
    const [input] = await decoded(client, scheduled.input?.payloads);
    polls.set(String(event.eventId), textAt(input, 'callId') ?? '');
  }
  const completed = event.activityTaskCompletedEventAttributes;
  const ended = completed ?? event.activityTaskFailedEventAttributes ?? event.activityTaskTimedOutEventAttributes;
  const at = String(ended?.scheduledEventId);
  const callId = calls.get(at) ?? (ended === completed ? polls.get(at) : undefined);
  if (callId === undefined) return;
  const [result] = await decoded(client, completed?.result?.payloads);
  const outcome = fieldOf(result, 'outcome');
  // What is not known may be sent again, or become known to be lost: the run decides what it says of it.
  const isEnded = textAt(result, 'kind') === 'ended';
  if (isEnded && textAt(outcome, 'kind') !== 'unknown') {
    deeds.outcomes.set(callId, hashOf(outcome));
    deeds.lost.delete(callId);
  } else if (isEnded || ended !== completed) deeds.lost.add(callId);
}

/** @param before entries that were there before the history was read; `after`: those that were there when it had been read */
export function compareWithHistory(
  { before, after }: { readonly before: readonly AnyEntry[]; readonly after: readonly AnyEntry[] },
  deeds: RecordedDeeds,
): LedgerFault[] {
  const faults: LedgerFault[] = [];
  const fault = (at: number, reason: string): void => void faults.push({ kind: 'history', seq: at, reason });
  for (const { seq, fact } of before.slice(deeds.from)) {
    const id = textAt(fact, 'decisionId') ?? textAt(fact, 'messageId');
    if (Object.hasOwn(SAID, fact.kind) && id !== undefined && !isInput(fact)) {
      const hashes = deeds.sent.get(id);
      const signature = fact['signature'];
      const signed = textAt(signature, 'sha256');
      if (hashes === undefined) fault(seq, `is ${fact.kind} of ${id}, which nobody sent to the run`);
      else if (signed !== undefined && !hashes.includes(signed))
        fault(seq, `is ${fact.kind} of ${id} under another signature than was sent`);
    }
    if (fact.kind === 'dispatched' && !deeds.dispatched.has(`${textAt(fact, 'callId')}/${String(fact['attempt'])}`))
      fault(seq, `says that ${textAt(fact, 'callId')} was dispatched, which history does not`);
    const isKnown = fact.kind === 'outcome' && fact['outcome'] !== 'unknown';
    const outcome = isKnown ? deeds.outcomes.get(textAt(fact, 'callId') ?? '') : undefined;
    if (outcome !== undefined && outcome !== textAt(fact, 'outcomeHash'))
      fault(seq, `is another outcome of ${textAt(fact, 'callId')} than its dispatch had`);
    if (isKnown && deeds.lost.has(textAt(fact, 'callId') ?? '') && !isResolved(before, fact))
      fault(seq, `says what became of ${textAt(fact, 'callId')}, which its dispatch does not and nobody has said`);
  }
  return [...faults, ...missingFrom(after, deeds)];
}

/** Has a person said that this is what became of the call? */
function isResolved(entries: readonly AnyEntry[], outcome: AnyEntry['fact']): boolean {
  return entries.some(
    ({ fact }) =>
      fact.kind === 'outcome.resolved' && fact['callId'] === outcome['callId'] && fact['answer'] === outcome['outcome'],
  );
}

/** What history has and the ledger has not. */
function missingFrom(entries: readonly AnyEntry[], deeds: RecordedDeeds): LedgerFault[] {
  const facts = entries.map(({ fact }) => fact);
  // A dispatch names the decision that it follows from, and does not take its place; of an edit that was refused it is said so.
  const told = facts.filter(({ kind }) => Object.hasOwn(SAID, kind) || kind === 'decision.refused');
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
    // While the run goes on it may be about to say so.
    ...[...deeds.outcomes.keys()]
      .filter((callId) => isOver && !settled.has(callId))
      .map((callId) => missing(`is not there: the outcome of ${callId}`)),
  ];
}

/** The message that a run begins with was not sent to it: it stands in its spec. */
function isInput(fact: AnyEntry['fact']): boolean {
  return fact.kind === 'said' && textAt(fact, 'messageId') === undefined;
}

/** Where the ledger of the oldest execution begins: what continue-as-new handed over, entries that came while it was stored among it. */
function carriedLength([, carry]: readonly unknown[]): number {
  if (typeof carry !== 'object' || carry === null || !('journal' in carry)) return 0;
  const { journal } = carry;
  if (typeof journal !== 'object' || journal === null || !('ledgerLength' in journal)) return 0;
  const since = 'since' in journal && Array.isArray(journal.since) ? journal.since.length : 0;
  return Number(journal.ledgerLength) + since;
}

async function decoded(client: Client, payloads: Payloads): Promise<readonly unknown[]> {
  return await decodeArrayFromPayloads(client.options.loadedDataConverter, payloads ?? []);
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
