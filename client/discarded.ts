/**
 * Lists everything that a reset of a run would take back: decisions that stop counting, messages that Temporal sends again, calls that were
 * sent.
 *
 * Reads the newest execution; changes nothing.
 */
import type { Client } from '@temporalio/client';
import { decodeArrayFromPayloads } from '@temporalio/common/lib/internal-non-workflow/index.js';
import { tsToMs } from '@temporalio/common/lib/time.js';
import { ACTIVITIES } from '../contracts/names.ts';
import { endingOf, type SendEnding } from '../domain/discarded-send.ts';
import { fieldOf, textAt } from './ledger-files.ts';

type History = Awaited<ReturnType<ReturnType<Client['workflow']['getHandle']>['fetchHistory']>>;
type HistoryEvent = NonNullable<History['events']>[number];
type Payloads = Parameters<typeof decodeArrayFromPayloads>[1];

export interface DiscardedCall {
  readonly callId: string;
  readonly server: string;
  readonly tool: string;
  /** When it was handed to a worker. */
  readonly at: string;
  readonly ending: SendEnding;
  /** By the operator's word, as the run has it: it is sent again by itself. */
  readonly repeatable: boolean;
}

export interface DiscardedAnswer {
  /** Name of the update. */
  readonly update: string;
  readonly id: string;
  readonly callId?: string;
  /** Of a catalog, which settings it sets. */
  readonly tools?: readonly string[];
  readonly by?: string;
}

export interface DiscardedPart {
  /** Events from the workflow task on. */
  readonly events: number;
  readonly answers: readonly DiscardedAnswer[];
  readonly calls: readonly DiscardedCall[];
}

/** @param from event of the completed workflow task that is undone, with all after it */
export async function discardedPart(client: Client, history: History, from: number): Promise<DiscardedPart> {
  const events = history.events ?? [];
  const repeatable = new Set<string>();
  const calls = new Map<string, DiscardedCall>();
  const answers: DiscardedAnswer[] = [];
  for (const event of events) {
    const isDiscarded = Number(event.eventId) >= from;
    const completed = event.activityTaskCompletedEventAttributes;
    const [result] = await decoded(client, completed?.result?.payloads);
    for (const callId of repeatableIn(result)) repeatable.add(callId);
    if (!isDiscarded) continue;
    const scheduled = event.activityTaskScheduledEventAttributes;
    if (scheduled?.activityType?.name === ACTIVITIES.callTool) {
      const [input] = await decoded(client, scheduled.input?.payloads);
      calls.set(String(event.eventId), callOf(event, input));
    }
    const ended = completed ?? event.activityTaskTimedOutEventAttributes ?? event.activityTaskCanceledEventAttributes;
    const call = calls.get(String(ended?.scheduledEventId));
    if (ended && call)
      calls.set(String(ended.scheduledEventId), {
        ...call,
        ending: completed ? endingOf(result) : Number(ended.startedEventId ?? 0) === 0 ? 'unsent' : 'unknown',
      });
    const accepted = event.workflowExecutionUpdateAcceptedEventAttributes?.acceptedRequest;
    if (accepted) answers.push(answerOf(accepted, (await decoded(client, accepted.input?.args?.payloads))[0]));
  }
  return {
    events: events.filter(({ eventId }) => Number(eventId) >= from).length,
    answers,
    calls: [...calls.values()].map((call) => ({ ...call, repeatable: repeatable.has(call.callId) })),
  };
}

function callOf(event: HistoryEvent, input: unknown): DiscardedCall {
  const target = fieldOf(input, 'target');
  return {
    callId: textAt(input, 'callId') ?? 'cannot be read',
    server: textAt(target, 'server') ?? '',
    tool: textAt(target, 'tool') ?? '',
    at: new Date(tsToMs(event.eventTime)).toISOString(),
    ending: 'unknown',
    repeatable: false,
  };
}

function answerOf(
  {
    input,
    meta,
  }: NonNullable<NonNullable<HistoryEvent['workflowExecutionUpdateAcceptedEventAttributes']>['acceptedRequest']>,
  message: unknown,
): DiscardedAnswer {
  const callId = textAt(message, 'callId');
  const by = textAt(fieldOf(message, 'approver') ?? fieldOf(message, 'by'), 'id');
  const changes = fieldOf(message, 'changes');
  const tools = Array.isArray(changes) ? changes.map((change: unknown) => textAt(change, 'tool') ?? '') : [];
  return {
    update: input?.name ?? '',
    id: meta?.updateId ?? '',
    ...(callId === undefined ? {} : { callId }),
    ...(tools.length === 0 ? {} : { tools }),
    ...(by === undefined ? {} : { by }),
  };
}

/** Call ids whose verdict, in a model step or from the judge, says so. */
function repeatableIn(result: unknown): readonly string[] {
  const judged = fieldOf(result, 'judged') ?? result;
  const judgements = fieldOf(judged, 'judgements');
  if (!Array.isArray(judgements)) return [];
  return judgements.flatMap((each: unknown) =>
    fieldOf(each, 'repeatable') === true ? [textAt(each, 'callId') ?? ''] : [],
  );
}

/** What cannot be read is shown as such, not thrown: the run is broken already. */
async function decoded(client: Client, payloads: Payloads): Promise<readonly unknown[]> {
  try {
    return await decodeArrayFromPayloads(client.options.loadedDataConverter, payloads ?? []);
  } catch {
    return [];
  }
}
